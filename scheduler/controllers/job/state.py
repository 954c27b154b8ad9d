"""The state of a job that the controller keeps between two reconciliations. All of it may be lost: the objects
determine what to do, and this state only avoids repeated Events and writes.

Actions of policies with a timeout are kept here until they are due or their cause is gone: a new leader derives them
from the Pods again. The delay of a pending Pod counts from its creation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from scheduler.api import batch
from scheduler.api.batch import Action, JobEvent
from scheduler.api.decisions import EventRecord
from scheduler.controllers.effects import Json
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.plugins.contract import JobPlugin


class Delayed(msgspec.Struct, frozen=True):
    """An action that waits."""

    action: Action
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
        self._waiting[key] = Delayed(action, request, due)
        return True

    def superseded(self, request: PolicyRequest) -> None:
        """Drops actions that a later event makes obsolete: a Pod is no longer pending, or runs again."""
        self._drop(lambda d: d.request.event is JobEvent.POD_PENDING and d.request.pod_uid == request.pod_uid)
        if request.event is JobEvent.POD_RUNNING:
            ended = (JobEvent.POD_FAILED, JobEvent.POD_EVICTED)
            self._drop(lambda d: d.request.event in ended and d.request.pod == request.pod)

    def take_due(self, now: float) -> list[Delayed]:
        """Removes and returns the actions that are due, the earliest first."""
        due = sorted((d for d in self._waiting.values() if d.due <= now), key=lambda d: d.due)
        self._drop(lambda d: d.due <= now)
        return due

    def carried_out(self, action: Action, request: PolicyRequest | None) -> None:
        """Drops the actions that a completed one with the same target (job, task, partition or Pod) makes obsolete."""
        done = scope(action, request)
        self._drop(lambda d: scope(d.action, d.request) == done)

    def next_due(self) -> float | None:
        return min((d.due for d in self._waiting.values()), default=None)

    def _drop(self, which: Callable[[Delayed], bool]) -> None:
        for key in [key for key, delayed in self._waiting.items() if which(delayed)]:
            del self._waiting[key]


def scope(action: Action, request: PolicyRequest | None) -> tuple[str, ...]:
    """The target of an action."""
    if request is not None and action is Action.RESTART_POD:
        return ("pod", request.pod)
    if request is not None and action is Action.RESTART_TASK:
        return ("task", request.task)
    if request is not None and action is Action.RESTART_PARTITION:
        return ("partition", request.task, request.partition)
    return ("job",)


class PendingAction(msgspec.Struct, frozen=True):
    """An action to carry out, and the request that caused it."""

    action: Action
    request: PolicyRequest | None = None

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
    group_spec: Json = field(default_factory=dict)
    """The PodGroup's, for this version of the spec."""
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

    def add(self, pending: PendingAction) -> None:
        """Adds an action, unless the same action for the same target is pending."""
        wanted = (pending.action, scope(pending.action, pending.request))
        if all((other.action, scope(other.action, other.request)) != wanted for other in self.pending_actions):
            self.pending_actions.append(pending)

    def finish_current(self) -> None:
        """The status contains the current action: everything else follows from the status."""
        self.pending_actions = [pending for pending in self.pending_actions if pending is not self.current]
        self.current = None

    def refresh_spec(self, job: batch.Job) -> tuple[ParsedSpec, bool]:
        """Returns the parsed spec of the job, and whether it is new."""
        known = self.parsed_spec
        if known is not None and (known.spec is job.spec or known.spec == job.spec):
            known.spec = job.spec  # so that the next comparison is one of two references
            return known, False
        self.parsed_spec = ParsedSpec(job)
        self.plugins, self.refreshed = None, False
        return self.parsed_spec, True
