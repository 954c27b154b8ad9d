"""Records of PodGroups with their tasks, and the Job views of them that snapshots contain.

A job has sub-jobs where its PodGroup has a network topology or ``spec.subGroupPolicy`` (Volcano's getOrCreateSubJob). A
Pod belongs to the first policy whose selector matches it and whose label keys it all has. Each combination of values of
these labels is a sub-job. A policy without label keys matches no Pod. Pods without a policy form one sub-job together.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import INQUEUE, PENDING_PHASES, Job
from scheduler.api.kinds import Kind
from scheduler.api.names import CARD_REQUEST, HARD, SOFT
from scheduler.api.objects import Quantity, ResourceList
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.scheduling import NetworkTopology, PodGroupCondition, PodGroupSpec
from scheduler.api.selectors import is_valid
from scheduler.api.signed_records import AdmissionRecord, SigningKey, read_admission_record
from scheduler.api.sub_job import SubJob, sub_group_minimum, sub_jobs_of
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.cache.admissions import Admission, Admitted, apply_admission

_CLASS: Final = attrgetter("cls")
_BEST_EFFORT: Final = attrgetter("cls.best_effort")
NOTHING: Final[dict[str, Any]] = {}
"""Stands for each empty dictionary that does not change: most jobs have many of them."""
MAX_PREVIOUS: Final = 16384
"""Limit of the nodes of removed Pods that are kept for a job."""
_MAX_MINIMUMS: Final = 4096
"""Limit of the distinct minResources that are known."""
Problem = tuple[str, str]
"""A field and what is wrong with it."""


class JobRecord(msgspec.Struct, eq=False, gc=False):
    """A PodGroup and its tasks. Tasks may name a PodGroup that the watch has not delivered yet.

    The record keeps of a PodGroup what sessions use, and nothing must refer back to it: a cluster can have hundreds of
    thousands, and the cyclic garbage collector skips them.
    """

    key: str
    tasks: dict[str, Task]
    """uid -> task."""
    annotations: Mapping[str, str]
    """The annotations without the admission record."""
    previous_nodes: dict[str, str]
    """Rank -> name of the node of a Pod that was removed."""
    admission: Admission = msgspec.field(default_factory=Admission)
    spec: PodGroupSpec | None = None
    """None: there is no PodGroup."""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_uid: str = ""
    """uid of the object that manages the PodGroup, or ""."""
    owner_kind: Kind | None = None
    queue: str = ""
    creation: float = 0.0
    min_resources: Vector | None = None
    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    counts: tuple[int, int, int] = (0, 0, 0)
    view: Job | None = None
    """The Job of the last snapshot; None if the record has changed since."""

    def copy(self) -> "JobRecord":
        """An independent copy without a view."""
        other = copy.copy(self)
        other.admission, other.tasks, other.view = copy.copy(self.admission), self.tasks.copy(), None
        other.previous_nodes = self.previous_nodes.copy() if self.previous_nodes else NOTHING
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
        return self.spec is None and not self.tasks


def status_of(record: JobRecord) -> PodGroupStatusUpdate | None:
    """The assumed status of the PodGroup; None without a PodGroup."""
    if record.spec is None:
        return None
    return PodGroupStatusUpdate(
        record.namespace, record.name, record.uid, record.phase, record.conditions, *record.counts
    )


def proven(record: JobRecord, key: SigningKey, now: float) -> Admitted | None:
    """The admission that the signed record on the PodGroup proves, or None.

    Before the key was created no record can have been written, so the phase alone is proof."""
    spec, text = record.spec, record.admission.text
    if spec is None:
        return None
    written = read_admission_record(text, record.uid, key) if text else None
    if written is not None:
        return Admitted(record.key, record.uid, written, INQUEUE, text, False)
    if now >= key.created or record.phase in PENDING_PHASES:
        return None
    cards = record.annotations.get(CARD_REQUEST, "")
    assumed = AdmissionRecord.of(record.queue, spec.min_member, spec.min_resources, cards)
    return Admitted(record.key, record.uid, assumed, record.phase, text, key.shared)


class MinimumResources:
    """The minResources of PodGroups, as written and as vectors, which must not be changed: equal ones are in memory
    once."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._known: dict[tuple[tuple[str, Quantity], ...], tuple[ResourceList, Vector]] = {}

    def of(self, amounts: ResourceList) -> tuple[ResourceList, Vector]:
        """Equal amounts, and their vector. Raises QuantityError if an amount is malformed or negative."""
        key = tuple(amounts.items())
        known = self._known.get(key)
        if known is None or len(known[1]) != self._dimensions.width:
            vector = self._dimensions.vector(amounts)
            vector.setflags(write=False)
            if len(self._known) == _MAX_MINIMUMS:
                self._known.clear()
            known = self._known[key] = amounts, vector
        return known

    def clear(self) -> None:
        """Forgets the vectors, after the set of counted resources has changed."""
        self._known.clear()


class SharedVectors:
    """Vectors that equal jobs share, for the views of one snapshot. They must not be changed."""

    def __init__(self, nothing: Vector) -> None:
        """``nothing``: zeros."""
        self.nothing = nothing
        self._sums: dict[tuple[TaskClass, int], Vector] = {}
        self._minima: dict[tuple[int, int], tuple[Vector, Vector, Vector]] = {}
        """Identities of two vectors -> the vectors and their minimum."""

    def minimum(self, left: Vector, right: Vector) -> Vector:
        """The smaller amount of each resource."""
        known = self._minima.get((id(left), id(right)))
        if known is None:
            known = self._minima[id(left), id(right)] = left, right, np.minimum(left, right)
        return known[2]

    def sum_of(self, tasks: Collection[Task]) -> Vector:
        """The sum over the requests of tasks, which may be the request of a class."""
        if len(tasks) == 1:
            for task in tasks:
                return task.cls.request
        numbers: Counter[TaskClass] = Counter(map(_CLASS, tasks))
        if len(numbers) == 1:
            ((cls, number),) = numbers.items()
            total = self._sums.get((cls, number))
            if total is None:
                total = self._sums[cls, number] = cls.request * number
            return total
        total = self.nothing
        for cls, number in numbers.items():
            total = total + cls.request * number
        return total


def view_of(
    record: JobRecord,
    dimensions: Dimensions,
    priority: Callable[[str], int],
    vectors: SharedVectors,
    *,
    enforce_admissions: bool = False,
) -> Job | None:
    """The Job of a record for a snapshot: the previous one if nothing changed, else a new one; None without a PodGroup.

    ``priority`` returns the value of a PriorityClass by name. ``enforce_admissions``: the phase of a PodGroup counts
    only if the scheduler has set it.
    """
    spec = record.spec
    if spec is None:
        return None
    view = record.view
    if view is not None and not view.changed and len(view.allocated) == dimensions.width:
        view.clear_records()
        return view
    record.view = _build(record, spec, dimensions, priority, vectors)
    if enforce_admissions:
        apply_admission(record.view, record.admission, dimensions, vectors.minimum)
    return record.view


def _build(
    record: JobRecord,
    spec: PodGroupSpec,
    dimensions: Dimensions,
    priority: Callable[[str], int],
    vectors: SharedVectors,
) -> Job:
    by_status = _by_status(record.tasks)
    allocated = pending = nothing = vectors.nothing
    gated, best_effort = None, 0
    if len(by_status) == 1:  # as for most jobs
        ((status, tasks),) = by_status.items()
        if status in ALLOCATED_STATUSES:
            allocated = vectors.sum_of(tasks.values())
    elif by_status:
        allocated = vectors.sum_of(
            [task for status, tasks in by_status.items() if status in ALLOCATED_STATUSES for task in tasks.values()]
        )
    waiting = by_status.get(TaskStatus.PENDING)
    if waiting is not None:
        pending = vectors.sum_of(waiting.values())
        closed = [task for task in waiting.values() if task.gated and not task.cls.at_queue_gate]
        gated = vectors.sum_of(closed) if closed else None
        best_effort = sum(map(_BEST_EFFORT, waiting.values()))
    if record.min_resources is not None:
        record.min_resources = dimensions.fit(record.min_resources)
    sub_jobs: Mapping[str, SubJob] = NOTHING
    sub_job_of: Mapping[str, SubJob] = NOTHING
    if spec.network_topology is not None or spec.sub_group_policy:
        sub_jobs = sub_jobs_of(record.key, spec, record.tasks.values())
        sub_job_of = {uid: sub_job for sub_job in sub_jobs.values() for uid in sub_job.tasks}
    # Positional arguments, because names take a struct four times as long.
    return Job(
        record.key,
        record.uid,
        record.namespace,
        record.name,
        record.owner_uid,
        record.owner_kind,
        record.queue,
        priority(spec.priority_class_name),
        record.creation,
        spec.min_member,
        spec.min_task_member or NOTHING,
        record.min_resources,
        spec.min_resources,
        record.labels or NOTHING,
        record.annotations,
        record.phase,
        record.conditions,
        record.counts,
        record.phase,  # stored_phase
        by_status,
        allocated,
        pending,
        nothing,  # pipelined
        gated,
        best_effort,
        record.min_resources,  # reservation_limit
        spec.network_topology,
        sub_jobs,
        sub_job_of,
        sub_group_minimum(spec.sub_group_policy) if spec.sub_group_policy else None,
        record.previous_nodes.copy() if record.previous_nodes else NOTHING,
    )


def _by_status(tasks: Mapping[str, Task]) -> dict[TaskStatus, dict[str, Task]]:
    """status -> uid -> task."""
    found: dict[TaskStatus, dict[str, Task]] = {}
    for uid, task in tasks.items():
        group = found.get(task.status)
        if group is None:
            found[task.status] = {uid: task}
        else:
            group[uid] = task
    return found


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
