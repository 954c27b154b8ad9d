"""The models of chips that can be divided, with their templates of virtual NPUs, and the rules for requests of cores.

The label ``ring-controller.atlas`` says which resource of chips is divided; the numbers of AI cores are those of the
models of this resource. Which model it is depends on the node.
"""

from collections.abc import Container, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.job import Job
from scheduler.api.names import (
    ACCELERATOR,
    ASCEND_310P,
    ASCEND_910,
    CHIP_NAME,
    NPU_CORE,
    NPU_JOB_KIND,
    SERVER_TYPE,
    VNPU_DVPP,
    VNPU_LEVEL,
)
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.ascend.resolve import REASON_POLICY
from scheduler.plugins.ascend.settings import PRESET_VIRTUAL_DEVICE

YES: Final = "yes"
NO: Final = "no"
NULL: Final = "null"
"""Whether a virtual NPU has the image processor (DVPP) of its chip: yes, no, or a share."""


class CoreRequest(NamedTuple):
    """The request of one Pod."""

    cores: int
    high: bool = False
    """The label ``vnpu-level`` is ``high``."""
    dvpp: str = NULL


class PartTemplate(msgspec.Struct, frozen=True):
    """The size of a virtual NPU. Its name is part of the contract with the device plugin."""

    name: str
    cores: int
    cpus: int
    dvpp: str = NULL


class ChipModel(msgspec.Struct, frozen=True):
    """A model of chips."""

    name: str
    resource: str
    """The extended resource of whole chips."""
    cores: frozenset[int]
    """The numbers of AI cores that a chip may have."""
    cpus: int
    templates: tuple[PartTemplate, ...]
    requests: tuple[int, ...]
    """The numbers of AI cores, less than a chip, for which a Pod may ask."""
    with_dvpp: frozenset[int] = frozenset()
    """The ``requests`` with which the label ``vnpu-dvpp`` may be set."""
    with_level: frozenset[int] = frozenset()
    """The ``requests`` with which the label ``vnpu-level`` may be ``high``."""
    groups: bool = False
    """The virtual NPUs of a chip form at most four groups."""

    def template(self, cores: int, high: bool, dvpp: str) -> PartTemplate | None:
        """Returns the template of a request: of those with its cores and its DVPP the one with the most AI CPUs if the
        level is high, else the one with the fewest. None if there is none."""
        fitting = [t for t in self.templates if t.cores == cores and t.dvpp == dvpp]
        return (max if high else min)(fitting, key=lambda t: t.cpus, default=None)

    def smaller(self, template: PartTemplate) -> PartTemplate | None:
        """Returns the template with the same cores and DVPP and fewer AI CPUs, to be used if those lack; None if there
        is none."""
        found = self.template(template.cores, False, template.dvpp)
        return found if found is not None and found.cpus < template.cpus else None

    def named(self, name: str) -> PartTemplate | None:
        return next((t for t in self.templates if t.name == name), None)


_310P: Final = ChipModel(
    "Ascend310P",
    ASCEND_310P,
    frozenset({8, 10}),
    7,
    (
        PartTemplate("vir01", 1, 1),
        PartTemplate("vir02", 2, 2),
        PartTemplate("vir02_1c", 2, 1),
        PartTemplate("vir04", 4, 4),
        PartTemplate("vir04_3c", 4, 3),
        PartTemplate("vir04_3c_ndvpp", 4, 3, NO),
        PartTemplate("vir04_4c_dvpp", 4, 4, YES),
    ),
    (1, 2, 4),
    with_dvpp=frozenset({4}),
    with_level=frozenset({1, 2, 4}),
    groups=True,
)
_B1: Final = (
    PartTemplate("vir03_1c_8g", 3, 1),
    PartTemplate("vir06_1c_16g", 6, 1),
    PartTemplate("vir12_3c_32g", 12, 3),
)
_B3: Final = (PartTemplate("vir05_1c_16g", 5, 1), PartTemplate("vir10_3c_32g", 10, 3))
_B4: Final = (
    PartTemplate("vir05_1c_8g", 5, 1),
    PartTemplate("vir10_3c_16g", 10, 3),
    PartTemplate("vir10_3c_16g_nm", 10, 3, NO),
    PartTemplate("vir10_4c_16g_m", 10, 4, YES),
)


def _910(name: str, cores: int, templates: tuple[PartTemplate, ...], requests: tuple[int, ...]) -> ChipModel:
    return ChipModel(name, ASCEND_910, frozenset({cores}), 6, templates, requests)


MODELS: Final[Mapping[str, ChipModel]] = {
    model.name: model
    for model in (
        _310P,
        _910("910B1", 25, _B1, (6, 12)),
        _910("910B2", 24, _B1, (6, 12)),
        _910("910B2C", 24, _B1, (6, 12)),
        _910("910B3", 20, _B3, (5, 10)),
        _910("910B4-1", 20, _B3, (5, 10)),
        ChipModel(
            "910B4",
            ASCEND_910,
            frozenset({20}),
            6,
            _B4,
            (5, 10),
            with_dvpp=frozenset({10}),
            with_level=frozenset({10}),
        ),
        _910("Ascend910A3-20", 20, _B3, (5, 10)),
        _910("Ascend910A3-24", 24, _B1[1:], (6, 12)),
    )
}
"""The models by the name of the chip, or by the server type of A3 servers."""


class ChipKind(NamedTuple):
    """What the chips of a node are."""

    model: ChipModel
    size: int
    """AI cores of a chip."""


class UnknownModel(NamedTuple):
    """Why the labels of a node do not say what its chips are."""

    label: str
    problem: str


_A3: Final = "Ascend910A3-"


def model_of(labels: Mapping[str, str]) -> ChipKind | UnknownModel:
    """Returns the model of the chips of a node, and how many AI cores a chip has, by the labels of the node."""
    kind, server = labels.get(ACCELERATOR, "").partition("-")[2], labels.get(SERVER_TYPE, "")
    key, name = SERVER_TYPE, server
    if not server.startswith(_A3):
        key, name = (ACCELERATOR, kind) if kind in MODELS else (CHIP_NAME, labels.get(CHIP_NAME, ""))
    model = MODELS.get(name)
    if model is None:
        return UnknownModel(key, f"{name[:64]!r} is no model of chips that can be divided; known: {', '.join(MODELS)}")
    fields = server.split("-")
    digits = fields[1] if len(fields) > 1 else ""
    size = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 4 else 0
    if size not in model.cores:
        sizes = " or ".join(map(str, sorted(model.cores)))
        problem = f"{server[:64]!r} does not say that a chip of {model.name} has {sizes} AI cores"
        return UnknownModel(SERVER_TYPE, problem)
    return ChipKind(model, size)


REASON_REQUEST: Final = "InvalidResourceRequest"
REASON_STATIC: Final = "InvalidArgument"
KINDS: Final[Mapping[str, str]] = {
    "ascend-910": ASCEND_910,
    "ascend-910b": ASCEND_910,
    "huawei.com.npu": ASCEND_910,
    "ascend-310P": ASCEND_310P,
}
"""Value of the label -> the resource whose chips are divided."""
HIGH: Final = "high"
_DVPP: Final = (YES, NO, NULL)


def resource_of(job: Job, tasks: list[Task], *, preset: bool) -> str | Refusal:
    """Returns the resource whose chips the job divides. ``preset``: virtual NPUs are only created beforehand."""
    if preset:
        return Refusal(
            REASON_STATIC,
            f"{NPU_CORE}: {PRESET_VIRTUAL_DEVICE} is true, so only virtual NPUs that were created beforehand can be "
            "requested",
        )
    values = {labels[NPU_JOB_KIND] for labels in (job.labels, *(t.labels for t in tasks)) if NPU_JOB_KIND in labels}
    value = "|".join(sorted(values))
    if value in KINDS:
        return KINDS[value]
    return Refusal(
        REASON_POLICY,
        f"{NPU_CORE} with {NPU_JOB_KIND}={value[:64] or 'none'} is not supported; supported: {', '.join(KINDS)}",
    )


def request_of(cls: TaskClass, cores: int) -> CoreRequest:
    return CoreRequest(cores, cls.labels.get(VNPU_LEVEL) == HIGH, cls.labels.get(VNPU_DVPP, NULL))


def check(resource: str, there: Container[ChipModel], task: Task, request: CoreRequest) -> Refusal | None:
    """Returns a refusal if no model of the resource has what a Pod asks for. ``there``: the models of the cluster."""
    models = [model for model in MODELS.values() if model.resource == resource]
    if len(models) > 1:
        models = [model for model in models if model in there]
    if any(is_valid(model, request) for model in models):
        return None
    if not models:
        text = f"Pod {task.key} asks for {request.cores} {NPU_CORE}; no node has {resource} chips that can be divided"
        return Refusal(REASON_REQUEST, text)
    if request.dvpp not in _DVPP and any(request.cores in model.with_dvpp for model in models):
        return None  # the NPU plugin accepts the job, and no node takes it
    if request.dvpp not in _DVPP:
        text = f"Pod {task.key} has the label {VNPU_DVPP}={request.dvpp[:64]}; it may be yes, no or null"
        return Refusal(REASON_REQUEST, text)
    sizes = [model for model in models if _has_cores(model, request.cores)]
    if sizes:
        level = "high" if request.high else "low"
        text = (
            f"Pod {task.key} asks for {request.cores} {NPU_CORE} with {VNPU_LEVEL}={level} and "
            f"{VNPU_DVPP}={request.dvpp}; {_labels_text(sizes)}"
        )
    else:
        text = f"Pod {task.key} asks for {request.cores} {NPU_CORE}; it may ask for {_sizes_text(models)}"
    return Refusal(REASON_REQUEST, text)


def is_valid(model: ChipModel, request: CoreRequest) -> bool:
    """Whether chips of the model may be requested so."""
    if not _has_cores(model, request.cores):
        return False
    if request.cores not in model.requests:  # whole chips
        return bool(model.groups) or (not request.high and request.dvpp == NULL)
    return (not request.high or request.cores in model.with_level) and (
        request.dvpp == NULL or (request.dvpp in _DVPP and request.cores in model.with_dvpp)
    )


def _has_cores(model: ChipModel, cores: int) -> bool:
    return cores in model.requests or any(cores > 0 and cores % size == 0 for size in model.cores)


def _sizes_text(models: list[ChipModel]) -> str:
    texts: dict[str, list[str]] = {}
    for model in models:
        sizes = ", ".join(str(cores) for cores in model.requests)
        whole = " or ".join(str(size) for size in sorted(model.cores))
        texts.setdefault(f"{sizes} or a multiple of {whole}", []).append(model.name)
    return "; ".join(f"{sizes} ({', '.join(names)})" for sizes, names in texts.items())


def _labels_text(models: list[ChipModel]) -> str:
    dvpp = sorted({cores for model in models for cores in model.with_dvpp})
    level = sorted({cores for model in models for cores in model.with_level})
    parts = [
        f"{label} may be set for {', '.join(map(str, found)) or 'no number of'} cores"
        for label, found in ((f"{VNPU_LEVEL}=high", level), (VNPU_DVPP, dvpp))
    ]
    return ", ".join(parts)
