"""Policies, which distinguish the actions that evict, and the questions that a search asks under a policy.

The policies of all actions stand side by side in ``eviction_actions``.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import msgspec

from scheduler.actions.eviction.bundles import Bundle, BundlesByJob
from scheduler.actions.eviction.gang_room import Part
from scheduler.actions.eviction.guard import DeservedGuard
from scheduler.api.decisions import EventRecord, pod_ref
from scheduler.api.job import Job
from scheduler.api.names import EVENT_NORMAL
from scheduler.api.node import Mask
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskClass
from scheduler.framework.extension import ALLOCATABLE, EvictionContext, ExtensionPoint, Protection
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

DEFAULT_MAX_DOMAINS = 8


class Enough(Enum):
    """How much room a job needs, so that evictions for it are not taken back."""

    TASK = "room for one of its tasks"
    JOB = "room for so many of its tasks, one after another, that it becomes ready"
    GANG = "room for all its waiting tasks at once"


class NodeComparison(msgspec.Struct, frozen=True):
    """How many nodes are compared before the one with the cheapest victims is chosen (Volcano's topology-aware
    preemption)."""

    percentage: int
    """The number of compared nodes, as a percentage of all nodes."""
    minimum: int
    maximum: int

    def number(self, nodes: int) -> int:
        """Returns how many nodes with room are compared, of a number of nodes."""
        return max(min(max(nodes * self.percentage // 100, self.minimum), self.maximum), 1)


class VictimNodeOrder(msgspec.Struct, frozen=True):
    """The search for room for one task goes through the nodes, and on each through its victims in eviction order."""

    by_score: bool
    """Whether the node with the highest score is the first, otherwise the first by name."""
    comparison: NodeComparison | None = None
    """None: the first node with room is used."""


class BundleOrder(msgspec.Struct, frozen=True):
    """The search for room for a gang goes through the domains of the network, and in each through the bundles."""

    sort: Callable[[Session, EvictionContext, BundlesByJob], Iterator[Bundle]]
    """Yields the bundles in the order of eviction."""
    max_domains: int = DEFAULT_MAX_DOMAINS
    """How many domains are searched at most."""
    break_gangs: bool = True
    """Whether a gang may be evicted as a whole."""


class EvictionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How an action evicts."""

    action: str
    """The name of the action: the reason of the victim's Evict Event."""
    event: str
    """The reason of the Event that names the preemptor to the victim."""
    serves: Callable[[Job], bool] = lambda job: True
    """Returns whether the action evicts for a starving job."""
    from_queues: Callable[[Session, Queue], Mask]
    """Who may give: returns the candidates that may be evicted for a queue, as far as queues and Pods say."""
    from_jobs: tuple[Callable[[Session, Job], Mask], ...] = ()
    """Who may give: each returns the candidates that may be evicted for a job, as far as jobs say."""
    approval: ExtensionPoint
    """Who must not: the extension point at which plugins approve victims."""
    across_queues: bool
    """Whether victims belong to other queues, which keep what they deserve (``DeservedGuard``)."""
    order: VictimNodeOrder | BundleOrder
    """The order in which nodes, domains and victims are tried."""
    enough: Enough
    """How much is enough."""
    best_effort_apart: bool = False
    """Whether best-effort tasks evict only best-effort tasks."""
    asked_of_jobs: tuple[ExtensionPoint, ...] = ()
    """The extension points on which a search for a job depends, besides readiness: a search that failed is not repeated
    for equal jobs. Empty: each job is searched."""

    def may_give(self, session: Session, job: Job) -> Mask:
        """Returns the candidates that may be evicted for a job, as far as queues, jobs and Pods say."""
        return self.of_jobs(session, job, self.from_queues(session, session.queues[job.queue]))

    def of_jobs(self, session: Session, job: Job, scope: Mask) -> Mask:
        """Returns the candidates of a mask whose jobs may give."""
        for given in self.from_jobs:
            scope = scope & given(session, job)
        return scope


class Preemptor(msgspec.Struct, frozen=True):
    """The tasks of a job for which room is made at once."""

    job: Job
    tasks: Sequence[Task]
    """The tasks, at least one."""
    parts: Sequence[Part] = ()
    """The tasks of a gang per sub-job."""

    @property
    def classes(self) -> tuple[TaskClass, ...]:
        if len(self.tasks) == 1:
            return (self.tasks[0].cls,)
        return tuple({task.cls.id: task.cls for task in self.tasks}.values())


class EvictionRules:
    """A policy in one session."""

    def __init__(self, session: Session, policy: EvictionPolicy) -> None:
        self.session = session
        self.policy = policy
        self.guard = session.once(DeservedGuard)
        """What other queues keep."""
        keeps = policy.across_queues and self.guard.active
        self.protections: tuple[Protection | None, ...] = tuple(Protection) if keeps else (None,)
        """How much other queues keep, the strictest first; None: nothing, because victims belong to the same queue, or
        no plugin divides the cluster among queues."""

    def approved(self, preemptor: Task | EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that plugins approve as victims. Their answer about one depends on those before."""
        approved: list[Task] = self.session.ask(self.policy.approval, preemptor, candidates)
        return approved

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
        session = self.session
        if not self.policy.across_queues or not session.functions(ALLOCATABLE):
            return False
        job = session.jobs[victims[0].job]
        loser, winner = session.queues[job.queue], session.queues[preemptor.queue]
        if session.queue_key(loser) > session.queue_key(winner):
            return False
        numbers = Counter(task.cls for task in victims)
        rows = session.nodes.index
        with without_side_effects(job, victims):
            return all(
                session.allocatable(loser, job, cls, number) >= number for cls, number in numbers.items()
            ) and all(session.view(task.cls, job).admits_later(rows[task.node]) for task in victims)

    def evict(self, statement: Statement, victim: Task, message: str) -> None:
        """Evicts a task in a statement. ``message``: the text of its Event, which names the preemptor."""
        event = EventRecord(pod_ref(victim), EVENT_NORMAL, self.policy.event, message)
        statement.evict(self.session.jobs[victim.job], victim, self.policy.action, event)


def describe(job: Job) -> str:
    """Returns the preemptor as Events of its victims name it."""
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
