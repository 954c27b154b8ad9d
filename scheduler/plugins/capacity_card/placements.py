"""Updates the books of queues when a session places or evicts tasks.

An evicted task holds its resources until it is deleted; its amounts move from ``allocated`` to ``releasing``. Pipelined
tasks may use them, bindings may not, so that no action binds a task beyond the quota.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.statement import AllocationError
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.demand import AmountList, Demands
from scheduler.plugins.capacity_card.holdings import Amounts, add, charged_queue
from scheduler.plugins.capacity_card.refusals import insufficient, shortage_of


class CardPlacements:
    """The allocation handlers of a session."""

    def __init__(self, books: Mapping[str, CardBook], demands: Demands) -> None:
        """``books``: by queue. Jobs and records may name queues that do not exist and have no book."""
        self._books = books
        self._demands = demands
        self._evicted: dict[str, AmountList] = {}
        """uid -> what a task holds that this session evicted."""

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Adds tasks that are placed, or whose eviction is undone. Raises AllocationError if a binding exceeds the
        quota."""
        if tasks[0].uid in self._evicted:
            for task in tasks:
                self._release(job, task, self._evicted.pop(task.uid), -1.0)
            return
        book = self._books.get(job.queue)
        if book is None:
            return
        amounts = self._placed(tasks[0].cls, rows)
        if pipelined:
            add(book.pipelined, amounts)
        else:
            _check(book, amounts)
        add(book.allocated, amounts)

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Removes tasks that are evicted, or whose placement is undone."""
        if tasks[0].uid in job.of(TaskStatus.RELEASING):
            for task, row in zip(tasks, rows, strict=True):
                # A card that is not known stays charged until the task is deleted.
                amounts = self._evicted[task.uid] = self._demands.holdings((task,), partial(tuple, (row,))).amounts
                self._release(job, task, amounts, 1.0)
            return
        book = self._books.get(job.queue)
        if book is None:
            return
        amounts = self._placed(tasks[0].cls, rows)
        add(book.allocated, amounts, -1.0)
        if tasks[0].uid in job.of(TaskStatus.PIPELINED):
            add(book.pipelined, amounts, -1.0)

    def _placed(self, cls: TaskClass, rows: Sequence[int]) -> AmountList:
        """Returns what pending tasks of a class use on the nodes at ``rows``."""
        demand, number = self._demands.of(cls), len(rows)
        cards = self._demands.charge(demand, rows).amounts if demand.card_requests else ()
        return [(CPU, demand.cpu * number), (MEMORY, demand.memory * number), *cards]

    def _release(self, job: Job, task: Task, amounts: AmountList, sign: float) -> None:
        """Moves the amounts of a task to ``releasing`` (1), or back (-1)."""
        book = self._books.get(charged_queue(task, job.queue))
        if book is not None:
            add(book.allocated, amounts, -sign)
            add(book.releasing, amounts, sign)


def _check(book: CardBook, amounts: AmountList) -> None:
    sums: Amounts = {}
    add(sums, amounts)
    for name, amount in sums.items():
        if amount > 0 and amount > book.room_now(name):
            raise AllocationError(insufficient(book, shortage_of(book, name, name, amount)))
