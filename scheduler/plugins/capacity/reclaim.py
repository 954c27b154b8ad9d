"""Which tasks a queue must give up to one that has not got what it deserves.

A task may go if its queue holds more than it deserves of something the task has, or deserves nothing of what the task
has at all; never what is guaranteed. With ``ancestorReclaimLevel`` above 0 the same must hold for the queues above the
victim's, up to that level, as far as they are not above the claimant too.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, less_equal
from scheduler.api.task import Task
from scheduler.framework.extension import EvictionContext
from scheduler.plugins.capacity.books import QueueBook


class Reclaim:
    """The claims of queues on each other."""

    def __init__(self, books: Mapping[str, QueueBook], jobs: Mapping[str, Job], ancestor_level: int) -> None:
        self._books = books
        self._jobs = jobs
        self._level = ancestor_level

    def entitled(self, book: QueueBook, request: Vector) -> bool:
        """Whether the queue may take the request from others: it stays within its limit, and within what it deserves
        of some resource asked for; or one of the queues above it, up to the level, does so."""
        if book.over(request):
            return False
        return any(_deserves(at, request) for at in (book, *self._above(book)))

    def victims(self, claimant: Task, candidates: Sequence[Task]) -> list[Task]:
        """Those that may go for a task, if all before them do."""
        return self._victims(self._jobs.get(claimant.job), claimant.cls.request, candidates)

    def evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Those that may go for a gang; within a queue it has no say."""
        return self._victims(context.job, context.request, candidates) if context.across_queues else list(candidates)

    def _victims(self, job: Job | None, request: Vector, candidates: Sequence[Task]) -> list[Task]:
        book = self._books.get(job.queue) if job else None
        if book is None:
            return []
        held: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            owner = self._jobs.get(task.job)
            loser = self._books.get(owner.queue) if owner else None
            if loser is not None and self._may_go(task, loser, request, book, held):
                victims.append(task)
        return victims

    def may_lose(self, queue: str) -> bool:
        """False: the queue need not give up any task."""
        book = self._books.get(queue)
        if book is None:
            return False
        if _surplus(book, book.allocated).any():
            return True
        undeserved = (book.allocated >= SMALLEST) & (book.deserved < SMALLEST)
        undeserved[PODS_INDEX] = False
        return bool(undeserved.any() and book.deserved[PODS_INDEX] < SMALLEST)

    def _may_go(self, task: Task, loser: QueueBook, request: Vector, book: QueueBook, held: dict[str, Vector]) -> bool:
        """Whether a task may go now for a request of a queue. ``held``: queue -> what it holds once those chosen before
        are gone."""
        amount = task.cls.request
        if not _common(amount, request):
            return False
        allocated = held.get(loser.name, loser.allocated)
        if not less_equal(loser.guarantee, allocated - amount):
            return False
        if not _undeserved(amount, loser):
            if not _exceeds(amount, loser, allocated):
                return False
        elif self._kin(book, loser) and _undeserved(request, book):
            return False  # neither deserves it, and they share a parent: there is nothing to settle
        checked = list(self._to_check(book, loser))
        for above in checked:
            if not _undeserved(amount, above) and not _exceeds(amount, above, held.get(above.name, above.allocated)):
                return False
        for at in (loser, *checked):
            held[at.name] = held.get(at.name, at.allocated) - amount
        return True

    def _above(self, book: QueueBook) -> list[QueueBook]:
        """The queues above one up to the level, the root left out."""
        return [above for above in book.path[1 : self._level + 1] if above.name != ROOT_QUEUE]

    def _kin(self, left: QueueBook, right: QueueBook) -> bool:
        mine = {above.name for above in self._above(left)}
        return any(above.name in mine for above in self._above(right))

    def _to_check(self, claimant: QueueBook, loser: QueueBook) -> Iterable[QueueBook]:
        """The queues above the loser's up to the level that are not at the same height above the claimant's."""
        for height, above in enumerate(loser.path[1 : self._level + 1], start=1):
            same = height < len(claimant.path) and claimant.path[height] is above
            if above.name != ROOT_QUEUE and not same:
                yield above


def _deserves(book: QueueBook, request: Vector) -> bool:
    """The queue stays within what it deserves of some resource asked for, after it got the request."""
    after = book.allocated + request
    within = (request > 0) & ((after >= SMALLEST) | (book.deserved >= SMALLEST)) & (after < book.deserved + SMALLEST)
    within[PODS_INDEX] = False
    return bool(within.any())


def _common(left: Vector, right: Vector) -> bool:
    """Both ask for some resource other than ``pods``."""
    both = (left >= SMALLEST) & (right >= SMALLEST)
    both[PODS_INDEX] = False
    return bool(both.any())


def _undeserved(amount: Vector, book: QueueBook) -> bool:
    """The queue deserves nothing of what is in the amount (``pods`` counts)."""
    return not np.any((amount >= SMALLEST) & (book.deserved >= SMALLEST))


def _exceeds(amount: Vector, book: QueueBook, allocated: Vector) -> bool:
    """The queue holds more than it deserves of something in the amount."""
    return bool(np.any((amount > 0) & _surplus(book, allocated)))


def _surplus(book: QueueBook, allocated: Vector) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The resources of which the queue holds more than it deserves, among those it deserves an amount of by name."""
    over = book.named & (allocated > book.deserved)
    over[PODS_INDEX] = False
    return over
