"""Which tasks give back borrowed cards, and for whom (argument ``cardBorrowing``).

A queue deserves its quota. So no queue loses tasks to another one because of cards, cpu or memory of which it holds no
more than its quota, whether or not queues borrow.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Mask
from scheduler.api.queue import Queue
from scheduler.api.resource import SMALLEST
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import EvictionContext, Protection, ReclaimContext
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.demand import UNKNOWN, AmountList, CardsOfTask, Demands
from scheduler.plugins.capacity_card.holdings import Amounts, add, charged_queue


class Reclaiming:
    """Which tasks give back borrowed cards."""

    def __init__(self, session: PluginSession, books: Mapping[str, CardBook], demands: Demands) -> None:
        self._session = session
        self._jobs = session.jobs
        self._books = books
        self._demands = demands

    def may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the cards of the tasks are within the queue's own quota."""
        book = self._books.get(queue.name)
        if book is None or not queue.open:
            return False
        wanted: Amounts = {}
        for task in tasks:
            for request in self._demands.of(task.cls, self._jobs.get(task.job)).card_requests:
                card = self._own_card(book, request, wanted)
                if card is None:
                    return False
                add(wanted, ((card, request.amount),))
        return True

    @staticmethod
    def _own_card(book: CardBook, request: CardsOfTask, taken: Amounts) -> str | None:
        """Returns the first acceptable card of which the queue's quota has enough left."""
        for card in request.cards:
            if book.own_room(card) - taken.get(card, 0.0) >= request.amount:
                return card
        return None

    def victims(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that may be evicted for a task."""
        job = self._jobs[reclaimer.job]
        return self._victims(job, (reclaimer.cls,), candidates)

    def victims_of_gang(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that may be evicted for a gang. Within a queue no card is borrowed. A gang that has
        borrowed may be evicted together with its tasks without cards, or with other cards."""
        if not context.across_queues:
            return list(candidates)
        classes = [task.cls for task in context.job.of(TaskStatus.PENDING).values()]
        claimed = self._claimed(context.job, classes)
        found = self._victims(context.job, classes, candidates)
        if claimed is None or not found:
            return found
        uids, jobs = {task.uid for task in found}, {task.job for task in found}
        return [
            task
            for task in candidates
            if task.uid in uids or (task.job in jobs and not self._held_of(task, claimed) and self._book_of(task))
        ]

    def _requests(self, job: Job, classes: Iterable[TaskClass]) -> list[CardsOfTask]:
        """Returns the card requests of tasks of a job, one of each of these classes."""
        of_job = self._demands.of_job(job)
        return [request for cls in classes for request in self._demands.of_class(cls, of_job).card_requests]

    def _claimed(self, job: Job, classes: Iterable[TaskClass]) -> set[str] | None:
        """Returns the cards that tasks of these classes accept and of which the quota of the job's queue has enough
        left; None: they want no card."""
        book = self._books[job.queue]
        requests = [request for request in self._requests(job, classes) if request.cards]
        if not requests:
            return None
        return {card for request in requests for card in request.cards if book.own_room(card) >= request.amount}

    def _victims(self, job: Job, classes: Sequence[TaskClass], candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that hold a card that the job's queue reclaims for the classes, of queues that have
        borrowed it; all candidates if no card is wanted. ``classes``: the classes of the tasks that reclaim.

        If a queue has borrowed at least the wanted number, all its tasks are victims; other plugins and the action
        choose among them. Otherwise they are victims as long as it has still borrowed some when those before are
        evicted.
        """
        claimed = self._claimed(job, classes)
        if claimed is None:
            return list(candidates)
        wanted = sum(request.amount for request in self._requests(job, classes))
        evicted: dict[str, Amounts] = {}
        found = []
        for task in candidates:
            book, amounts = self._book_of(task), self._held_of(task, claimed)
            if book is None or not amounts:
                continue
            gone = evicted.setdefault(book.queue.name, {})
            left = max(_borrowed(book, card) - gone.get(card, 0.0) for card, _ in amounts)
            if left > 0:
                found.append(task)
            if left < wanted:
                add(gone, amounts)
        return found

    # --- what queues keep ---
    def losses(self, context: ReclaimContext, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates whose eviction, in this order, leaves their queues what the context says of their
        quotas. If gangs are evicted as a whole, a gang that loses cards may lose its tasks without cards, too."""
        wanted = self._wanted(context)
        gone: dict[str, Amounts] = {}
        found: dict[str, Task] = {}
        without: list[Task] = []
        for task in candidates:
            book, amounts = self._book_of(task), self._held_of(task, wanted)
            if book is None:
                continue
            if not amounts:
                without.append(task)
            elif _keeps(book, amounts, gone.setdefault(book.queue.name, {}), context.protection):
                add(gone[book.queue.name], amounts)
                found[task.uid] = task
        jobs = {task.job for task in found.values()}
        if context.job is None:
            found |= {task.uid: task for task in without}
        elif context.gang:
            found |= {task.uid: task for task in without if task.job in jobs}
        return [task for task in candidates if task.uid in found]

    def possible_losses(self, context: ReclaimContext, candidates: EvictionCandidates) -> Mask:
        """Returns the bound of ``losses``: the candidates of queues that hold more than their quota of what is
        wanted."""
        wanted = self._wanted(context)

        def exceeds(queue: str) -> bool:
            book = self._books.get(queue)
            return book is not None and any(_borrowed(book, name) > 0 for name in wanted)

        return candidates.of_queues(exceeds) if context.job is not None else candidates.present

    def most(self, context: ReclaimContext, candidates: EvictionCandidates) -> Column:
        """Returns what each queue of the candidates can lose of the resources whose cards are requested, shape
        (resources, queues). Parts of cards have no bound: a part may take several units of its resource."""
        result: Column = np.full((len(candidates.requests), len(candidates.queues)), np.inf)
        wanted = self._wanted(context)
        cards: dict[int, set[str]] = {}
        for request in () if context.job is None else self._requests(context.job, context.classes):
            d = self._session.dimensions.find(request.resource)
            if d is not None and d < len(result) and request.held.amounts is None:
                cards.setdefault(d, set()).update(card for card in request.cards if card in wanted)
        for d, names in cards.items():
            last = 0.0
            if context.protection is Protection.ABOVE:  # the last task may take the queue below its quota
                last = max(float(candidates.requests[d].max(initial=0.0)) - SMALLEST, 0.0)
            for i, queue in enumerate(candidates.queues):
                book = self._books.get(queue)
                borrowed = [_borrowed(book, name) for name in names] if book is not None else []
                result[d, i] = sum(amount + last for amount in borrowed if amount > 0)
        return result

    def _wanted(self, context: ReclaimContext) -> Collection[str]:
        """Returns the names of cards, or of cpu and memory if no card is requested, that matter for the context."""
        if context.job is None:
            return {name for book in self._books.values() for name in book.allocated if name not in (CPU, MEMORY)}
        claimed = self._claimed(context.job, context.classes)
        return (CPU, MEMORY) if claimed is None else claimed

    def bound(self, reclaimer: Task, candidates: EvictionCandidates) -> Mask:
        """Returns the candidates of queues that have borrowed cards that the queue of the reclaimer has quota of."""
        claimed = self._claimed(self._jobs[reclaimer.job], (reclaimer.cls,))
        if claimed is None:
            return candidates.of_queues(lambda _: True)

        def has_borrowed(queue: str) -> bool:
            book = self._books.get(queue)
            return book is not None and any(_borrowed(book, card) > 0 for card in claimed)

        return candidates.of_queues(has_borrowed)

    def _book_of(self, task: Task) -> CardBook | None:
        """Returns the book of the queue of a task; None if another queue is charged for it."""
        job = self._jobs.get(task.job)
        return self._books.get(job.queue) if job and charged_queue(task, job.queue) == job.queue else None

    def _held_of(self, task: Task, cards: Collection[str]) -> AmountList:
        """Returns what a task holds of these cards, or of cpu and memory."""
        of_job = self._demands.of_job(self._jobs.get(task.job))
        held = self._demands.holdings((task,), lambda: (self._session.nodes.index.get(task.node, UNKNOWN),), of_job)
        return [item for item in held.amounts if item[0] in cards and item[1] > 0]


def _keeps(book: CardBook, amounts: AmountList, gone: Amounts, protection: Protection) -> bool:
    """Whether a queue keeps its quota without these amounts. ``gone``: what it has lost before."""
    excess = [(_borrowed(book, name) - gone.get(name, 0.0), amount) for name, amount in amounts]
    if protection is Protection.ABOVE:
        return any(left > 0 for left, _ in excess)
    return all(amount <= left for left, amount in excess)


def _borrowed(book: CardBook, card: str) -> float:
    return book.allocated.get(card, 0.0) - book.limit(card)
