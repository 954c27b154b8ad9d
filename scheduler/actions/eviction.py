"""Making room for tasks: on which node of the cluster, and for whom it is in vain.

Shared by preempt and reclaim, which differ in whose tasks are candidates and in which order nodes are tried.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from scheduler.actions.openings import Lacking, Openings, compared
from scheduler.actions.order import worst_first
from scheduler.actions.trial import Terms, Trial, unspoken
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.queue import Queue
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

NEVER = "Never"
"""preemptionPolicy of Pods that evict nobody."""
Claim = tuple[object, ...]


def contenders(session: Session) -> Iterator[Job]:
    """The jobs that may take from others: let into their queues, valid, with tasks to place, starving."""
    for job in session.jobs.values():
        if (
            TaskStatus.PENDING in job.by_status
            and not job.waiting_for_queue
            and job.queue in session.queues
            and session.job_starving(job)
            and session.job_valid(job) is None
        ):
            yield job


def waiting(session: Session, job: Job) -> list[Task]:
    """The tasks of a job that want a node now, in task order."""
    return sorted((t for t in job.of(TaskStatus.PENDING).values() if not t.gated), key=session.task_key)


def await_their_places(session: Session, tasks: Sequence[Task]) -> bool:
    """Whether all tasks have nodes nominated earlier that will have enough for them, once what still terminates on some
    of these is gone."""
    nodes = session.nodes
    rows = [nodes.index.get(task.nominated) for task in tasks]
    left = {row: nodes.future_idle_of(row) for row in rows if row is not None}
    for task, row in zip(tasks, rows, strict=True):
        if row is None:
            return False
        left[row] -= task.cls.request
        if (left[row][compared(task.cls.request)] < 0).any():
            return False
    return bool(nodes.releasing[PODS_INDEX, list(left)].any())


def of_other_queues(session: Session, claimant: Queue) -> Mask:
    """The tenants that run and that a queue may take nodes back from, as far as queues and Pods themselves say."""

    def loses(name: str) -> bool:
        queue = session.queues.get(name)
        return queue is not None and queue is not claimant and queue.reclaimable

    tenants = session.tenants
    return tenants.running & tenants.preemptable & tenants.of_queues(loses)


@dataclass(frozen=True, slots=True)
class Survey:
    """How many nodes are looked at before the one is taken whose victims matter least (Volcano's topology-aware
    preemption)."""

    percentage: int
    """Of all nodes."""
    least: int
    most: int

    def best(self, rows: Iterable[int], nodes: int, attempt: Callable[[int], Trial | None]) -> list[int]:
        """The best of the rows that can be had, alone in a list; empty if there is none. Nothing is evicted yet."""
        number = max(min(max(nodes * self.percentage // 100, self.least), self.most), 1)
        costs: dict[int, tuple[float, ...]] = {}
        for row in rows:
            trial = attempt(row)
            if trial is not None:
                costs[row] = trial.cost()
                trial.statement.discard()
            if len(costs) == number:
                break
        return [min(costs, key=lambda row: costs[row])] if costs else []


class RoomMaker:
    """Evicts tasks for others, for one action of one session."""

    def __init__(self, terms: Terms, *, ranked: bool, survey: Survey | None = None) -> None:
        """``ranked``: nodes are tried by score, else by name. ``survey``: compare the victims of several nodes; None:
        take the first node that can be had."""
        self._terms = terms
        self._session = terms.session
        self._ranked = ranked
        self._survey = survey
        self._openings = Openings(terms.session, terms.point)
        self._hopeless: dict[Claim, Mask] = {}
        """Claim -> nodes on which it cannot be met, whatever the filters of a class say."""
        self._in_vain: set[tuple[Claim, int]] = set()
        """(claim, class id) of what found no node at all. Both hold until something changes."""

    def make_room(self, job: Job, task: Task, scope: Mask, statement: Statement) -> bool:
        """Pipeline a pending task onto a node, evicting tasks of ``scope`` as needed; whether that came about."""
        session = self._session
        if task.cls.spec.preemption_policy == NEVER or await_their_places(session, (task,)):
            return False
        claim = _claim(job, task)
        if (claim, task.cls.id) in self._in_vain:
            return False
        with unspoken(job, (task,)):
            done = self._search(job, task, scope, statement, claim)
        if done:
            self.forget()
        else:
            self._in_vain.add((claim, task.cls.id))
        return done

    def forget(self) -> None:
        """Something changed (a statement was discarded, too): what was in vain may be possible now."""
        self._hopeless.clear()
        self._in_vain.clear()

    def _search(self, job: Job, task: Task, scope: Mask, statement: Statement, claim: Claim) -> bool:
        session = self._session
        scope = scope & session.tenants.present
        hopeless = self._hopeless.setdefault(claim, np.zeros(len(session.nodes), dtype=bool))
        lacking = Lacking(session, task.cls.request)
        may_open = self._openings.for_task(task, lacking, scope) & ~hopeless
        room = lacking.nothing()
        if room.any() and not self._terms.permitted(job, task):
            room[:] = False  # it is the quota that is in the way
        elif room.any() and not self._terms.permitted_now(job, task):
            return False  # the quota is held by tasks that terminate: no further eviction helps
        if not (may_open | room).any():
            return False
        view = session.view(task.cls, job)
        usable = ~view.unresolvable()
        may_open &= usable
        room &= usable
        if room.any():
            room &= view.passes_in_future()

        def tried(nodes: Mask) -> Iterator[int]:
            return view.best_first(nodes, usable) if self._ranked else map(int, np.flatnonzero(nodes))

        def attempt(row: int) -> Trial | None:
            trial = Trial(self._terms, job, task, view, row, lacking.dims)
            candidates = worst_first(session, session.tenants.at(row, scope), session.queues[job.queue])
            victims: list[Task] = session.ask(self._terms.point, task, candidates) if candidates else []
            if trial.clear(victims, thorough=self._survey is not None) and trial.place():
                return trial
            trial.statement.discard()
            hopeless[row] = not trial.filtered
            return None

        rows = tried(may_open & ~room)
        if room.any():  # nobody goes while there is room
            rows = chain(tried(room), rows)
        elif self._survey is not None:
            rows = iter(self._survey.best(rows, len(session.nodes), attempt))
        for row in rows:
            trial = attempt(row)
            if trial is not None:
                statement.merge(trial.statement)
                return True
        return False


def _claim(job: Job, task: Task) -> Claim:
    """What matters of a claimant to quotas and victim functions: tasks of one claim are answered alike."""
    cls = task.cls
    own = job.key if job.count(TaskStatus.RUNNING, TaskStatus.BOUND) else ""
    amounts = (cls.request.tobytes(), job.allocated.tobytes(), job.pipelined.tobytes())
    annotations = tuple(sorted(cls.annotations.items()))
    return (job.queue, job.priority, task.priority, own, cls.namespace, annotations, *amounts)
