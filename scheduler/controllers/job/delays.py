"""Actions of policies with a timeout, until they are due or their cause is gone.

They are kept in memory: a new leader derives them from the Pods again. The delay of a pending Pod counts from its
creation.
"""

from collections.abc import Callable

import msgspec

from scheduler.api.batch import Action, JobEvent
from scheduler.controllers.job.events import Request


class Delayed(msgspec.Struct, frozen=True):
    """An action that waits."""

    action: Action
    request: Request
    due: float
    """Seconds since the epoch."""


class Delays:
    """The delayed actions of one job."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Action], Delayed] = {}
        """By the uid of the Pod concerned ("" for the job) and the action."""

    def add(self, action: Action, request: Request, due: float) -> bool:
        """Adds an action. Returns whether it is new: an action for a Pod waits only once."""
        key = (request.pod_uid, action)
        if key in self._waiting:
            return False
        self._waiting[key] = Delayed(action, request, due)
        return True

    def superseded(self, request: Request) -> None:
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

    def carried_out(self, action: Action, request: Request | None) -> None:
        """Drops the actions that a completed one with the same target (job, task, partition or Pod) makes obsolete."""
        done = scope(action, request)
        self._drop(lambda d: scope(d.action, d.request) == done)

    def next_due(self) -> float | None:
        return min((d.due for d in self._waiting.values()), default=None)

    def _drop(self, which: Callable[[Delayed], bool]) -> None:
        for key in [key for key, delayed in self._waiting.items() if which(delayed)]:
            del self._waiting[key]


def scope(action: Action, request: Request | None) -> tuple[str, ...]:
    """The target of an action."""
    if request is not None and action is Action.RESTART_POD:
        return ("pod", request.pod)
    if request is not None and action is Action.RESTART_TASK:
        return ("task", request.task)
    if request is not None and action is Action.RESTART_PARTITION:
        return ("partition", request.task, request.partition)
    return ("job",)
