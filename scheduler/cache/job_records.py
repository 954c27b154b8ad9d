"""Records of PodGroups with their tasks, and the Job views of them that snapshots contain.

A job has sub-jobs where its PodGroup has a network topology or ``spec.subGroupPolicy`` (Volcano's getOrCreateSubJob). A
Pod belongs to the first policy whose selector matches it and whose label keys it all has. Each combination of values of
these labels is a sub-job. A policy without label keys matches no Pod. Pods without a policy form one sub-job together.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import Job, SubJob
from scheduler.api.names import HARD, SOFT
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.scheduling import NetworkTopology, PodGroup, PodGroupCondition, PodGroupSpec, SubGroupPolicy
from scheduler.api.selectors import ignore_field, is_valid, matches
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.cache.admissions import Admission, apply_admission

_CLASS: Final = attrgetter("cls")
_BEST_EFFORT: Final = attrgetter("cls.best_effort")
NOTHING: Final[dict[str, Any]] = {}
"""In place of an empty dictionary that does not change: most jobs have many of them."""
MAX_PREVIOUS: Final = 16384
"""Limit of the nodes of removed Pods that are kept for a job."""
Problem = tuple[str, str]
"""A field and what is wrong with it."""


class JobRecord:
    """A PodGroup and its tasks. Tasks may name a PodGroup that the watch has not delivered yet."""

    __slots__ = (
        "admission",
        "annotations",
        "conditions",
        "counts",
        "creation",
        "group",
        "key",
        "min_resources",
        "phase",
        "previous_nodes",
        "queue",
        "tasks",
        "view",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.group: PodGroup | None = None
        self.queue = ""
        self.creation = 0.0
        self.min_resources: Vector | None = None
        self.phase = ""
        self.annotations: Mapping[str, str] = {}
        """Without the admission record."""
        self.admission = Admission()
        self.conditions: tuple[PodGroupCondition, ...] = ()
        self.counts = (0, 0, 0)
        self.tasks: dict[str, Task] = {}
        """uid -> task."""
        self.previous_nodes: dict[str, str] = NOTHING
        """Rank -> name of the node of a Pod that was removed."""
        self.view: Job | None = None
        """The Job of the last snapshot; None if the record has changed since."""

    def copy(self) -> "JobRecord":
        """An independent copy without a view."""
        other = copy.copy(self)
        other.admission, other.tasks, other.view = copy.copy(self.admission), self.tasks.copy(), None
        other.previous_nodes = self.previous_nodes.copy()
        return other

    def remember_node(self, task: Task) -> None:
        """Keeps the node of a removed Pod with a rank, unless the Pod failed. Users write ranks too, so their number
        and length are limited."""
        self.previous_nodes.pop(task.rank, None)
        if task.node and task.status is not TaskStatus.FAILED and len(task.rank) < 10:
            if not self.previous_nodes:
                self.previous_nodes = {}
            if len(self.previous_nodes) == MAX_PREVIOUS:
                del self.previous_nodes[next(iter(self.previous_nodes))]
            self.previous_nodes[task.rank] = task.node

    @property
    def is_empty(self) -> bool:
        """Whether it has neither a PodGroup nor tasks."""
        return self.group is None and not self.tasks


def status_of(record: JobRecord) -> PodGroupStatusUpdate | None:
    """The assumed status of the PodGroup; None without a PodGroup."""
    if record.group is None:
        return None
    meta, (running, succeeded, failed) = record.group.metadata, record.counts
    return PodGroupStatusUpdate(
        meta.namespace, meta.name, meta.uid, record.phase, record.conditions, running, succeeded, failed
    )


def view_of(
    record: JobRecord, dimensions: Dimensions, priority: Callable[[str], int], *, enforce_admissions: bool = False
) -> Job | None:
    """The Job of a record for a snapshot: the previous one if nothing changed, else a new one; None without a PodGroup.

    ``priority`` returns the value of a PriorityClass by name. ``enforce_admissions``: the phase of a PodGroup counts
    only if the scheduler has set it.
    """
    group = record.group
    if group is None:
        return None
    view = record.view
    if view is not None and not view.changed and len(view.allocated) == dimensions.width:
        view.clear_records()
        return view
    record.view = _build(record, group, dimensions, priority)
    if enforce_admissions:
        apply_admission(record.view, record.admission, dimensions)
    return record.view


def _build(record: JobRecord, group: PodGroup, dimensions: Dimensions, priority: Callable[[str], int]) -> Job:
    spec, meta = group.spec, group.metadata
    by_status: dict[TaskStatus, dict[str, Task]] = {}
    for uid, task in record.tasks.items():
        group_of_status = by_status.get(task.status)
        if group_of_status is None:
            group_of_status = by_status[task.status] = {}
        group_of_status[uid] = task
    waiting = by_status.get(TaskStatus.PENDING, NOTHING).values()
    gated = [task for task in waiting if task.gated and not task.cls.at_queue_gate]
    held = [task for status, tasks in by_status.items() if status in ALLOCATED_STATUSES for task in tasks.values()]
    if record.min_resources is not None:
        record.min_resources = dimensions.fit(record.min_resources)
    sub_jobs = sub_jobs_of(record.key, spec, record.tasks.values())
    return Job(
        key=record.key,
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=record.queue,
        priority=priority(spec.priority_class_name),
        creation=record.creation,
        min_member=spec.min_member,
        role_minimum=spec.min_task_member or NOTHING,
        min_resources=record.min_resources,
        labels=meta.labels or NOTHING,
        annotations=record.annotations,
        phase=record.phase,
        conditions=record.conditions,
        counts=record.counts,
        stored_phase=record.phase,
        by_status=by_status,
        allocated=_sum_of_requests(held, dimensions),
        pending=_sum_of_requests(waiting, dimensions),
        pipelined=dimensions.nothing,
        gated=_sum_of_requests(gated, dimensions) if gated else None,
        pending_best_effort=sum(map(_BEST_EFFORT, waiting)),
        reservation_limit=record.min_resources,
        min_resource_list=spec.min_resources,
        topology=spec.network_topology,
        sub_jobs=sub_jobs,
        sub_job_of={uid: sub_job for sub_job in sub_jobs.values() for uid in sub_job.tasks} if sub_jobs else NOTHING,
        sub_group_minimum=sub_group_minimum_of(spec),
        owner_uid=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
        previous_nodes=record.previous_nodes.copy() if record.previous_nodes else NOTHING,
    )


def _sum_of_requests(tasks: Collection[Task], dimensions: Dimensions) -> Vector:
    """The sum over tasks. Must not be changed: it may be the request of a class."""
    if len(tasks) < 2:
        return next((task.cls.request for task in tasks), dimensions.nothing)
    numbers: Counter[TaskClass] = Counter(map(_CLASS, tasks))
    if len(numbers) == 1:
        ((cls, number),) = numbers.items()
        return cls.request if number == 1 else cls.request * number
    total = dimensions.nothing
    for cls, number in numbers.items():
        total = total + cls.request * number
    return total


def sub_jobs_of(key: str, spec: PodGroupSpec, tasks: Iterable[Task]) -> dict[str, SubJob]:
    """Key -> sub-job of the job ``key``; empty for a PodGroup with neither policies nor a network topology."""
    if spec.network_topology is None and not spec.sub_group_policy:
        return NOTHING
    result: dict[str, SubJob] = {}
    policies = [policy for policy in spec.sub_group_policy or () if is_valid(policy.label_selector, ignore_field)]
    for task in tasks:
        found = _group_of(policies, task)
        name = "/".join((key, found[0].name, *found[1])) if found else key
        sub_job = result.get(name)
        if sub_job is None:
            sub_job = result[name] = _sub_job(name, key, *found) if found else _sub_job_without_policy(key, spec)
        sub_job.add(task)
    return result


def _group_of(policies: Iterable[SubGroupPolicy], task: Task) -> tuple[SubGroupPolicy, list[str]] | None:
    """The policy of a task, and the values of the policy's label keys; None without a policy."""
    for policy in policies:
        if policy.label_selector is not None and not matches(policy.label_selector, task.labels):
            continue
        values = [task.labels.get(key, "") for key in policy.match_label_keys or ()]
        if values and all(values):
            return policy, values
    return None


def _sub_job(key: str, job: str, policy: SubGroupPolicy, values: list[str]) -> SubJob:
    index = int(values[0]) if values[0].isdecimal() and len(values[0]) < 19 else 0
    size = 1 if policy.sub_group_size is None else max(policy.sub_group_size, 1)
    return SubJob(key, job, policy.name, size, index, policy.network_topology, {})


def _sub_job_without_policy(key: str, spec: PodGroupSpec) -> SubJob:
    minimum = 1 if spec.sub_group_policy else spec.min_member
    return SubJob(key, key, None, minimum, 0, spec.network_topology, {})


def sub_group_minimum_of(spec: PodGroupSpec) -> dict[str, int] | None:
    """Name of a policy -> number of its sub-jobs that must be placed; None: there are no policies."""
    if not spec.sub_group_policy:
        return None
    return {policy.name: max(policy.min_sub_groups or 0, 0) for policy in spec.sub_group_policy}


def topology_problems_of(spec: PodGroupSpec) -> Iterator[Problem]:
    """The malformed fields of the network topology and the sub-group policies."""
    yield from _mode_problems("spec.networkTopology", spec.network_topology)
    for i, policy in enumerate(spec.sub_group_policy or ()):
        place = f"spec.subGroupPolicy[{i}]"
        yield from _mode_problems(f"{place}.networkTopology", policy.network_topology)
        if policy.sub_group_size is not None and policy.sub_group_size < 1:
            yield f"{place}.subGroupSize", f"{policy.sub_group_size} is below 1; taken for 1"
        if policy.min_sub_groups is not None and policy.min_sub_groups < 0:
            yield f"{place}.minSubGroups", f"{policy.min_sub_groups} is below 0; taken for 0"
        faults: list[str] = []
        if not is_valid(policy.label_selector, partial(_append, faults)):
            yield f"{place}.labelSelector", "; ".join(faults)


def _mode_problems(place: str, topology: NetworkTopology | None) -> Iterator[Problem]:
    if topology is not None and topology.mode not in (None, HARD, SOFT):
        yield f"{place}.mode", f"{topology.mode[:32]!r} is neither {HARD} nor {SOFT}"


def _append(faults: list[str], field: str, problem: str) -> None:
    faults.append(f"{field}: {problem}")
