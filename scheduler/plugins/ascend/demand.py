"""The chips that jobs request, and the constraints of the affinity scheduling design on them.

A job may request 1, 2, 4 or 8 chips in one Pod, or a multiple of eight in Pods of eight. Finished and terminating Pods
do not count, because their replacements do. The plugin ignores Pods that request no chips (launchers, schedulers of a
framework).
"""

import re
from collections.abc import Mapping
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import ACCELERATOR_TYPE, SCHEDULE_POLICY, SKIP_ASCEND_PLUGIN, SP_BLOCK
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Dimensions, format_amount
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.holdings import MILLI, ChipRequests
from scheduler.plugins.ascend.rings import CHIPS

REASON_REQUEST: Final = "InvalidResourceRequest"
REASON_POLICY: Final = "NotSupportPolicy"
SKIP: Final = "enabled"
_VIRTUAL: Final = re.compile(r"huawei\.com/Ascend(?:910-(?:2|3|4|5|6|8|10|12|16)c|310P-(?:1|2|4)c)(?:\..*)?")
"""Resources of virtual devices that were created statically."""
_ENDING: Final = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class Demand:
    """The chips that the jobs of one session request."""

    def __init__(self, dimensions: Dimensions, family: Family) -> None:
        self._family = family
        self._names = dimensions.names
        self._chips = dimensions.find(family.resource)
        self._virtual = [d for d, name in enumerate(dimensions.names) if _VIRTUAL.fullmatch(name)]
        self._watched = [*self._virtual] if self._chips is None else [self._chips, *self._virtual]
        self._requests = ChipRequests(family, dimensions)
        self._pods: dict[str, int] = {}

    def chips(self, cls: TaskClass) -> int:
        """The number of whole chips that a task of the class requests."""
        return self._requests.whole(cls)

    def is_distributed(self, job: Job) -> bool:
        """Whether more than one active Pod of the job requests chips."""
        number = self._pods.get(job.key)
        if number is None:
            number = self._pods[job.key] = sum(1 for task in _active_tasks(job) if self.chips(task.cls))
        return number > 1

    # --- validity ---
    def check(self, job: Job) -> Refusal | None:
        """Returns a refusal if no free chips could make the job schedulable. Jobs with no pending request for chips are
        not checked."""
        if not any(job.pending[d] for d in self._watched):
            return None
        tasks = _active_tasks(job)
        for cls in {task.cls.id: task.cls for task in tasks}.values():
            refusal = self._check_virtual(cls)
            if refusal is not None:
                return refusal
        asking = [task for task in tasks if self.chips(task.cls) and not skips_plugin(task.cls)]
        return self._check_family(job, asking) or self._check_request(asking) if asking else None

    def _check_virtual(self, cls: TaskClass) -> Refusal | None:
        requests = [d for d in self._virtual if cls.request[d] > 0]
        if not requests or (len(requests) == 1 and cls.request[requests[0]] == MILLI):
            return None
        what = ", ".join(f"{format_amount(self._names[d], cls.request[d])} {self._names[d]}" for d in requests)
        return Refusal(REASON_REQUEST, f"a Pod asks for {what}; it may ask for exactly 1 virtual device")

    def _check_family(self, job: Job, asking: list[Task]) -> Refusal | None:
        """Refuses jobs that are meant for another hardware family."""
        title = self._family.title
        for key in (SCHEDULE_POLICY, SP_BLOCK):
            for annotations in (job.annotations, *(task.cls.annotations for task in asking)):
                if key in annotations:
                    return Refusal(
                        REASON_POLICY, f"{key}={annotations[key][:64]} is not supported; only {title} without {key} is"
                    )
        for task in asking:
            wanted = (task.cls.spec.node_selector or {}).get(ACCELERATOR_TYPE)
            if wanted is not None and wanted not in self._family.accelerator_types:
                known = ", ".join(sorted(self._family.accelerator_types))
                return Refusal(
                    REASON_POLICY,
                    f"Pod {task.key} selects {ACCELERATOR_TYPE}={wanted[:64]}; supported: {known} (or none)",
                )
        return None

    def _check_request(self, asking: list[Task]) -> Refusal | None:
        family, position = self._family, self._chips
        for task in asking:
            amount = 0.0 if position is None else task.cls.request[position]
            if amount != self.chips(task.cls) * MILLI or self.chips(task.cls) not in family.tables:
                return Refusal(
                    REASON_REQUEST,
                    f"Pod {task.key} asks for {format_amount(family.resource, amount)} {family.resource}; "
                    f"a Pod may ask for {family.sizes}",
                )
        total = sum(self.chips(task.cls) for task in asking)
        if total <= CHIPS and len(asking) > 1:
            return Refusal(
                REASON_REQUEST,
                f"{len(asking)} Pods ask for {total} {family.resource} together; "
                f"up to {CHIPS} must be asked for by one Pod",
            )
        odd = next((task for task in asking if total > CHIPS and self.chips(task.cls) != CHIPS), None)
        if odd is not None:
            return Refusal(
                REASON_REQUEST,
                f"the job asks for {total} {family.resource} in {len(asking)} Pods, of which Pod {odd.key} asks for "
                f"{self.chips(odd.cls)}; above {CHIPS} every Pod must ask for {CHIPS}",
            )
        return None


def skips_plugin(cls: TaskClass) -> bool:
    """Whether the annotation of the Pods leaves the choice of chips to the kubelet and the device plugin."""
    annotations: Mapping[str, str] = cls.annotations
    return annotations.get(SKIP_ASCEND_PLUGIN) == SKIP


def _active_tasks(job: Job) -> list[Task]:
    return [task for status, tasks in job.by_status.items() if status not in _ENDING for task in tasks.values()]
