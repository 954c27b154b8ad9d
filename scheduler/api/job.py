"""A job is one PodGroup with its tasks: what is scheduled or refused as a whole.

The cache builds a Job for a snapshot and keeps it for the next one while neither the cluster nor a session changed it;
a session moves tasks between statuses through ``move`` and remembers that the Job is no longer the cache's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.api.admission_record import AdmissionRecord
from scheduler.api.names import CARD_REQUEST, PREEMPTABLE, TRUE
from scheduler.api.objects import ResourceList
from scheduler.api.reasons import FitErrors, Refusal
from scheduler.api.resource import Vector
from scheduler.api.scheduling import NetworkTopology, PodGroupCondition
from scheduler.api.subjob import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, READY_STATUSES, Task, TaskStatus

PENDING = "Pending"
PENDING_PHASES = ("", PENDING)
INQUEUE = "Inqueue"


class Condition(NamedTuple):
    """A condition of a PodGroup that is to be True."""

    type: str
    reason: str
    message: str


@dataclass(slots=True, eq=False)
class Job:
    """One PodGroup and its tasks in a session."""

    key: str
    """``namespace/name`` of the PodGroup."""
    uid: str
    namespace: str
    name: str
    queue: str
    priority: int
    creation: float
    min_member: int
    role_minimum: Mapping[str, int]
    """spec.minTaskMember."""
    min_resources: Vector | None
    """spec.minResources, or None when it is not given."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    phase: str
    """PodGroup phase, as far as the scheduler has set it; enqueue and allocate change it within the session."""
    conditions: tuple[PodGroupCondition, ...]
    counts: tuple[int, int, int]
    """status.running, succeeded, failed as the API server has them."""
    stored_phase: str
    """Phase as the API server has it."""
    by_status: dict[TaskStatus, dict[str, Task]]
    """status -> uid -> task."""
    allocated: Vector
    """Sum over tasks in an allocated status; kept up to date by ``move``."""
    pending: Vector
    """Sum over Pending tasks; kept up to date by ``move``."""
    pipelined: Vector
    """Sum over tasks pipelined in this session; kept up to date by ``move``."""
    gated: Vector | None
    """Sum over Pending tasks held back by scheduling gates, other than by that of queue admission alone; None if there
    are none."""
    pending_best_effort: int
    """Number of Pending tasks that ask for nothing."""
    placed: dict[str, int] = field(default_factory=dict)
    """uid -> row of the node, for tasks allocated or pipelined in this session."""
    nominated: set[str] = field(default_factory=set)
    """uids of tasks pipelined in this session for which others are evicted."""
    changed: bool = False
    """A session has moved tasks or set the phase: the cache must not reuse it."""
    fit_errors: dict[int, FitErrors] = field(default_factory=dict)
    """Class id -> why its tasks found no node in this session."""
    refusals: list[Refusal] = field(default_factory=list)
    """Why the job as a whole was refused in this session (enqueue, quota, validity)."""
    new_conditions: list[Condition] = field(default_factory=list)
    """To be set on the PodGroup at the end of this session."""
    most_reserved: Vector | None = None
    """The most that it reserves as long as it is not admitted again: minResources, as far as it was admitted with them;
    None when they are not given."""
    admission: AdmissionRecord | None = None
    """What it was admitted with; None: it is not admitted, or every phase is believed."""
    claimed_phase: str = ""
    """A phase other than Pending that the PodGroup carries, and that does not count: the scheduler has not set it."""
    recorded: bool = False
    """The PodGroup carries a record of its admission."""
    record_lost: bool = False
    """Its record was changed or taken away, or was never written."""
    min_resource_list: ResourceList | None = None
    """spec.minResources as it was written, with the names that only quotas count (``requests.cpu``, ``count/pods``)."""
    transaction: dict[str, tuple[TaskStatus, str]] = field(default_factory=dict)
    """uid -> (status, node name) that a statement, then discarded, had given the task: it fits, its gang does not."""
    topology: NetworkTopology | None = None
    """spec.networkTopology."""
    sub_jobs: Mapping[str, SubJob] = field(default_factory=dict)
    """Key -> sub-job, each task in one; none where the PodGroup has neither a networkTopology nor a subGroupPolicy."""
    sub_job_of: Mapping[str, SubJob] = field(default_factory=dict)
    """uid -> the sub-job of the task."""
    sub_group_minimum: Mapping[str, int] | None = None
    """Name of a subGroupPolicy -> minSubGroups; None: there are no policies."""
    tier_limit: int | None = None
    """The highest tier its tasks may spread over; None: no limit. Found anew by each session."""

    def tasks(self) -> Iterator[Task]:
        for group in self.by_status.values():
            yield from group.values()

    @property
    def size(self) -> int:
        return sum(map(len, self.by_status.values()))

    def count(self, *statuses: TaskStatus) -> int:
        by_status, number = self.by_status, 0
        for status in statuses:
            if status in by_status:
                number += len(by_status[status])
        return number

    def of(self, status: TaskStatus) -> dict[str, Task]:
        return self.by_status.get(status) or {}

    @property
    def waiting_for_queue(self) -> bool:
        """The PodGroup has not been let into its queue (phase Pending)."""
        return self.phase in PENDING_PHASES

    @property
    def announces_need(self) -> bool:
        """It says before its Pods exist what it needs at least: minResources, or cards."""
        return self.min_resources is not None or CARD_REQUEST in self.annotations

    @property
    def ready_count(self) -> int:
        """Tasks that count towards the gang: bound, binding, running, allocated, succeeded."""
        number = 0
        for status, tasks in self.by_status.items():
            if status in READY_STATUSES:
                number += len(tasks)
        return number

    @property
    def waiting_count(self) -> int:
        """Tasks pipelined in this session."""
        return self.count(TaskStatus.PIPELINED)

    @property
    def missing(self) -> int:
        """How many more tasks minMember takes, those pending that ask for nothing counted in; below 1: none."""
        return self.min_member - self.ready_count - self.pending_best_effort

    @property
    def preemptable(self) -> bool:
        """The PodGroup says that it may be preempted as a whole."""
        return self.annotations.get(PREEMPTABLE, self.labels.get(PREEMPTABLE)) in TRUE

    def move(self, task: Task, old: TaskStatus, new: TaskStatus) -> None:
        """Take a task from one status to another and keep the sums. Raises KeyError if it is not in ``old``."""
        group = self.by_status[old]
        del group[task.uid]
        if not group:
            del self.by_status[old]
        self.by_status.setdefault(new, {})[task.uid] = task
        self.account((task,), old, new)

    def account(self, tasks: Sequence[Task], old: TaskStatus, new: TaskStatus) -> None:
        """Keep the sums for tasks of one class that went from one status to another."""
        cls, count = tasks[0].cls, len(tasks)
        if self.sub_jobs:
            for task in tasks:
                sub_job = self.sub_job_of[task.uid]
                sub_job.account(task, old, -1)
                sub_job.account(task, new, 1)
        was, now = old in ALLOCATED_STATUSES, new in ALLOCATED_STATUSES
        if now and not was:
            self.allocated = self.allocated + cls.request * count
        elif was and not now:
            self.allocated = self.allocated - cls.request * count
        if new is TaskStatus.PIPELINED:
            self.pipelined = self.pipelined + cls.request * count
        elif old is TaskStatus.PIPELINED:
            self.pipelined = self.pipelined - cls.request * count
        if old is TaskStatus.PENDING:
            self.pending = self.pending - cls.request * count
            self.pending_best_effort -= cls.best_effort * count
        elif new is TaskStatus.PENDING:
            self.pending = self.pending + cls.request * count
            self.pending_best_effort += cls.best_effort * count
        self.changed = True

    def role_counts(self, *statuses: TaskStatus) -> dict[str, int]:
        """Number of tasks per role in the statuses given."""
        result: dict[str, int] = {}
        for status in statuses:
            for task in self.of(status).values():
                result[task.role] = result.get(task.role, 0) + 1
        return result

    @property
    def grouped(self) -> bool:
        """Its tasks are in sub-groups, which are ready each for itself."""
        return self.sub_group_minimum is not None

    @property
    def has_topology(self) -> bool:
        """It, or one of its sub-groups, asks for a network topology."""
        return any(sub_job.topology is not None for sub_job in self.sub_jobs.values()) or self.topology is not None

    @property
    def confined(self) -> bool:
        """It, or one of its sub-jobs, may not spread over all tiers."""
        return any(s.tier_limit is not None for s in self.sub_jobs.values()) or self.tier_limit is not None

    @property
    def roles_binding(self) -> bool:
        """Whether spec.minTaskMember has to be met (it need not when minMember is below its sum)."""
        return bool(self.role_minimum) and self.min_member >= sum(self.role_minimum.values())
