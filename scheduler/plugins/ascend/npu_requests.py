"""The chips and virtual devices that task classes and jobs request.

Finished and terminating Pods do not count, because their replacements do. Pods that request no chips (launchers,
schedulers of a framework) are not of the plugin's concern.

The device plugin serves no init containers, sidecars included: it finds the Pod to which a request of the kubelet
belongs by what the Pod's containers request without init containers, and serves one request of a Pod. A container that
requests all chips of its node gets them without this search, whatever kind of container it is.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import BACKUP_SOURCE_POD, HUAWEI_PREFIX, NPU_CORE
from scheduler.api.objects import Container, PodSpec
from scheduler.api.pod_amounts import effective_total
from scheduler.api.quantity import parse_quantity
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.framework.remedies.adjustments import join_names

MILLI: Final = 1000
"""Resource vectors count chips in thousandths."""


@dataclass(frozen=True, slots=True)
class ChipResource:
    """An extended resource that counts whole chips."""

    name: str
    prefix: str = field(init=False, compare=False, repr=False)
    """The part of a chip's name before its number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"{self.name.removeprefix(HUAWEI_PREFIX)}-")


class ChipRequests:
    """The chips of one resource that each class of tasks requests."""

    def __init__(self, resource: ChipResource, dimensions: Dimensions) -> None:
        names = dimensions.names
        self._known: dict[int, tuple[int, int]] = {}
        """Class id -> (whole chips, maximum of chips used)."""
        self._whole = dimensions.find(resource.name)
        self._parts = [d for d, name in enumerate(names) if name.startswith(f"{resource.name}-") or name == NPU_CORE]

    def whole(self, cls: TaskClass) -> int:
        """Returns the number of whole chips; a fraction is rounded up."""
        return self._of(cls)[0]

    def maximum(self, cls: TaskClass) -> int:
        """Returns the maximum number of chips that a Pod uses: each virtual device or AI core may be on another
        chip."""
        return self._of(cls)[1]

    def _of(self, cls: TaskClass) -> tuple[int, int]:
        known = self._known.get(cls.id)
        if known is None:
            whole = units(cls, self._whole)
            parts = sum(units(cls, position) for position in self._parts if position != self._whole)
            known = self._known[cls.id] = whole, whole + parts
        return known


def most_at_once(spec: PodSpec, resource: str) -> int:
    """Returns the most of a resource that the containers of a Pod request at once, in whole units, rounded up."""
    return effective_total(spec.containers, spec.init_containers, lambda c: _amount(c, resource), 0, add, max)


def units(cls: TaskClass, position: int | None) -> int:
    """Returns the request of a class for one resource, rounded up to whole units."""
    if position is None or position >= len(cls.request):
        return 0
    return int(-(-cls.request[position] // MILLI))


NPUS: Final = re.compile(r"huawei\.com/(?:Ascend|npu).*")
"""Resources of NPUs; other resources of the vendor (network cards) are no concern of the plugin."""
_VIRTUAL: Final = re.compile(r"huawei\.com/Ascend(?:910-(?:2|3|4|5|6|8|10|12|16)c|(?:310P|710)-(?:1|2|4)c)(?:\..*)?")
"""Resources of virtual devices that were created statically."""
_ENDING: Final = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})
_SUMMED: Final = _ENDING | ALLOCATED_STATUSES | {TaskStatus.PENDING, TaskStatus.PIPELINED}
"""All statuses but those of active tasks that no sum of a job contains."""


class NpuRequests:
    """The requests in one session."""

    def __init__(self, dimensions: Dimensions, owned_elsewhere: Collection[str]) -> None:
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

    def used_npus(self, job: Job) -> bool:
        """Whether a Pod of the job requests chips or virtual devices, or one that has failed did."""
        failed = {task.cls for task in job.of(TaskStatus.FAILED).values()}
        return self.is_npu_job(job) or any(units(cls, d) for cls in failed for d in self._watched)

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


def requests_of_init_containers(spec: PodSpec, resource: str) -> dict[str, int]:
    """Returns name -> request of the init containers that request a resource, in whole units, rounded up."""
    return {c.name: amount for c in spec.init_containers or () if (amount := _amount(c, resource))}


def without_whole_nodes(spec: PodSpec, resource: str, chips: int) -> str:
    """Returns why no node serves a Pod of which an init container requests chips, or "": not every container that
    requests chips requests ``chips``, the most that the Pod has at once."""
    asked = requests_of_init_containers(spec, resource)
    others = {c.name: amount for c in spec.containers if (amount := _amount(c, resource))}
    if not asked or {*asked.values(), *others.values()} == {chips}:
        return ""
    parts = [_listed("init container", asked), *([_listed("container", others)] if others else [])]
    return (
        f"asks for {resource}: {', '.join(parts)}; the device plugin serves init containers only if every container "
        "that asks for chips asks for all chips of the node"
    )


def unserved(spec: PodSpec, resource: str) -> str:
    """Returns why a device plugin that serves no init containers cannot serve a Pod, or ""."""
    asked = requests_of_init_containers(spec, resource)
    if not asked:
        return ""
    return f"asks for {resource}: {_listed('init container', asked)}; the device plugin serves no init containers"


def _listed(kind: str, asked: Mapping[str, int]) -> str:
    return join_names([f"{amount} in {kind} {name}" for name, amount in asked.items()])


def _amount(container: Container, resource: str) -> int:
    resources = container.resources
    if resources is None:
        return 0
    return parse_quantity({**(resources.limits or {}), **(resources.requests or {})}.get(resource, 0))
