"""The chips that jobs request, the family of each job, and the constraints of the families on jobs.

Finished and terminating Pods do not count, because their replacements do. Pods that request no chips (launchers,
schedulers of a framework) are not of the plugin's concern.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.api.job import Job
from scheduler.api.names import (
    ACCELERATOR_TYPE,
    NPU_CORE,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
    SP_BLOCK,
)
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Dimensions, Vector, format_amount
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.plugins.ascend.family import Family, JobRequest, Request
from scheduler.plugins.ascend.resolve import JOB_LABELS, REASON_POLICY, resolve
from scheduler.plugins.ascend.resources import MILLI, ChipResource, units

REASON_REQUEST: Final = "InvalidResourceRequest"
_NPU: Final = re.compile(r"huawei\.com/(?:Ascend|npu).*")
"""Resources of NPUs; other resources of the vendor (network cards) are no concern of the plugin."""
_VIRTUAL: Final = re.compile(r"huawei\.com/Ascend(?:910-(?:2|3|4|5|6|8|10|12|16)c|310P-(?:1|2|4)c)(?:\..*)?")
"""Resources of virtual devices that were created statically."""
_SCHEDULER: Final = "scheduler"
"""The task of a framework's scheduler, which requests no chips."""
_ENDING: Final = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class Use(NamedTuple):
    """How the Pods of a job use chips."""

    family: Family
    resource: ChipResource
    several: bool
    """More than one active Pod of the job requests chips."""
    block: int = 0
    """Nodes that have to be in one super pod; 0: nodes are chosen one by one."""
    blocks: int = 0
    job: str = ""
    """Key of the job, if its nodes are chosen together."""

    def request(self, chips: int) -> Request:
        return Request(chips, self.several)

    @property
    def without_faults(self) -> bool:
        """The job does not use chips with a network fault."""
        several = self.blocks > 1 if self.family.super_pods else self.several
        return several and self.family.avoids_network_faults


class Demand:
    """The chips that the jobs of one session request."""

    def __init__(self, dimensions: Dimensions, super_pod_size: int, owned_elsewhere: Iterable[str] = ()) -> None:
        """``super_pod_size``: the largest number of nodes of a super pod. ``owned_elsewhere``: resources about which
        another plugin decides."""
        self._super_pod_size = super_pod_size
        self._names = dimensions.names
        others = set(owned_elsewhere)
        npus = {d: name for d, name in enumerate(dimensions.names) if _NPU.fullmatch(name) and name not in others}
        self._virtual = [d for d, name in npus.items() if _VIRTUAL.fullmatch(name)]
        self._chips = {d: ChipResource(name) for d, name in npus.items() if d not in self._virtual}
        self._watched = list(npus)
        self._numbers: dict[str, int] = {}
        """Key of a job -> number of its Pods that request NPUs."""
        self._classes: dict[int, dict[ChipResource, int]] = {}
        """Class id -> the whole chips that its tasks request."""
        self._known: dict[str, Use | Refusal | None] = {}

    @property
    def resources(self) -> dict[int, ChipResource]:
        """Position in resource vectors -> the resource, for resources of whole chips."""
        return self._chips

    def chips(self, cls: TaskClass, resource: ChipResource) -> int:
        """The number of whole chips of a resource that a task of the class requests; a fraction is rounded up."""
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
        return any(units(cls, d) for d in self._virtual)

    def whole_chips(self, amounts: Vector) -> dict[ChipResource, int]:
        """The numbers of chips among resource amounts, rounded up."""
        numbers = {resource: int(-(-amounts[d] // MILLI)) for d, resource in self._chips.items() if d < len(amounts)}
        return {resource: number for resource, number in numbers.items() if number and resource.name != NPU_CORE}

    def is_npu_job(self, job: Job) -> bool:
        """Whether a Pod of the job requests chips or virtual devices."""
        number = self._numbers.get(job.key)
        return (self._npu_pods(job) if number is None else number) > 0

    def is_distributed(self, job: Job) -> bool:
        """Whether several Pods of the job request chips or virtual devices."""
        return self._npu_pods(job) > 1

    def _npu_pods(self, job: Job) -> int:
        if job.key not in self._numbers:
            classes = Counter(task.cls for task in _active_tasks(job))
            asking = [number for cls, number in classes.items() if any(units(cls, d) for d in self._watched)]
            self._numbers[job.key] = sum(asking)
        return self._numbers[job.key]

    def use(self, job: Job) -> Use | None:
        """How the job uses chips; None if it uses none, or if it is refused."""
        found = self._of(job)
        return found if isinstance(found, Use) else None

    def check(self, job: Job) -> Refusal | None:
        """Returns a refusal if no free chips could make the job schedulable. Jobs with no pending request for chips are
        not checked."""
        if not any(job.pending[d] for d in self._watched):
            return None
        found = self._of(job)
        return found if isinstance(found, Refusal) else None

    def _of(self, job: Job) -> Use | Refusal | None:
        if job.key not in self._known:
            self._known[job.key] = self._judge(job)
        return self._known[job.key]

    # --- judging ---
    def _judge(self, job: Job) -> Use | Refusal | None:
        tasks = _active_tasks(job)
        classes = {task.cls.id: task.cls for task in tasks}
        for cls in classes.values():
            refusal = self._check_virtual(cls)
            if refusal is not None:
                return refusal
        asking = [task for task in tasks if self.asks(task.cls)]
        if not asking:
            return None
        positions = {d for cls in classes.values() for d in self._chips if units(cls, d)}
        if len(positions) > 1:
            names = " and ".join(sorted(self._names[d] for d in positions))
            return Refusal(REASON_REQUEST, f"the Pods of the job ask for {names}; they may ask for one of them only")
        (position,) = positions
        resource = self._chips[position]
        traits = _traits(job, asking)
        policies = _policies(job, asking)
        family = self._family(resource, policies, traits)
        if isinstance(family, Refusal):
            return family
        refusal = self._check_pods(family, position, asking)
        if refusal is not None:
            return refusal
        pods = {task.key: self.chips(task.cls, resource) for task in asking}
        block = _block_chips(policies.get(SP_BLOCK), sum(pods.values())) if family.super_pods else 0
        if block is None:
            problem = f"{SP_BLOCK}={policies[SP_BLOCK][:64]} is not a positive number"
            return Refusal(REASON_REQUEST, problem)
        others = sum(1 for task in tasks if not self.asks(task.cls) and not _may_ask_for_none(task))
        request = JobRequest(pods, others, resource.name, traits, block, self._super_pod_size)
        problem = family.check(request)
        if problem:
            return Refusal(REASON_REQUEST, problem)
        if not family.super_pods:
            return Use(family, resource, len(asking) > 1)
        nodes = max(block // family.chips, 1)
        return Use(family, resource, len(asking) > 1, nodes, -(-len(asking) // nodes), job.key)

    @staticmethod
    def _family(resource: ChipResource, policies: Mapping[str, str], traits: Mapping[str, str]) -> Family | Refusal:
        if resource.name == NPU_CORE:
            return Refusal(REASON_POLICY, f"{NPU_CORE}: virtual devices that are created on demand are not supported")
        return resolve(resource.name, policies, traits)

    def _check_virtual(self, cls: TaskClass) -> Refusal | None:
        requests = [d for d in self._virtual if units(cls, d)]
        if not requests or (len(requests) == 1 and cls.request[requests[0]] == MILLI):
            return None
        what = ", ".join(f"{format_amount(self._names[d], cls.request[d])} {self._names[d]}" for d in requests)
        return Refusal(REASON_REQUEST, f"a Pod asks for {what}; it may ask for exactly 1 virtual device")

    def _check_pods(self, family: Family, position: int, asking: Sequence[Task]) -> Refusal | None:
        name = self._names[position]
        for task in asking:
            amount = task.cls.request[position]
            if amount != units(task.cls, position) * MILLI or units(task.cls, position) not in family.sizes:
                return Refusal(
                    REASON_REQUEST,
                    f"Pod {task.key} asks for {format_amount(name, amount)} {name}; "
                    f"a Pod of {family.title} may ask for {family.sizes_text()}",
                )
        return None


def _block_chips(text: str | None, total: int) -> int | None:
    """The chips of a block; None if the text is not a positive number."""
    if text is None:
        return total
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0 else None


def _policies(job: Job, asking: Sequence[Task]) -> dict[str, str]:
    """The annotations of the PodGroup and its Pods that choose a family; those of the PodGroup take precedence."""
    return {
        key: annotations[key]
        for annotations in (*(task.cls.annotations for task in asking), job.annotations)
        for key in (SCHEDULE_POLICY, SP_BLOCK)
        if key in annotations
    }


def _traits(job: Job, asking: Sequence[Task]) -> dict[str, str]:
    """The traits of a job. Different values of one trait are joined by ``|``, which no family has."""
    values: dict[str, dict[str, None]] = {}
    for task in {task.cls.id: task for task in asking}.values():
        wanted = (task.cls.spec.node_selector or {}).get(ACCELERATOR_TYPE)
        if wanted is not None:
            values.setdefault(ACCELERATOR_TYPE, {})[wanted or '""'] = None
    for labels in (job.labels, *(task.labels for task in asking)):
        for key in JOB_LABELS:
            if key in labels:
                values.setdefault(key, {})[labels[key]] = None
    return {trait: "|".join(found) for trait, found in values.items()}


def _may_ask_for_none(task: Task) -> bool:
    return task.role == _SCHEDULER or task.cls.annotations.get(SKIP_ASCEND_PLUGIN) == "enabled"


def _active_tasks(job: Job) -> list[Task]:
    return [task for status, tasks in job.by_status.items() if status not in _ENDING for task in tasks.values()]
