"""The chips and virtual devices that task classes and jobs request.

Finished and terminating Pods do not count, because their replacements do. Pods that request no chips (launchers,
schedulers of a framework) are not of the plugin's concern.
"""

import re
from collections import Counter
from collections.abc import Container
from functools import partial
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import BACKUP_SOURCE_POD, NPU_CORE
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.plugins.ascend.resources import MILLI, ChipResource, units

NPUS: Final = re.compile(r"huawei\.com/(?:Ascend|npu).*")
"""Resources of NPUs; other resources of the vendor (network cards) are no concern of the plugin."""
_VIRTUAL: Final = re.compile(r"huawei\.com/Ascend(?:910-(?:2|3|4|5|6|8|10|12|16)c|310P-(?:1|2|4)c)(?:\..*)?")
"""Resources of virtual devices that were created statically."""
_ENDING: Final = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})
_SUMMED: Final = _ENDING | ALLOCATED_STATUSES | {TaskStatus.PENDING, TaskStatus.PIPELINED}
"""All statuses but those of active tasks that no sum of a job contains."""


class NpuRequests:
    """The requests in one session."""

    def __init__(self, dimensions: Dimensions, owned_elsewhere: Container[str]) -> None:
        """``owned_elsewhere``: resources about which another plugin decides."""
        self._names = dimensions.names
        npus = {
            d: name for d, name in enumerate(dimensions.names) if NPUS.fullmatch(name) and name not in owned_elsewhere
        }
        self.virtual = {d: ChipResource(name) for d, name in npus.items() if _VIRTUAL.fullmatch(name)}
        """Position in resource vectors -> the resource, for virtual NPUs that were created beforehand."""
        self._cores = next((d for d, name in npus.items() if name == NPU_CORE), None)
        others = (*self.virtual, self._cores)
        self._chips = {d: ChipResource(name) for d, name in npus.items() if d not in others}
        self._watched = list(npus)
        self._npus = tuple(npus.items())
        """Position in resource vectors, and name, of the resources about which the plugin decides."""
        self._numbers: dict[str, int] = {}
        """Key of a job -> number of its Pods that request NPUs."""
        self._classes: dict[int, dict[ChipResource, int]] = {}
        """Class id -> the whole chips that its tasks request."""

    @property
    def resources(self) -> dict[int, ChipResource]:
        """Position in resource vectors -> the resource, for resources of whole chips."""
        return self._chips

    def chips(self, cls: TaskClass, resource: ChipResource) -> int:
        """Returns the number of whole chips of a resource that a task of the class requests; a fraction is rounded
        up."""
        return self._of_class(cls).get(resource, 0)

    def asks(self, cls: TaskClass) -> bool:
        """Whether tasks of the class request whole chips."""
        return bool(self._of_class(cls))

    def _of_class(self, cls: TaskClass) -> dict[ChipResource, int]:
        known = self._classes.get(cls.id)
        if known is None:
            asked = {resource: units(cls, d) for d, resource in self._chips.items()}
            known = self._classes[cls.id] = {resource: chips for resource, chips in asked.items() if chips}
        return known

    def asks_virtual(self, cls: TaskClass) -> bool:
        """Whether tasks of the class request virtual devices that were created statically."""
        return any(units(cls, d) for d in self.virtual)

    def whole_chips(self, amounts: Vector) -> dict[ChipResource, int]:
        """Returns the numbers of chips among resource amounts, rounded up."""
        numbers = {resource: int(-(-amounts[d] // MILLI)) for d, resource in self._chips.items() if d < len(amounts)}
        return {resource: number for resource, number in numbers.items() if number}

    def cores(self, cls: TaskClass) -> int:
        """Returns the number of AI cores (``huawei.com/npu-core``) that a task of the class requests."""
        return units(cls, self._cores)

    def has_npus(self, job: Job) -> bool:
        """Whether Pods or minResources of the job request chips or virtual devices."""
        amounts = [job.pending, job.allocated, job.pipelined]
        if job.min_resources is not None:
            amounts.append(job.min_resources)
        return any(vector[d] for vector in amounts for d in self._watched if d < len(vector))

    def is_npu_job(self, job: Job) -> bool:
        """Whether a Pod of the job requests chips or virtual devices."""
        number = self._numbers.get(job.key)
        return (self._npu_pods(job) if number is None else number) > 0

    def is_distributed(self, job: Job) -> bool:
        """Whether several Pods of the job request chips or virtual devices."""
        return self._npu_pods(job) > 1

    def _npu_pods(self, job: Job) -> int:
        if job.key not in self._numbers:
            self._numbers[job.key] = job.remember("NPU Pods", self._npus, partial(self._count_npu_pods, job))
        return self._numbers[job.key]

    def _asks_for_none(self, job: Job) -> bool:
        """Whether the sums of the job show that none of its Pods requests NPUs, as for most jobs. This is much cheaper
        than to look at its Pods."""
        return job.by_status.keys() <= _SUMMED and not self.has_npus(job)

    def _count_npu_pods(self, job: Job) -> int:
        if self._asks_for_none(job):
            return 0
        classes = Counter(task.cls for task in active_tasks(job))
        return sum(number for cls, number in classes.items() if any(units(cls, d) for d in self._watched))

    def _names_npu(self, name: str) -> bool:
        """Whether the plugin decides about a resource that some node has."""
        return any(self._names[d] == name for d in self._watched)


def active_tasks(job: Job) -> list[Task]:
    """Returns the tasks of a job that count. Backups do not: they are to take the places of others."""
    active = (task for status, tasks in job.by_status.items() if status not in _ENDING for task in tasks.values())
    return [task for task in active if BACKUP_SOURCE_POD not in task.fault_marks]
