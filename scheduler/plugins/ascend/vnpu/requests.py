"""The requests for ``huawei.com/npu-core``, and their rules.

The label ``ring-controller.atlas`` says which resource of chips is divided; the numbers of AI cores are those of the
models of this resource. Which model it is depends on the node.
"""

from collections.abc import Container, Mapping
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import (
    ASCEND_310P,
    ASCEND_910,
    NPU_CORE,
    NPU_JOB_KIND,
    VNPU_DVPP,
    VNPU_LEVEL,
)
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.ascend.resolve import REASON_POLICY
from scheduler.plugins.ascend.settings import PRESET_VIRTUAL_DEVICE
from scheduler.plugins.ascend.vnpu.models import MODELS, NO, NULL, YES, ChipModel
from scheduler.plugins.ascend.vnpu.selection import CoreRequest

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
