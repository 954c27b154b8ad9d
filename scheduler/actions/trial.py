"""One task and one node: who is evicted to bring them together, and no more than is needed.

A trial acts in a statement of its own, to be merged or discarded by who began it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.api.decisions import EventPost, pod_ref
from scheduler.api.job import Job
from scheduler.api.names import EVENT_NORMAL
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.classview import ClassView
from scheduler.framework.extension import ALLOCATABLE, ExtensionPoint
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement

LOWEST_PRIORITY = 2**31
"""Added to priorities, so that a sum grows with the number of its parts."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What one action evicts for, and how it is told."""

    session: Session
    point: ExtensionPoint
    """Whose victim functions are asked."""
    reason: str
    """The word in the victim's Evict Event."""
    event: str
    """The reason of the victim's Event that names who takes the place."""
    across_queues: bool
    """Victims are of other queues."""

    def permitted(self, job: Job, task: Task) -> bool:
        """Whether the queue may have the task as things stand. Evictions may change that: those of tasks of the same
        queue and, in a hierarchy, of another below the same parent."""
        session = self.session
        return session.allocatable(session.queues[job.queue], job, task.cls, 1) > 0

    def permitted_now(self, job: Job, task: Task) -> bool:
        """Whether the queue may have the task, which is ``permitted``, before what terminates is gone."""
        session = self.session
        return session.allocatable_now(session.queues[job.queue], job, task.cls, 1) > 0

    def taken_back(self, claimant: Job, victim: Task) -> bool:
        """Whether the queue of an evicted task takes the place right back: as the next session will find it, it is
        served before the claimant's and may have the task again."""
        session, job = self.session, self.session.jobs[victim.job]
        loser, winner = session.queues[job.queue], session.queues[claimant.queue]
        if not session.functions(ALLOCATABLE) or session.queue_key(loser) > session.queue_key(winner):
            return False
        with unspoken(job, (victim,)):
            return session.allocatable(loser, job, victim.cls, 1) > 0

    def evict(self, statement: Statement, victim: Task, words: str) -> None:
        """``words``: who takes the victim's place, for the Event."""
        told = EventPost(pod_ref(victim), EVENT_NORMAL, self.event, words)
        statement.evict(self.session.jobs[victim.job], victim, self.reason, told)


def named(job: Job) -> str:
    """The job as it is named to those who make room for it."""
    return f"PodGroup {job.key} (priority {job.priority}, queue {job.queue})"


class Trial:
    """One task, one node, and the evictions that bring them together."""

    def __init__(self, terms: Terms, job: Job, task: Task, view: ClassView, row: int, dims: NDArray[np.intp]) -> None:
        """``dims``: the resources in which the task is compared with the node."""
        self.statement = terms.session.statement()
        self._terms = terms
        self._job = job
        self._task = task
        self._view = view
        self._row = row
        self._dims = dims
        self._request = task.cls.request[dims]
        node = terms.session.nodes.names[row]
        self._words = f"Makes room on node {node} for Pod {task.key} of {named(job)}"
        self._evicted: list[Task] = []
        self.filtered = False
        """It failed by a filter or a plugin's books: tasks of another class may fare better."""

    def clear(self, victims: Sequence[Task], *, thorough: bool) -> bool:
        """Evict victims, in the order given, until the task may have the node; whether that was enough.

        A victim that holds nothing of what the node lacks is passed over. Where it is not amounts but a quota or a
        condition that is in the way, there is no telling whom it takes: those who prove to have gone for nothing stay.
        ``thorough``: so does everybody whom a later victim has made unnecessary.
        """
        wanted = self._wanted()
        held = [victim.cls.request[self._dims] for victim in victims]
        if (wanted > sum(held)).any():
            return False
        if not self._terms.across_queues:
            self._terms.session.decisions.preemption_attempts += 1
        passed = []
        for victim, amounts in zip(victims, held, strict=True):
            if amounts[wanted > 0].any():
                self._evict(victim)
                wanted = wanted - amounts
            else:
                passed.append(victim)
        guessed = []
        for victim in passed:
            if self._admitted():
                break
            self._evict(victim)
            guessed.append(victim)
        else:
            if not self._admitted():
                return False
        for victim in reversed(list(self._evicted) if thorough else guessed[:-1]):
            self._spare(victim)
            if (self._wanted() > 0).any() or not self._admitted():
                self._evict(victim)
        return True

    def place(self) -> bool:
        """Promise the node to the task; whether that makes sense and the books of all plugins allow it."""
        if self._terms.across_queues and any(map(self._futile, list(self._evicted))):
            return False
        try:
            self.statement.pipeline(self._job, self._task, self._row, nominate=bool(self._evicted))
        except AllocationError:
            self.filtered = True
            return False
        return True

    def cost(self) -> tuple[float, ...]:
        """The less, the better: the highest priority among the victims, the sum of all, their number, and how early the
        oldest of the most important was made."""
        highest = max((victim.priority for victim in self._evicted), default=-LOWEST_PRIORITY)
        total = sum(victim.priority + LOWEST_PRIORITY for victim in self._evicted)
        earliest = min((victim.creation for victim in self._evicted if victim.priority == highest), default=0.0)
        return (highest, total, len(self._evicted), -earliest)

    def _futile(self, victim: Task) -> bool:
        """Whether evicting a task of another queue leads nowhere: some plugin would have spared it, and its queue takes
        the place right back. Another Pod like it would be placed and be evicted in turn, for ever."""
        session = self._terms.session
        if not self._terms.taken_back(self._job, victim):
            return False
        self._spare(victim)
        answers = [f(self._task, [victim]) for tier in session.functions(self._terms.point) for f in tier]
        self._evict(victim)
        return any(answer is not None and not answer for answer in answers)

    def _wanted(self) -> Vector:
        """How much more the node has to have of the resources compared; below 0: what it will have to spare."""
        future = self._terms.session.nodes.future_idle_of(self._row)
        wanted: Vector = self._request - future[self._dims]
        return wanted

    def _admitted(self) -> bool:
        """Whether quota and filters let the task onto the node once those evicted are gone."""
        if not self._terms.permitted(self._job, self._task):
            return False
        later = self._view.admits_later(self._row)
        self.filtered = not later
        return later

    def _evict(self, victim: Task) -> None:
        self._terms.evict(self.statement, victim, self._words)
        self._evicted.append(victim)

    def _spare(self, victim: Task) -> None:
        self.statement.spare(victim)
        self._evicted.remove(victim)


@contextmanager
def unspoken(job: Job, tasks: Sequence[Task]) -> Iterator[None]:
    """What is noted on the job and its tasks meanwhile is forgotten: it was asked what would be, not what is."""
    refusals, errors = len(job.refusals), dict(job.fit_errors)
    given = {task.uid: job.transaction.get(task.uid) for task in tasks}
    try:
        yield
    finally:
        del job.refusals[refusals:]
        job.fit_errors = errors
        for uid, transaction in given.items():
            job.transaction.pop(uid, None)
            if transaction is not None:
                job.transaction[uid] = transaction
