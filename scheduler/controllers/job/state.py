"""The state of a job that the controller keeps between two reconciliations: what happened to the job, which actions are
to be carried out because of it, now or after a delay, and which Events have been recorded.

All of it may be lost: the objects determine what to do, and this state only avoids repeated Events and writes. Actions
of policies with a timeout are kept here until they are due or their cause is gone: a new leader derives them from the
Pods again. The delay of a pending Pod counts from its creation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from scheduler.api import batch
from scheduler.api.batch import PARTIAL_RESTARTS, Action, JobEvent
from scheduler.api.decisions import EventRecord
from scheduler.api.times import format_duration
from scheduler.controllers.effects import Json
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.observation import JobObservation
from scheduler.controllers.job.parsed_spec import ParsedSpec, first_policy
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.pods import PENDING, RUNNING, SUCCEEDED, restarts


class PendingAction(msgspec.Struct, frozen=True):
    """An action to carry out, and the request that caused it."""

    action: Action
    request: PolicyRequest | None = None

    @property
    def scope(self) -> tuple[str, ...]:
        """The target of the action."""
        request = self.request
        if request is not None and self.action is Action.RESTART_POD:
            return ("pod", request.pod)
        if request is not None and self.action is Action.RESTART_TASK:
            return ("task", request.task)
        if request is not None and self.action is Action.RESTART_PARTITION:
            return ("partition", request.task, request.partition)
        return ("job",)

    @property
    def is_no_failure(self) -> bool:
        """Whether a user requested it by a Command, or a Pod was evicted: a restart then uses up no retry."""
        return self.request is None or self.request.event is JobEvent.POD_EVICTED

    @property
    def has_no_target(self) -> bool:
        """Whether a part of the job is to be restarted because of something that concerns no such part: nothing is
        done. A Pod may be in no partition, and what happens to a PodGroup concerns no task."""
        request = self.request
        match self.action:
            case Action.RESTART_PARTITION:
                return request is None or not request.partition
            case Action.RESTART_TASK:
                return request is not None and not request.task
            case Action.RESTART_POD:
                return request is not None and not request.pod
        return False


class Delayed(msgspec.Struct, frozen=True):
    """An action that waits for the timeout of its policy."""

    pending: PendingAction
    request: PolicyRequest
    due: float
    """Seconds since the epoch."""


class Delays:
    """The delayed actions of one job."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Action], Delayed] = {}
        """Uid of the Pod concerned ("" for the job) and action -> what waits."""

    def add(self, action: Action, request: PolicyRequest, due: float) -> bool:
        """Adds an action. Returns whether it is new: an action for a Pod waits only once."""
        key = (request.pod_uid, action)
        if key in self._waiting:
            return False
        self._waiting[key] = Delayed(PendingAction(action, request), request, due)
        return True

    def superseded(self, request: PolicyRequest) -> None:
        """Drops actions that a later event makes obsolete: a Pod is no longer pending, or runs again."""
        self._drop(lambda d: d.request.event is JobEvent.POD_PENDING and d.request.pod_uid == request.pod_uid)
        if request.event is JobEvent.POD_RUNNING:
            ended = (JobEvent.POD_FAILED, JobEvent.POD_EVICTED)
            self._drop(lambda d: d.request.event in ended and d.request.pod == request.pod)

    def take_due(self, now: float) -> list[PendingAction]:
        """Removes and returns the actions that are due, the earliest first."""
        due = sorted((d for d in self._waiting.values() if d.due <= now), key=lambda d: d.due)
        self._drop(lambda d: d.due <= now)
        return [delayed.pending for delayed in due]

    def carried_out(self, done: PendingAction) -> None:
        """Drops the actions that a completed one with the same target (job, task, partition or Pod) makes obsolete."""
        self._drop(lambda d: d.pending.scope == done.scope)

    def next_due(self) -> float | None:
        return min((d.due for d in self._waiting.values()), default=None)

    def _drop(self, which: Callable[[Delayed], bool]) -> None:
        for key in [key for key, delayed in self._waiting.items() if which(delayed)]:
            del self._waiting[key]


@dataclass(slots=True)
class ReconcileState:
    """The state of one job."""

    job_uid: str
    requests: list[PolicyRequest] = field(default_factory=list)
    """What happened since the last reconciliation, in order."""
    pending_actions: list[PendingAction] = field(default_factory=list)
    """Actions that policies demand, in order."""
    current: PendingAction | None = None
    """The action that the last reconciliation began to carry out."""
    delays: Delays = field(default_factory=Delays)
    parsed_spec: ParsedSpec | None = None
    plugins: Mapping[str, JobPlugin] | None = None
    """The plugins for this version of the spec; None: they are not created yet."""
    group_spec: Json | None = None
    """The PodGroup's, for this version of the spec; None: it is not derived yet."""
    group_annotations: Mapping[str, str] = field(default_factory=dict)
    """The PodGroup's about alternatives, derived together with its spec."""
    refreshed: bool = False
    """The plugins' objects are up to date for this version of the spec."""
    compared: bool = False
    """The Pods in the status have been compared with those that exist (``losses``)."""
    written: float = float("-inf")
    """When the status was last written, in seconds since the epoch."""
    explained: float = float("-inf")
    """When the message of the status last changed, in seconds since the epoch."""
    stale: float | None = None
    """Since when the counts in the status are out of date."""
    failures: int = 0
    """Reconciliations in a row in which some write failed."""
    action: Action = Action.SYNC_JOB
    """The action of the last reconciliation."""
    pending_events: list[EventRecord] = field(default_factory=list)
    """Events to record with the next plan."""
    reported: dict[str, str] = field(default_factory=dict)
    """Topic -> the message last recorded."""

    def spec_of(self, job: batch.Job) -> ParsedSpec:
        """The parsed spec of the job. What depends on the spec alone is derived again if it has changed."""
        known = self.parsed_spec
        if known is not None and (known.spec is job.spec or known.spec == job.spec):
            known.spec = job.spec  # so that the next comparison is one of two references
            return known
        self.parsed_spec = ParsedSpec(job)
        self.plugins, self.group_spec, self.refreshed = None, None, False
        return self.parsed_spec

    # --- actions ------------------------------------------------------------------------------------------------------
    def take_requests(self, seen: JobObservation) -> list[str]:
        """Turns requests, and delays that are over, into pending actions. Returns the messages about new delays."""
        messages = []
        requests, self.requests = self.requests, []
        for request in requests:
            if request.pod:
                self.delays.superseded(request)
            if _is_past(request, seen) or not _holds(request, seen):
                continue
            task = seen.parsed_spec.tasks.get(request.task)
            own = task.policies if task else ()
            policy = first_policy(request.event, request.exit_code, own, seen.parsed_spec.policies)
            if policy is None or policy.action in (Action.SYNC_JOB, Action.IGNORE):
                continue
            if policy.timeout is None:
                self.add(PendingAction(policy.action, request))
            elif self.delays.add(policy.action, request, request.since + policy.timeout):
                messages.append(f"Execute action {policy.action} after {format_duration(policy.timeout)}")
        for pending in self.delays.take_due(seen.now):
            self.add(pending)
        self.pending_actions = [
            pending
            for pending in self.pending_actions
            if pending.request is None or not _is_past(pending.request, seen)
        ]
        # An eviction is often the cause of what happens to other Pods at the same time.
        self.pending_actions.sort(key=lambda pending: not pending.is_no_failure)
        return messages

    def add(self, pending: PendingAction) -> None:
        """Adds an action, unless the same action for the same target is pending."""
        wanted = (pending.action, pending.scope)
        if all((other.action, other.scope) != wanted for other in self.pending_actions):
            self.pending_actions.append(pending)

    def next_action(self) -> PendingAction | None:
        """The action to carry out now. An action that concerns the whole job goes first, because it makes the others
        obsolete."""
        whole = (pending for pending in self.pending_actions if pending.action not in PARTIAL_RESTARTS)
        return next(whole, self.pending_actions[0] if self.pending_actions else None)

    def finish_current(self) -> None:
        """The status contains the current action: everything else follows from the status."""
        self.pending_actions = [pending for pending in self.pending_actions if pending is not self.current]
        self.current = None


def _is_past(request: PolicyRequest, seen: JobObservation) -> bool:
    """Whether the request concerns something that an action has handled since, or that no longer belongs to the job."""
    if request.job_uid != seen.job.metadata.uid:
        return True
    if request.group_uid:
        return request.group_uid != seen.group_uid
    if request.version is not None and request.version < seen.job.status.version:
        return True
    if request.pod and request.pod not in seen.parsed_spec.slots:
        return True
    member = seen.members.get(request.pod)
    here = member is not None and member.pod.metadata.uid == request.pod_uid
    if request.event is JobEvent.POD_PENDING:
        return member is None or not here or member.deleting or member.phase != PENDING
    return False


def _holds(request: PolicyRequest, seen: JobObservation) -> bool:
    """Whether a request about a task is true: all its Pods succeeded, or its containers were restarted too often."""
    task = seen.parsed_spec.tasks.get(request.task)
    of_task = (member for member in seen.members.values() if member.task == request.task)
    if request.event is JobEvent.TASK_COMPLETED:
        done = sum(m.phase == SUCCEEDED and not (m.out_of_sync or m.deleting) for m in of_task)
        return task is not None and 0 < task.replicas <= done
    if request.event is JobEvent.TASK_FAILED:
        if task is None or task.max_restarts < 0:
            return False
        return sum(restarts(m.pod) for m in of_task if m.phase in (RUNNING, PENDING)) >= task.max_restarts
    return True
