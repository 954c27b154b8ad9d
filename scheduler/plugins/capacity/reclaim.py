"""The tasks that can be reclaimed from a queue for a queue below its deserved share.

A task can be reclaimed if its queue holds more than it deserves of a resource that the task requests, or deserves none
of these resources. The guarantee of the queue is never reclaimed. With ``ancestorReclaimLevel`` above 0 the rule also
applies to the ancestors of the victim's queue up to this level that are not ancestors of the reclaiming queue.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.node import Column, Mask
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, less_equal
from scheduler.api.task import Task
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import EvictionContext, ReclaimContext
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.capacity.books import QueueBook
from scheduler.plugins.support.deserved import DeservedShares, take


class QueueReclaim:
    """Decides about reclaim between queues."""

    def __init__(self, session: PluginSession, books: Mapping[str, QueueBook], ancestor_level: int) -> None:
        self._books = books
        self._jobs = session.jobs
        self._row_of = session.nodes.index
        self._width = session.dimensions.width
        self._level = ancestor_level

    @cached_property
    def shares(self) -> DeservedShares:
        """Made when an action asks what queues can lose for another one."""
        paths = {name: [above for above in book.path if above.name != ROOT_QUEUE] for name, book in self._books.items()}
        return DeservedShares(self._width, paths, self.may_be_reclaimed)

    def changed(self, queue: str) -> None:
        """Follows a change of the allocated amounts of a queue and of its ancestors."""
        if "shares" in self.__dict__:
            self.shares.changed(queue)

    def possible_losses(self, context: ReclaimContext, candidates: EvictionCandidates) -> Mask:
        return self.shares.possible(context, candidates)

    def most_losses(self, context: ReclaimContext, candidates: EvictionCandidates) -> Column:
        return self.shares.most(context, candidates)

    def may_reclaim(self, book: QueueBook, request: Vector) -> bool:
        """Whether the queue may reclaim the request: it stays within its limit, and the queue or one of its ancestors
        up to the level stays within its deserved share of a requested resource."""
        if book.over(request):
            return False
        return any(_stays_within_deserved(at, request) for at in (book, *self._above(book)))

    def victims(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that can be reclaimed for a task, if all candidates before them are."""
        return self._victims(self._jobs.get(reclaimer.job), reclaimer.cls.request, candidates)

    def evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that can be evicted for a gang. Within a queue, all can."""
        return self._victims(context.job, context.request, candidates) if context.across_queues else list(candidates)

    def _victims(self, job: Job | None, request: Vector, candidates: Sequence[Task]) -> list[Task]:
        book = self._books.get(job.queue) if job else None
        if book is None:
            return []
        held: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            owner = self._jobs.get(task.job)
            victim_book = self._books.get(owner.queue) if owner else None
            if victim_book is not None and self._can_reclaim(task, victim_book, request, book, held):
                take(held, [victim_book, *self._ancestors_to_check(book, victim_book)], task.cls.request)
                victims.append(task)
        return victims

    def losses(self, context: ReclaimContext, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates whose eviction, in this order, leaves their queues and the ancestors of these what the
        context says. For a job, the rule of ``victims`` applies as well."""
        reclaimer = context.job.queue if context.job is not None else ""
        book = self._books.get(reclaimer)
        left: dict[str, Vector] = {}
        found = []
        for task in candidates:
            owner = self._jobs.get(task.job)
            victim_book = self._books.get(owner.queue) if owner else None
            if victim_book is None:
                if context.job is None:
                    found.append(task)  # its queue does not exist, so it deserves nothing
                continue
            amount, row = task.cls.request, self._row_of.get(task.node, 0)
            path = self.shares.path(victim_book.name, reclaimer)
            if not self.shares.keeps(context, path, amount, row, left):
                continue
            checked: list[QueueBook] = []
            if context.request is not None:
                if book is None or not self._can_reclaim(task, victim_book, context.request, book, left):
                    continue
                checked = [above for above in self._ancestors_to_check(book, victim_book) if above not in path]
            take(left, [*path, *checked], amount)
            found.append(task)
        return found

    def may_be_reclaimed(self, queue: str) -> bool:
        """Whether any task of the queue can be reclaimed."""
        book = self._books.get(queue)
        if book is None:
            return False
        if _above_deserved(book, book.allocated).any():
            return True
        undeserved = (book.allocated >= SMALLEST) & (book.deserved < SMALLEST)
        undeserved[PODS_INDEX] = False
        return bool(undeserved.any() and book.deserved[PODS_INDEX] < SMALLEST)

    def _can_reclaim(
        self, task: Task, victim_book: QueueBook, request: Vector, book: QueueBook, held: dict[str, Vector]
    ) -> bool:
        """Whether a task can be reclaimed for a request of ``book``. ``held``: queue -> what it holds without the
        victims chosen before."""
        amount = task.cls.request
        if not _overlap(amount, request):
            return False
        allocated = held.get(victim_book.name, victim_book.allocated)
        if not less_equal(victim_book.guarantee, allocated - amount):
            return False
        if not _undeserved(amount, victim_book):
            if not _exceeds(amount, victim_book, allocated):
                return False
        elif self._share_ancestor(book, victim_book) and _undeserved(request, book):
            return False  # neither queue deserves the resources, and they share an ancestor
        return all(
            _undeserved(amount, above) or _exceeds(amount, above, held.get(above.name, above.allocated))
            for above in self._ancestors_to_check(book, victim_book)
        )

    def _above(self, book: QueueBook) -> list[QueueBook]:
        """Returns the ancestors of a queue up to the level, without the root."""
        return [above for above in book.path[1 : self._level + 1] if above.name != ROOT_QUEUE]

    def _share_ancestor(self, left: QueueBook, right: QueueBook) -> bool:
        mine = {above.name for above in self._above(left)}
        return any(above.name in mine for above in self._above(right))

    def _ancestors_to_check(self, reclaimer: QueueBook, victim_book: QueueBook) -> Iterable[QueueBook]:
        """Yields the ancestors of the victim's queue, up to the level, that the reclaiming queue does not share at the
        same height."""
        for height, above in enumerate(victim_book.path[1 : self._level + 1], start=1):
            same = height < len(reclaimer.path) and reclaimer.path[height] is above
            if above.name != ROOT_QUEUE and not same:
                yield above


def _stays_within_deserved(book: QueueBook, request: Vector) -> bool:
    """Whether the queue stays within its deserved share of a requested resource after it gets the request."""
    after = book.allocated + request
    within = (request > 0) & ((after >= SMALLEST) | (book.deserved >= SMALLEST)) & (after < book.deserved + SMALLEST)
    within[PODS_INDEX] = False
    return bool(within.any())


def _overlap(left: Vector, right: Vector) -> bool:
    """Whether both request the same resource other than ``pods``."""
    both = (left >= SMALLEST) & (right >= SMALLEST)
    both[PODS_INDEX] = False
    return bool(both.any())


def _undeserved(amount: Vector, book: QueueBook) -> bool:
    """Whether the queue deserves none of the resources in the amount (``pods`` count)."""
    return not np.any((amount >= SMALLEST) & (book.deserved >= SMALLEST))


def _exceeds(amount: Vector, book: QueueBook, allocated: Vector) -> bool:
    """Whether the queue holds more than it deserves of a resource in the amount."""
    return bool(np.any((amount > 0) & _above_deserved(book, allocated)))


def _above_deserved(book: QueueBook, allocated: Vector) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns the resources named in spec.deserved of which the queue holds more than it deserves."""
    over = book.deserved_by_name & (allocated > book.deserved)
    over[PODS_INDEX] = False
    return over
