"""The parts of chips that Pods request, for card quota: virtual NPUs by their template, and shares by their quota."""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import ClassVar, Final

import msgspec

from scheduler.api.card_kinds import SHARE, VNPU, CardKind, mib_of, share_part, vnpu_part
from scheduler.api.job import Job
from scheduler.api.names import (
    ACCELERATOR,
    CHIP_NAME,
    NPU_CORE,
    SCHEDULE_POLICY,
    SERVER_TYPE,
    SHARED_NODE,
    SHARED_NODE_VALUE,
)
from scheduler.api.task import TaskClass
from scheduler.framework.card_parts import Labels, PartRequest, Parts
from scheduler.plugins.ascend.npu_requests import most_at_once
from scheduler.plugins.ascend.shares import (
    CHIP_MEMORY,
    FULL,
    RESOURCES,
    SHARING,
    Quota,
    chip_memory,
    labels_of,
    quota_of,
)
from scheduler.plugins.ascend.vnpu.models import ChipKind, CoreRequest, model_of, request_of

_HUAWEI: Final = "huawei.com"


class NpuCoreParts(msgspec.Struct, frozen=True):
    """AI cores: virtual NPUs that the device plugin creates on demand, or whole chips."""

    kinds: ClassVar[frozenset[CardKind]] = frozenset({VNPU})
    labels: ClassVar[frozenset[str]] = frozenset({ACCELERATOR, CHIP_NAME, SERVER_TYPE})
    per_job: ClassVar[bool] = False
    vendors: ClassVar[Mapping[str, str]] = {NPU_CORE: _HUAWEI}
    counted: ClassVar[tuple[str, ...]] = (NPU_CORE,)

    def only_parts(self, labels: Labels) -> bool:
        return False

    def of_job(self, job: Job) -> Hashable:
        return None

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        cores = most_at_once(cls.spec, NPU_CORE)
        return [PartRequest(NPU_CORE, VNPU, partial(_cores_on, request_of(cls, cores)))] if cores else []

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        name, found = VNPU.size_of(part), model_of(labels)
        if not isinstance(found, ChipKind):
            return 0
        chips = amounts[NPU_CORE] // found.size
        template = None if name is None else found.model.named(name[1])
        if template is None:
            return 0 if part else chips
        return chips * min(found.size // template.cores, found.model.cpus // template.cpus)


def _cores_on(request: CoreRequest, labels: Labels) -> Parts | None:
    """Returns what a request of AI cores takes of the chips of a node. A template that is downgraded, because a chip
    lacks AI CPUs, counts as the requested one."""
    found = model_of(labels)
    if not isinstance(found, ChipKind):
        return None
    model, size = found
    if request.cores % size == 0:
        return Parts("", request.cores // size)
    template = model.template(request.cores, request.high, request.dvpp)
    return None if template is None else Parts(vnpu_part(template.name), 1)


class ShareParts(msgspec.Struct, frozen=True):
    """Shares of chips. A Pod has one share, however many units of the resource it requests."""

    kinds: ClassVar[frozenset[CardKind]] = frozenset({SHARE})
    labels: ClassVar[frozenset[str]] = frozenset({CHIP_MEMORY, SHARED_NODE})
    per_job: ClassVar[bool] = True
    vendors: ClassVar[Mapping[str, str]] = dict.fromkeys(RESOURCES, _HUAWEI)
    counted: ClassVar[tuple[str, ...]] = RESOURCES

    def only_parts(self, labels: Labels) -> bool:
        return labels.get(SHARED_NODE) == SHARED_NODE_VALUE

    def of_job(self, job: Job) -> Quota | None:
        return job.remember("share of a chip", None, partial(_quota, job))

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        if not isinstance(of_job, Quota):
            return []
        share = Parts(share_part(of_job.cores, of_job.memory), 1)
        return [
            PartRequest(name, SHARE, partial(_share_on, share)) for name in RESOURCES if most_at_once(cls.spec, name)
        ]

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        size = SHARE.size_of(part)
        if size is None or labels.get(SHARED_NODE) != SHARED_NODE_VALUE:
            return 0
        cores, memory = size[1], size[2] or size[3]
        limits = [FULL // int(cores)] if cores else []
        limits += [chip_memory(labels.get(CHIP_MEMORY, "")) // mib_of(memory)] if memory else []
        return sum(amounts.values()) // FULL * min(limits)


def _quota(job: Job) -> Quota | None:
    """Returns the quota of the Pods of a job that share chips; None for other jobs."""
    tasks = list(job.tasks())
    annotations = (job.annotations, *(task.cls.annotations for task in tasks))
    if next((found[SCHEDULE_POLICY] for found in annotations if SCHEDULE_POLICY in found), "") != SHARING:
        return None
    quota = quota_of(labels_of(job, tasks))
    return quota if isinstance(quota, Quota) else None


def _share_on(share: Parts, labels: Labels) -> Parts:
    return share
