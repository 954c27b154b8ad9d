"""A job is a PodGroup with its tasks: the unit that is scheduled or refused as a whole.

The cache builds a Job for a snapshot, and reuses it for the next one unless the cluster or a session has changed it. A
session moves tasks between statuses with ``move``, which marks the Job as changed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler.api.kinds import ACJOB, VCJOB, Kind
from scheduler.api.names import (
    CARD_REQUEST,
    CONDITION_DEVICE_UNHEALTHY,
    CONDITION_SCHEDULED,
    CONDITION_UNSCHEDULABLE,
    ORDERED_TASKS,
    PODGROUP_PREFIX,
    PREEMPTABLE,
    REASON_GANG_READY,
    TRUE,
)
from scheduler.api.objects import ResourceList
from scheduler.api.reasons import FitErrors, Refusal
from scheduler.api.resource import Vector
from scheduler.api.scheduling import NetworkTopology, PodGroupCondition
from scheduler.api.signed_records import AdmissionRecord
from scheduler.api.sub_job import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, READY_STATUSES, Task, TaskStatus

T = TypeVar("T")


PENDING = "Pending"
PENDING_PHASES = ("", PENDING)
INQUEUE = "Inqueue"
RUNNING = "Running"
TRIAL_MARK: Final = "#"
"""Begins the end of the keys of jobs that exist only for a trial. Names of objects do not contain it."""
_TEMPORARY = (CONDITION_UNSCHEDULABLE, CONDITION_DEVICE_UNHEALTHY)
"""Conditions that sessions end."""
_HASH_DIGITS: Final = 12
_UID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UID_LENGTH: Final = 36


def without_uid(name: str) -> str:
    """The name of a PodGroup without the uid at its end: that of the vcjob, or ``podgroup-`` with a short hash.

    The PodGroup of a vcjob is called ``<job>-<uid of the job>``, and that of Pods without one ``podgroup-<uid of their
    owner>``. A user who knows the uid of an object can name it as the owner of objects elsewhere. So metrics, which
    users of all namespaces may read, have no uids.
    """
    uid = name[-_UID_LENGTH:]
    rest = name[:-_UID_LENGTH]
    if not rest.endswith("-") or _UID.fullmatch(uid) is None:
        return name
    if rest == PODGROUP_PREFIX:
        return rest + blake2b(uid.encode(), digest_size=_HASH_DIGITS // 2).hexdigest()
    return rest[:-1]


class GroupCondition(NamedTuple):
    """A condition of a PodGroup at the end of a session."""

    type: str
    reason: str
    message: str
    status: str = "True"


class Job(msgspec.Struct, eq=False):
    """One PodGroup and its tasks in a session.

    A struct, because the first snapshot of a cluster can have hundreds of thousands of them: to make one takes a fourth
    of the time of a dataclass.
    """

    key: str
    """``namespace/name`` of the PodGroup."""
    uid: str
    namespace: str
    name: str
    owner_uid: str
    """uid of the object that manages the PodGroup, or ""."""
    owner_kind: Kind | None
    """Its kind; None if there is none, or if the kind is not known."""
    queue: str
    priority: int
    creation: float
    min_member: int
    role_minimum: Mapping[str, int]
    """spec.minTaskMember."""
    min_resources: Vector | None
    """spec.minResources, or None if it is not set."""
    min_resource_list: ResourceList | None
    """spec.minResources as written, with the names that only quotas count (``requests.cpu``, ``count/pods``)."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    phase: str
    """PodGroup phase, if the scheduler has set it. enqueue and allocate change it within the session."""
    conditions: tuple[PodGroupCondition, ...]
    counts: tuple[int, int, int]
    """status.running, succeeded, failed as the API server has them."""
    stored_phase: str
    """Phase as the API server has it."""
    by_status: dict[TaskStatus, dict[str, Task]]
    """status -> uid -> task."""
    allocated: Vector
    """Sum over tasks in an allocated status; ``move`` updates it."""
    pending: Vector
    """Sum over Pending tasks; ``move`` updates it."""
    pipelined: Vector
    """Sum over tasks pipelined in this session; ``move`` updates it."""
    gated: Vector | None
    """Sum over Pending tasks with scheduling gates, except tasks that have only the gate of queue admission. None if
    there are no such tasks."""
    pending_best_effort: int
    """Number of Pending tasks without a request."""
    reservation_limit: Vector | None
    """Upper limit of its reservation until it is admitted again: minResources, limited to those it was admitted with.
    None without minResources."""
    topology: NetworkTopology | None
    """spec.networkTopology."""
    sub_jobs: Mapping[str, SubJob]
    """Key -> sub-job. Each task is in one sub-job. Empty if the PodGroup has neither a networkTopology nor a
    subGroupPolicy."""
    sub_job_of: Mapping[str, SubJob]
    """uid -> the sub-job of the task."""
    sub_group_minimum: Mapping[str, int] | None
    """Name of a subGroupPolicy -> minSubGroups; None: there are no policies."""
    previous_nodes: Mapping[str, str]
    """Rank (``hccl/rankIndex``) -> name of the node of a Pod that was removed. Not known after a restart."""
    changed: bool = False
    """A session has moved tasks or set the phase, so the cache must not reuse the Job."""
    remembered: dict[str, tuple[object, Any]] | None = None
    """Name of a result -> what it depends on besides the PodGroup and its tasks, and the result (``remember``)."""
    refusals: tuple[Refusal, ...] = ()
    """Why the job as a whole was refused in this session (enqueue, quota, validity)."""
    new_conditions: tuple[GroupCondition, ...] = ()
    """Conditions to set on the PodGroup at the end of this session."""
    admission: AdmissionRecord | None = None
    """The resources that it was admitted with; None: it is not admitted, or admissions are not enforced."""
    claimed_phase: str = ""
    """A phase of the PodGroup other than Pending that does not count, because the scheduler has not set it."""
    recorded: bool = False
    """The PodGroup has an annotation with an admission record."""
    record_lost: bool = False
    """Its admission record was changed or removed, or was never written."""
    tier_limit: int | None = None
    """The highest tier that its tasks may span; None: no limit. Each session computes it."""
    alternative: str = ""
    """The alternative that this session has chosen for its vcjob (``api.card_alternatives``); "": none was chosen."""
    # Made when first used: most jobs are settled and need none, and empty dictionaries take half a kilobyte.
    _placed: dict[str, int] | None = None
    _nominated: dict[str, None] | None = None
    _fit_errors: dict[int, FitErrors] | None = None
    _transaction: dict[str, tuple[TaskStatus, str]] | None = None

    @property
    def placed(self) -> dict[str, int]:
        """uid -> row of the node, for tasks allocated or pipelined in this session."""
        found = self._placed
        if found is None:
            found = self._placed = {}
        return found

    @property
    def nominated(self) -> dict[str, None]:
        """uids of tasks that were pipelined in this session and have other tasks evicted for them. A dictionary,
        because an empty one takes a fourth of the memory of an empty set."""
        found = self._nominated
        if found is None:
            found = self._nominated = {}
        return found

    @property
    def fit_errors(self) -> dict[int, FitErrors]:
        """Class id -> why its tasks found no node in this session."""
        found = self._fit_errors
        if found is None:
            found = self._fit_errors = {}
        return found

    @fit_errors.setter
    def fit_errors(self, errors: dict[int, FitErrors]) -> None:
        self._fit_errors = errors

    @property
    def transaction(self) -> dict[str, tuple[TaskStatus, str]]:
        """uid -> (status, node name) of the task in a discarded statement: the task fits, its gang does not."""
        found = self._transaction
        if found is None:
            found = self._transaction = {}
        return found

    @transaction.setter
    def transaction(self, given: dict[str, tuple[TaskStatus, str]]) -> None:
        self._transaction = given

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
        """The PodGroup is not admitted to its queue (phase Pending)."""
        return self.phase in PENDING_PHASES

    @property
    def declares_resources(self) -> bool:
        """The PodGroup declares minResources or cards, before its Pods exist."""
        return self.min_resources is not None or CARD_REQUEST in self.annotations

    @property
    def ready_count(self) -> int:
        """Number of tasks that count towards the gang: bound, binding, running, allocated, succeeded."""
        number = 0
        for status, tasks in self.by_status.items():
            if status in READY_STATUSES:
                number += len(tasks)
        return number

    @property
    def waiting_count(self) -> int:
        """Number of tasks pipelined in this session."""
        return self.count(TaskStatus.PIPELINED)

    @property
    def missing(self) -> int:
        """Number of tasks that it lacks for minMember, where pending tasks without a request count as present. 0 or
        less: it lacks none."""
        return self.min_member - self.ready_count - self.pending_best_effort

    @property
    def on_trial(self) -> bool:
        """Whether the job exists only for a trial within a session, under a key that no PodGroup has."""
        return TRIAL_MARK in self.key

    @property
    def grows(self) -> bool:
        """Whether the job's tasks start one after another, so that its minimums grow."""
        return ORDERED_TASKS in self.annotations

    @property
    def preemptable(self) -> bool:
        """The PodGroup allows its preemption as a whole."""
        return self.annotations.get(PREEMPTABLE, self.labels.get(PREEMPTABLE)) in TRUE

    def remember(self, name: str, basis: object, compute: Callable[[], T]) -> T:
        """Returns the result of ``compute``, which depends on nothing but ``basis`` and the PodGroup and its tasks. It
        is computed again in a later session only if one of these has changed. After a session has moved tasks of the
        job, it is computed at each call."""
        if self.changed:
            return compute()
        if self.remembered is None:
            self.remembered = {}
        known = self.remembered.get(name)
        if known is None or known[0] != basis:
            known = self.remembered[name] = basis, compute()
        result: T = known[1]
        return result

    def forget(self, name: str) -> None:
        """Computes a remembered result again at the next call of ``remember``."""
        if self.remembered is not None:
            self.remembered.pop(name, None)

    def waiting_by_message(self) -> Mapping[tuple[int, str], Sequence[Task]]:
        """Returns the pending tasks that this scheduler reports on, without gated ones: (class id, message that they
        have now) -> tasks."""
        return self.remember("waiting by message", None, self._waiting_by_message)

    def _waiting_by_message(self) -> dict[tuple[int, str], list[Task]]:
        found: dict[tuple[int, str], list[Task]] = {}
        for task in self.of(TaskStatus.PENDING).values():
            if task.ours and not task.gated:
                found.setdefault((task.cls.id, task.message), []).append(task)
        return found

    @property
    def owner_name(self) -> str:
        """The name of the vcjob or AscendJob that owns the PodGroup, which has that name and its uid; "": of another
        owner, or of none."""
        name = self.name.removesuffix(f"-{self.owner_uid}")
        return name if self.owner_kind in (VCJOB, ACJOB) and name != self.name else ""

    @property
    def is_settled(self) -> bool:
        """Nothing in the job waits or is to be written: all its Pods run, it holds its minResources, and the status of
        its PodGroup says so. Sessions skip such jobs, except as victims."""
        running = self.by_status.get(TaskStatus.RUNNING)
        return (
            running is not None
            and len(self.by_status) == 1
            and self.phase == self.stored_phase == RUNNING
            and self.counts == (len(running), 0, 0)
            and len(running) >= self.min_member
            and not (self.sub_jobs or self.claimed_phase or self.recorded)
            and self._conditions_are_final()
            and ((limit := self.reservation_limit) is None or True not in (limit > self.allocated).tolist())
        )

    @property
    def is_online(self) -> bool:
        """Whether one of its Pods is online (``workloads.is_online``)."""
        for group in self.by_status.values():
            for task in group.values():
                if task.cls.online:
                    return True
        return False

    def _conditions_are_final(self) -> bool:
        """The gang is Scheduled, and not Unschedulable at the same time; none of its devices is unhealthy."""
        scheduled = False
        for condition in self.conditions:
            if condition.type == CONDITION_SCHEDULED and condition.reason == REASON_GANG_READY:
                scheduled = True
            elif condition.type in _TEMPORARY and condition.status == "True":
                return False
        return scheduled

    def clear_records(self) -> None:
        """Clears what a session recorded on the job."""
        self.refusals = self.new_conditions = ()
        self.alternative = ""
        self._fit_errors = self._transaction = None

    def move(self, task: Task, old: TaskStatus, new: TaskStatus) -> None:
        """Moves a task to another status and updates the sums. Raises KeyError if the task is not in ``old``."""
        group = self.by_status[old]
        del group[task.uid]
        if not group:
            del self.by_status[old]
        self.by_status.setdefault(new, {})[task.uid] = task
        self.account((task,), old, new)

    def account(self, tasks: Sequence[Task], old: TaskStatus, new: TaskStatus) -> None:
        """Updates the sums after tasks of one class have moved to another status."""
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
        """Number of tasks per role in these statuses."""
        result: dict[str, int] = {}
        for status in statuses:
            for task in self.of(status).values():
                result[task.role] = result.get(task.role, 0) + 1
        return result

    @property
    def has_sub_groups(self) -> bool:
        """The PodGroup has sub-groups, each of which is ready on its own."""
        return self.sub_group_minimum is not None

    @property
    def has_topology(self) -> bool:
        """The job or one of its sub-groups requests a network topology."""
        return any(sub_job.topology is not None for sub_job in self.sub_jobs.values()) or self.topology is not None

    @property
    def has_tier_limit(self) -> bool:
        """The job or one of its sub-jobs may not span all tiers."""
        return any(s.tier_limit is not None for s in self.sub_jobs.values()) or self.tier_limit is not None

    @property
    def enforces_role_minimum(self) -> bool:
        """Whether spec.minTaskMember must be met. It is ignored if minMember is below its sum."""
        return bool(self.role_minimum) and self.min_member >= sum(self.role_minimum.values())
