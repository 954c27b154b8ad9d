"""The eviction policy of an action: the extension point that approves victims, the Events of victims, and the quota of
the queue."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from scheduler.actions.eviction.deserved import DeservedGuard
from scheduler.api.decisions import EventRecord, pod_ref
from scheduler.api.job import Job
from scheduler.api.names import EVENT_NORMAL
from scheduler.api.task import Task
from scheduler.framework.extension import ALLOCATABLE, ExtensionPoint, Protection
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

PROTECTIONS = tuple(Protection)
MAX_EVICTIONS = 1500
"""Evictions that an action decides in one session before it leaves the other jobs to the next session."""


class EvictionLimit:
    """Keeps sessions short while thousands of Pods are evicted: the API server carries out about a thousand evictions
    per second, so more of them in one session delay the first ones and gain nothing."""

    def __init__(self, session: Session) -> None:
        """Counts from now on."""
        self._evictions = session.decisions.evictions
        self._before = len(self._evictions)

    def reached(self) -> bool:
        return len(self._evictions) - self._before >= MAX_EVICTIONS


class EvictionPolicy(msgspec.Struct, frozen=True):
    """The rules by which one action of one session evicts."""

    session: Session
    point: ExtensionPoint
    """The extension point whose victim functions approve victims."""
    reason: str
    """The word in the victim's Evict Event."""
    event: str
    """The reason of the victim's Event that names the preemptor."""
    across_queues: bool
    """Whether victims belong to other queues."""

    @property
    def protections(self) -> tuple[Protection | None, ...]:
        """How much other queues keep, the strictest first; None: nothing, because victims belong to the same queue, or
        no plugin divides the cluster among queues."""
        return PROTECTIONS if self.across_queues and self.guard.active else (None,)

    @property
    def guard(self) -> DeservedGuard:
        """What other queues keep."""
        return self.session.once(DeservedGuard)

    def within_quota(self, job: Job, task: Task) -> bool:
        """Whether the queue's quota admits the task once terminating tasks end. Evictions can change the answer: those
        in the same queue and, in a hierarchy, those in another queue below the same parent."""
        session = self.session
        return session.allocatable(session.queues[job.queue], job, task.cls, 1) > 0

    def within_quota_now(self, job: Job, task: Task) -> bool:
        """Whether the queue's quota admits a task that is ``within_quota`` before terminating tasks end."""
        session = self.session
        return session.allocatable_now(session.queues[job.queue], job, task.cls, 1) > 0

    def would_be_reclaimed(self, preemptor: Job, victims: Sequence[Task]) -> bool:
        """Whether the queue of evicted tasks of one job would take the resources back: the next session serves it
        before the preemptor's queue, and its quota still admits all of them, on their nodes. (A gang that is evicted as
        a whole does not start again with a part. A quota may admit a task that accepts several cards, but not with the
        card that it had.)"""
        session, job = self.session, self.session.jobs[victims[0].job]
        loser, winner = session.queues[job.queue], session.queues[preemptor.queue]
        if not session.functions(ALLOCATABLE) or session.queue_key(loser) > session.queue_key(winner):
            return False
        numbers = Counter(task.cls for task in victims)
        rows = session.nodes.index
        with without_side_effects(job, victims):
            return all(
                session.allocatable(loser, job, cls, number) >= number for cls, number in numbers.items()
            ) and all(session.view(task.cls, job).admits_later(rows[task.node]) for task in victims)

    def evict(self, statement: Statement, victim: Task, message: str) -> None:
        """Evict a task in a statement. ``message``: the text of its Event, which names the preemptor."""
        event = EventRecord(pod_ref(victim), EVENT_NORMAL, self.event, message)
        statement.evict(self.session.jobs[victim.job], victim, self.reason, event)


def describe(job: Job) -> str:
    """The preemptor as Events of its victims name it."""
    return f"PodGroup {job.key} (priority {job.priority}, queue {job.queue})"


@contextmanager
def without_side_effects(job: Job, tasks: Sequence[Task]) -> Iterator[None]:
    """Restores the refusals, fit errors and transactions of the job and its tasks on exit: questions about what would
    happen must not be reported as what did."""
    refusals, errors = job.refusals, dict(job.fit_errors)
    given = {task.uid: job.transaction.get(task.uid) for task in tasks}
    try:
        yield
    finally:
        job.refusals, job.fit_errors = refusals, errors
        for uid, transaction in given.items():
            job.transaction.pop(uid, None)
            if transaction is not None:
                job.transaction[uid] = transaction
