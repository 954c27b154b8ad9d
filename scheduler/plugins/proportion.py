"""proportion: divides the cluster among queues by weight (Volcano's proportion plugin).

The deserved share of a queue is proportional to its weight, and at most its request and its limit. In rounds, the
remainder is divided among the other queues. A queue that has its deserved share is overused and is skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from scheduler.api.job import TRIAL_MARK, Job
from scheduler.api.node import Column, Mask
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, exceeded, is_empty, largest_share, less_equal
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import EvictionContext, ReclaimContext, Vote
from scheduler.framework.figures import Figures
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.support.deserved import DeservedShares, take
from scheduler.plugins.support.queue_accounting import (
    QUOTA_INSUFFICIENT,
    flat_limits,
    not_admitted,
    not_open,
    of_queue,
    overused,
    queue_amounts,
    reservation,
)


@dataclass(slots=True)
class ProportionBook:
    """The books of one queue."""

    queue: Queue
    guarantee: Vector
    limit: Vector
    """The capability of the queue, at most what the guarantees of other queues leave."""
    request: Vector
    allocated: Vector
    inqueue: Vector
    elastic: Vector
    deserved: Vector

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def share(self) -> float:
        return largest_share(self.allocated, self.deserved)

    @property
    def overused(self) -> bool:
        """Whether the queue has all that it deserves."""
        return less_equal(self.deserved, self.allocated)


@register_plugin
class Proportion:
    """Takes no arguments."""

    name: ClassVar[str] = "proportion"

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._books = self._open_books(session)
        divide(session.total, list(self._books.values()))
        self._on_trial: tuple[str, Vector] = ("", session.dimensions.zeros())
        """The key of the last job on trial, and what its queue deserves with it."""
        session.add_queue_order(self._queue_key)
        session.add_overused(self._overused)
        session.add_allocatable(self._allocatable, by_demand=True)
        session.add_preemptive(self._preemptive, by_demand=True)
        session.add_reclaimable(
            lambda reclaimer, candidates: self._beyond_share(candidates),
            bound=lambda reclaimer, candidates: self._shares.giving(candidates),
            by_demand=True,
        )
        session.add_unified_evictable(self._evictable)
        session.add_keeps_deserved(self._losses, bound=self._possible_losses, most=self._most_losses)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)
        session.add_deserved(lambda: {name: book.deserved for name, book in self._books.items()})
        session.add_figures(lambda: Figures(queues=self._books))
        session.add_handlers(partial(self._count, 1), partial(self._count, -1))

    @cached_property
    def _shares(self) -> DeservedShares:
        """Made when an action asks what queues can lose for another one."""
        paths = {name: (book,) for name, book in self._books.items()}
        return DeservedShares(self._session.dimensions.width, paths, self._over)

    def _possible_losses(self, context: ReclaimContext, candidates: EvictionCandidates) -> Mask:
        return self._shares.possible(context, candidates)

    def _most_losses(self, context: ReclaimContext, candidates: EvictionCandidates) -> Column:
        return self._shares.most(context, candidates)

    @staticmethod
    def _open_books(session: PluginSession) -> dict[str, ProportionBook]:
        present = session.queues_with_jobs()
        limits = flat_limits(session)
        books = {}
        for name, held in queue_amounts(session).items():
            if name not in present:
                continue
            queue = session.queues[name]
            books[name] = ProportionBook(
                queue=queue,
                guarantee=queue.guarantee,
                limit=limits[name],
                request=held.allocated + held.pending,
                allocated=held.allocated,
                inqueue=held.reserved,
                elastic=held.elastic,
                deserved=session.dimensions.zeros(),
            )
        return books

    # --- queues, victims and admission ---
    def _queue_key(self, queue: Queue) -> tuple[int, float]:
        book = self._books.get(queue.name)
        return (-queue.priority, book.share if book else 0.0)

    def _overused(self, queue: Queue) -> Refusal | None:
        book = self._books.get(queue.name)
        if book is None or not book.overused:
            return None
        return overused(
            self._session.dimensions,
            f"queue {queue.name} has all that it deserves",
            [int(d) for d in np.flatnonzero(book.deserved >= SMALLEST) if d != PODS_INDEX],
            of_queue(queue.name),
            used=book.allocated,
            deserved=book.deserved,
        )

    def _allocatable(self, queue: Queue, job: Job, cls: TaskClass) -> int:
        book = self._books.get(queue.name)
        if not queue.open:
            self._session.refuse(job, not_open(queue))
            return 0
        if book is None:
            return 0
        request = cls.request
        deserved = self._deserved_on_trial(job, book) if job.on_trial else book.deserved
        room = UNBOUNDED
        for d in np.flatnonzero(request):
            if d != PODS_INDEX:
                room = min(room, int((deserved[d] - book.allocated[d]) // request[d]))
        if room <= 0:
            refusal = overused(
                self._session.dimensions,
                f"queue {queue.name} has its share in use",
                exceeded(book.allocated + request, deserved, request),
                of_queue(queue.name),
                asked=request,
                used=book.allocated,
                deserved=deserved,
            )
            self._session.refuse(job, refusal)
        return max(room, 0)

    def _deserved_on_trial(self, job: Job, book: ProportionBook) -> Vector:
        """What a queue deserves if the Pods of a job on trial exist: a queue deserves at most what it requests."""
        key, deserved = self._on_trial
        if key != job.key:
            real = self._session.jobs.get(job.key.partition(TRIAL_MARK)[0])
            more = job.allocated + job.pending - (0 if real is None else real.pending)
            nothing = np.zeros_like(book.deserved)
            books = [
                replace(each, deserved=nothing, request=each.request + more if each is book else each.request)
                for each in self._books.values()
            ]
            divide(self._session.total, books)
            deserved = next(each.deserved for each in books if each.name == book.name)
            self._on_trial = job.key, deserved
        return deserved

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        book = self._books.get(queue.name)
        if book is None or not queue.open:
            return False
        request = self._session.dimensions.zeros()
        for task in tasks:
            request += task.cls.request
        return not exceeded(book.allocated + request, book.deserved, request)

    def _evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        return self._beyond_share(candidates) if context.across_queues else list(candidates)

    def _beyond_share(self, candidates: Sequence[Task]) -> list[Task]:
        """The candidates whose queue still has more than it deserves when all earlier victims are evicted."""
        left: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            job = self._session.jobs.get(task.job)
            book = self._books.get(job.queue) if job else None
            if job is None or book is None:
                continue
            allocated = left.get(job.queue, book.allocated)
            if not within(allocated, book.deserved):
                left[job.queue] = allocated - task.cls.request
                victims.append(task)
        return victims

    def _losses(self, context: ReclaimContext, candidates: Sequence[Task]) -> list[Task]:
        """The candidates whose eviction, in this order, leaves their queues what the context says, and for a job their
        guarantees, too."""
        left: dict[str, Vector] = {}
        found = []
        for task in candidates:
            job = self._session.jobs.get(task.job)
            book = self._books.get(job.queue) if job else None
            if book is None:
                if context.job is None:
                    found.append(task)  # its queue does not exist, so it deserves nothing
                continue
            amount = task.cls.request
            allocated = left.get(book.name, book.allocated)
            if context.job is not None and (
                within(allocated, book.deserved) or exceeded(book.guarantee, allocated - amount, amount)
            ):
                continue
            if self._shares.keeps(context, (book,), amount, self._session.nodes.index.get(task.node, 0), left):
                take(left, (book,), amount)
                found.append(task)
        return found

    def _over(self, queue: str) -> bool:
        book = self._books.get(queue)
        return book is not None and not within(book.allocated, book.deserved)

    def _enqueueable(self, job: Job) -> Vote:
        book = self._books[job.queue]
        if not book.queue.open:
            self._session.refuse(job, not_open(book.queue))
            return Vote.REJECT
        if job.min_resources is None:
            return Vote.PERMIT
        total = job.min_resources + book.allocated + book.inqueue - book.elastic
        over = exceeded(total, book.limit, job.min_resources)
        if not over:
            return Vote.PERMIT
        refusal = not_admitted(
            self._session.dimensions,
            QUOTA_INSUFFICIENT,
            "insufficient",
            over,
            where=f"queue {job.queue}",
            of=of_queue(job.queue),
            asked=job.min_resources,
            used_or_reserved=total - job.min_resources,
            limit=book.limit,
        )
        self._session.refuse(job, refusal)
        return Vote.REJECT

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            book = self._books[job.queue]
            book.inqueue = book.inqueue + reservation(self._session, job, job.min_resources)

    # --- handlers ---
    def _count(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        book = self._books.get(job.queue)
        if book is None:  # the queue does not exist; tasks placed while it did may still be evicted
            return
        book.allocated = book.allocated + tasks[0].cls.request * (sign * len(tasks))
        if "_shares" in self.__dict__:
            self._shares.changed(job.queue)


def within(allocated: Vector, deserved: Vector) -> bool:
    """Whether a queue has at most what it deserves of all resources except ``pods``. PREEMPTIVE ignores ``pods``, too;
    if only this function counted them, queues would reclaim Pods from each other forever."""
    over = allocated >= deserved + SMALLEST
    over[PODS_INDEX] = False
    return not over.any()


def divide(total: Vector, books: Sequence[ProportionBook]) -> None:
    """Sets ``deserved`` of all queues. Each round divides the remainder by weight, and limits each queue to its limit
    and its request, but not below its guarantee. It ends when all queues are satisfied or nothing remains. Within a
    round all queues use the remainder from before the round."""
    remaining = total
    unsatisfied = list(books)
    while unsatisfied:
        weight = sum(book.queue.weight for book in unsatisfied)
        if weight <= 0:
            return
        change = np.zeros_like(total)
        next_unsatisfied = []
        for book in unsatisfied:
            old = book.deserved
            new = np.minimum(np.minimum(old + remaining * (book.queue.weight / weight), book.limit), book.request)
            book.deserved = np.maximum(new, book.guarantee)
            change += book.deserved - old
            if not (less_equal(book.request, book.deserved) or np.array_equal(book.deserved, old)):
                next_unsatisfied.append(book)
        left = np.maximum(remaining - change, 0)
        if is_empty(left) or np.array_equal(left, remaining):
            return
        remaining, unsatisfied = left, next_unsatisfied
