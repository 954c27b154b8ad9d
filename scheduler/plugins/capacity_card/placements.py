"""The books of queues, kept up with what a session places and evicts.

An evicted task holds its place until it is gone: it goes from what is allocated to what is releasing. Planning counts
on its place, a binding does not: whichever action makes it, none goes beyond the quota.
"""

from collections.abc import Mapping, Sequence

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.statement import AllocationError
from scheduler.plugins.capacity_card.books import QueueBook
from scheduler.plugins.capacity_card.demand import Demands, Listed
from scheduler.plugins.capacity_card.holdings import Amounts, add, charged_queue
from scheduler.plugins.capacity_card.refusals import insufficient, shortage_of


class Placements:
    """Handlers of a session."""

    def __init__(self, books: Mapping[str, QueueBook], demands: Demands) -> None:
        """``books``: by queue. Jobs and records may name queues that do not exist; these have none."""
        self._books = books
        self._demands = demands
        self._evicted: dict[str, Listed] = {}
        """uid -> what the task holds, of tasks evicted in this session."""

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tasks take their rows, or are evicted no more. Raises AllocationError where a binding goes beyond the
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
        """Tasks are evicted, or their placement is undone."""
        if tasks[0].uid in job.of(TaskStatus.RELEASING):
            for task, row in zip(tasks, rows, strict=True):
                amounts = self._evicted[task.uid] = self._demands.holdings((task,), (row,))
                self._release(job, task, amounts, 1.0)
            return
        book = self._books.get(job.queue)
        if book is None:
            return
        amounts = self._placed(tasks[0].cls, rows)
        add(book.allocated, amounts, -1.0)
        if tasks[0].uid in job.of(TaskStatus.PIPELINED):
            add(book.pipelined, amounts, -1.0)

    def _placed(self, cls: TaskClass, rows: Sequence[int]) -> Listed:
        """What pending tasks of a class take: each the card of the node it is on."""
        demand, number = self._demands.of(cls), len(rows)
        cards = self._demands.charge(demand, rows) if demand.parts else ()
        return [(CPU, demand.cpu * number), (MEMORY, demand.memory * number), *cards]

    def _release(self, job: Job, task: Task, amounts: Listed, sign: float) -> None:
        """A task begins to terminate (1), or does not after all (-1)."""
        book = self._books.get(charged_queue(task, job.queue))
        if book is not None:
            add(book.allocated, amounts, -sign)
            add(book.releasing, amounts, sign)


def _check(book: QueueBook, amounts: Listed) -> None:
    sums: Amounts = {}
    add(sums, amounts)
    for name, amount in sums.items():
        if amount > 0 and amount > book.limit(name) - book.used(name):
            raise AllocationError(insufficient(book, shortage_of(book, name, name, amount)))
