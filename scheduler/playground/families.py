"""The kinds of NPU nodes that can be simulated: chips, labels, and how chips can be divided."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.names import ASCEND_310, ASCEND_310P, ASCEND_710, ASCEND_910, HUAWEI_PREFIX, NPU, NVIDIA_GPU

DYNAMIC: Final = "dynamic"
"""The division of chips into virtual NPUs when Pods start."""


class Template(NamedTuple):
    """A kind of virtual NPU."""

    name: str
    """The name that the scheduler writes: ``vir02_1c``."""
    suffix: str
    """The name within resources and device names: ``2c.1cpu``."""
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
    gpus: bool = False
    """Whether the chips are GPUs, whose device plugin reads no annotations and writes no ConfigMaps."""
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


class _Chip(NamedTuple):
    """What the nodes with one kind of chip have in common."""

    resource: str
    accelerator: str
    """The label ``accelerator``."""
    server: str = ""
    """The label ``servertype``; for this and the next two, "": none."""
    name: str = ""
    """The label with the name of the chip."""
    memory: str = ""
    """The label with the memory of the chip."""
    cores: int = 0
    cpus: int = 0
    templates: tuple[Template, ...] = ()


_910A: Final = _Chip(
    ASCEND_910, "huawei-Ascend910", "Ascend910-32", "910A", "32G", 32, 14,
    (
        Template("vir02", "2c", 2, 1),
        Template("vir04", "4c", 4, 1),
        Template("vir08", "8c", 8, 3),
        Template("vir16", "16c", 16, 7),
    ),
)  # fmt: skip
_910B3: Final = _Chip(
    ASCEND_910, "huawei-Ascend910", "Ascend910B-20", "910B3", "64G", 20, 6,
    (Template("vir05_1c_16g", "5c.1cpu.16g", 5, 1), Template("vir10_3c_32g", "10c.3cpu.32g", 10, 3)),
)  # fmt: skip
_910A3: Final = _Chip(
    ASCEND_910, "huawei-Ascend910", "Ascend910A3-24", "910A3", "64G", 24, 6,
    (Template("vir06_1c_16g", "6c.1cpu.16g", 6, 1), Template("vir12_3c_32g", "12c.3cpu.32g", 12, 3)),
)  # fmt: skip
_310P3: Final = _Chip(
    ASCEND_310P, "huawei-Ascend310P", "Ascend310P-8", "310P3", "", 8, 7,
    (
        Template("vir01", "1c", 1, 1),
        Template("vir02", "2c", 2, 2),
        Template("vir02_1c", "2c.1cpu", 2, 1),
        Template("vir04", "4c", 4, 4),
        Template("vir04_3c", "4c.3cpu", 4, 3),
        Template("vir04_3c_ndvpp", "4c.3cpu.ndvpp", 4, 3),
        Template("vir04_4c_dvpp", "4c.4cpu.dvpp", 4, 4),
    ),
)  # fmt: skip
_710: Final = _Chip(ASCEND_710, "huawei-Ascend710")
_310: Final = _Chip(ASCEND_310, "huawei-Ascend310")
_NPU: Final = _Chip(NPU, "huawei-npu")


def _family(
    name: str, hardware: str, chips: int, chip: _Chip, type: str = "", *, super_pods: bool = False, duo: bool = False
) -> NodeFamily:
    """A kind of node with a number of chips. ``type``: the label ``accelerator-type``; "": none."""
    labels = {
        "accelerator": chip.accelerator,
        "accelerator-type": type,
        "servertype": chip.server,
        "node.kubernetes.io/npu.chip.name": chip.name,
        "mind-cluster/npu-chip-memory": chip.memory,
        "infer-card-type": "card-300i-duo" if duo else "",
    }
    return NodeFamily(
        name=name, hardware=hardware, resource=chip.resource, chips=chips, super_pods=super_pods, duo=duo,
        labels={key: value for key, value in labels.items() if value},
        cores=chip.cores, cpus=chip.cpus, templates=chip.templates,
    )  # fmt: skip


FAMILIES: Final[Mapping[str, NodeFamily]] = {
    family.name: family
    for family in (
        _family("910-8", "Atlas 800 training", 8, _910A, "module"),
        _family("910-4", "Atlas 800 training, half", 4, _910A, "half"),
        _family("910-2", "Atlas 300T", 2, _910A, "card"),
        _family("910b-8", "Atlas 800T A2", 8, _910B3, "module-910b-8"),
        _family("910b-16", "Atlas 200T A2 Box16", 16, _910B3, "module-910b-16"),
        _family("a3-8", "Atlas 800T A3, 8 chips (chip2-node8)", 8, _910A3),
        _family("a3-16", "Atlas 800T A3", 16, _910A3, "module-a3-16"),
        _family(
            "a3-8-super-pod", "Atlas 900 A3 SuperPoD, 8 chips", 8, _910A3, "module-a3-8-super-pod", super_pods=True
        ),
        _family("a3-16-super-pod", "Atlas 900 A3 SuperPoD", 16, _910A3, "module-a3-16-super-pod", super_pods=True),
        _family("npu-8", "350, 8 cards", 8, _NPU),
        _family("npu-16", "350, 16 cards", 16, _NPU),
        _family("310-8", "two Atlas 300I", 8, _310),
        _family("310p-8", "Atlas 300I Pro, 300V", 8, _310P3),
        _family("710-8", "Atlas 300I Pro, device plugin of before May 2022", 8, _710),
        _family("310p-duo-8", "four Atlas 300I Duo", 8, _310P3, duo=True),
    )
}

PLUGIN_FAMILIES: Final[Mapping[str, NodeFamily]] = {
    **FAMILIES,
    "gpu-8": NodeFamily(
        name="gpu-8", hardware="DGX A100", resource=NVIDIA_GPU, chips=8, gpus=True,
        labels={
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "81920",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        },
    ),
}  # fmt: skip
"""The kinds of nodes that a device plugin offers to a real kubelet. Nodes with GPUs are not simulated otherwise."""


def division_problem(family: NodeFamily, division: str) -> str:
    """Why chips of a family cannot be divided so; "" if they can. ``division``: "" (whole chips), ``dynamic``, or the
    name or suffix of a template, into which all chips are divided beforehand."""
    if not division or (division == DYNAMIC and family.cores) or family.template(division):
        return ""
    known = [DYNAMIC, *(template.suffix for template in family.templates)]
    if not family.cores:
        return f"chips of {family.name} cannot be divided"
    return f"chips of {family.name} cannot be divided into {division}: {', '.join(known)}"
