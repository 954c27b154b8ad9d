"""The kinds of NPU nodes that can be simulated: chips, labels, and how chips can be divided."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.names import ASCEND_310, ASCEND_310P, ASCEND_910, HUAWEI_PREFIX, NPU

DYNAMIC: Final = "dynamic"
"""The division of chips into virtual NPUs when Pods start."""


class Template(NamedTuple):
    """A kind of virtual NPU."""

    name: str
    """As the scheduler writes it: ``vir02_1c``."""
    suffix: str
    """As resources and device names have it: ``2c.1cpu``."""
    cores: int
    cpus: int


class NodeFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of NPU node."""

    name: str
    hardware: str
    resource: str
    chips: int
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    super_pods: bool = False
    """Whether its nodes form super pods."""
    duo: bool = False
    """Whether a card has two chips (Atlas 300I Duo)."""
    cores: int = 0
    """AI cores of a chip; 0 if its chips cannot be divided."""
    cpus: int = 0
    """AI CPUs of a chip."""
    templates: tuple[Template, ...] = ()

    @property
    def prefix(self) -> str:
        """The beginning of the names of its chips."""
        return f"{self.resource.removeprefix(HUAWEI_PREFIX)}-"

    @property
    def chip_names(self) -> list[str]:
        return [f"{self.prefix}{chip}" for chip in range(self.chips)]

    @property
    def has_network(self) -> bool:
        """Whether its chips are connected, so that they can have faults of the network."""
        return self.resource in (ASCEND_910, NPU)

    def template(self, name: str) -> Template | None:
        """The template with a name or suffix."""
        return next((each for each in self.templates if name in (each.name, each.suffix)), None)


def _templates(*rows: tuple[str, str, int, int]) -> tuple[Template, ...]:
    return tuple(Template(*row) for row in rows)


_OF_910: Final = _templates(
    ("vir02", "2c", 2, 1), ("vir04", "4c", 4, 1), ("vir08", "8c", 8, 3), ("vir16", "16c", 16, 7)
)
_OF_910B3: Final = _templates(("vir05_1c_16g", "5c.1cpu.16g", 5, 1), ("vir10_3c_32g", "10c.3cpu.32g", 10, 3))
_OF_910A3: Final = _templates(("vir06_1c_16g", "6c.1cpu.16g", 6, 1), ("vir12_3c_32g", "12c.3cpu.32g", 12, 3))
_OF_310P: Final = _templates(
    ("vir01", "1c", 1, 1),
    ("vir02", "2c", 2, 2),
    ("vir02_1c", "2c.1cpu", 2, 1),
    ("vir04", "4c", 4, 4),
    ("vir04_3c", "4c.3cpu", 4, 3),
    ("vir04_3c_ndvpp", "4c.3cpu.ndvpp", 4, 3),
    ("vir04_4c_dvpp", "4c.4cpu.dvpp", 4, 4),
)


def _labels(accelerator: str, *, type: str = "", server: str = "", chip: str = "", memory: str = "") -> dict[str, str]:
    """The labels of nodes; empty values are left out."""
    labels = {
        "accelerator": accelerator,
        "accelerator-type": type,
        "servertype": server,
        "node.kubernetes.io/npu.chip.name": chip,
        "mind-cluster/npu-chip-memory": memory,
    }
    return {key: value for key, value in labels.items() if value}


def _910(name: str, hardware: str, chips: int, type: str) -> NodeFamily:
    labels = _labels("huawei-Ascend910", type=type, server="Ascend910-32", chip="910A", memory="32G")
    return NodeFamily(
        name=name, hardware=hardware, resource=ASCEND_910, chips=chips, labels=labels, cores=32, cpus=14,
        templates=_OF_910,
    )  # fmt: skip


def _910b(name: str, hardware: str, chips: int, type: str) -> NodeFamily:
    labels = _labels("huawei-Ascend910", type=type, server="Ascend910B-20", chip="910B3", memory="64G")
    return NodeFamily(
        name=name, hardware=hardware, resource=ASCEND_910, chips=chips, labels=labels, cores=20, cpus=6,
        templates=_OF_910B3,
    )  # fmt: skip


def _a3(name: str, hardware: str, chips: int, type: str, *, super_pods: bool = False) -> NodeFamily:
    labels = _labels("huawei-Ascend910", type=type, server="Ascend910A3-24", chip="910A3", memory="64G")
    return NodeFamily(
        name=name, hardware=hardware, resource=ASCEND_910, chips=chips, labels=labels, cores=24, cpus=6,
        templates=_OF_910A3, super_pods=super_pods,
    )  # fmt: skip


def _310p(name: str, hardware: str, *, duo: bool = False) -> NodeFamily:
    labels = _labels("huawei-Ascend310P", server="Ascend310P-8", chip="310P3")
    if duo:
        labels["infer-card-type"] = "card-300i-duo"
    return NodeFamily(
        name=name, hardware=hardware, resource=ASCEND_310P, chips=8, labels=labels, cores=8, cpus=7,
        templates=_OF_310P, duo=duo,
    )  # fmt: skip


def _npu(name: str, hardware: str, chips: int) -> NodeFamily:
    return NodeFamily(name=name, hardware=hardware, resource=NPU, chips=chips, labels=_labels("huawei-npu"))


FAMILIES: Final[Mapping[str, NodeFamily]] = {
    family.name: family
    for family in (
        _910("910-8", "Atlas 800 training", 8, "module"),
        _910("910-4", "Atlas 800 training, half", 4, "half"),
        _910("910-2", "Atlas 300T", 2, "card"),
        _910b("910b-8", "Atlas 800T A2", 8, "module-910b-8"),
        _910b("910b-16", "Atlas 200T A2 Box16", 16, "module-910b-16"),
        _a3("a3-8", "Atlas 800T A3, 8 chips (chip2-node8)", 8, ""),
        _a3("a3-16", "Atlas 800T A3", 16, "module-a3-16"),
        _a3("a3-8-super-pod", "Atlas 900 A3 SuperPoD, 8 chips", 8, "module-a3-8-super-pod", super_pods=True),
        _a3("a3-16-super-pod", "Atlas 900 A3 SuperPoD", 16, "module-a3-16-super-pod", super_pods=True),
        _npu("npu-8", "350, 8 cards", 8),
        _npu("npu-16", "350, 16 cards", 16),
        NodeFamily(
            name="310-8",
            hardware="two Atlas 300I",
            resource=ASCEND_310,
            chips=8,
            labels=_labels("huawei-Ascend310"),
        ),
        _310p("310p-8", "Atlas 300I Pro, 300V"),
        _310p("310p-duo-8", "four Atlas 300I Duo", duo=True),
    )
}


def division_problem(family: NodeFamily, division: str) -> str:
    """Why chips of a family cannot be divided so; "" if they can. ``division``: "" (whole chips), ``dynamic``, or the
    name or suffix of a template, into which all chips are divided beforehand."""
    if not division or (division == DYNAMIC and family.cores) or family.template(division):
        return ""
    known = [DYNAMIC, *(template.suffix for template in family.templates)]
    if not family.cores:
        return f"chips of {family.name} cannot be divided"
    return f"chips of {family.name} cannot be divided into {division}: {', '.join(known)}"
