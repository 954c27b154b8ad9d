"""Room of queues that is kept for tasks that were let past the gate of queue admission.

Such a task has no gate any more, waits, and bears the annotation; that is all there is to know it by, so a restart
forgets nothing. It may wait long, for nodes that are still to be made: nobody else is given its room meanwhile, in its
own queue or in those above it.
"""

from collections.abc import Sequence

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.capacity.books import QueueBook


class Reservations:
    """Of one session."""

    def __init__(self, session: Session, books: dict[str, QueueBook]) -> None:
        self._session = session
        self._books = books
        self._held: set[str] = set()
        """uids of the tasks that have one."""

    def register(self) -> None:
        """Count what earlier sessions let past, then follow this one."""
        for job in self._session.jobs.values():
            waiting: dict[TaskClass, list[Task]] = {}
            for task in job.of(TaskStatus.PENDING).values():
                if task.cls.asks_admission and not task.gated:
                    waiting.setdefault(task.cls, []).append(task)
            for tasks in waiting.values():
                self._reserve(job, tasks)
        self._session.add_ungated(self._reserve)
        self._session.add_handlers(self._allocated, self._deallocated)

    def _reserve(self, job: Job, tasks: Sequence[Task]) -> None:
        self._count(job, [task for task in tasks if task.uid not in self._held], 1)
        self._held.update(task.uid for task in tasks)

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        placed = [task for task in tasks if task.uid in self._held]
        self._count(job, placed, -1)
        self._held.difference_update(task.uid for task in placed)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """A placement that is undone leaves the task waiting as before; one that is evicted is not to come back."""
        self._reserve(job, [t for t in tasks if t.cls.asks_admission and t.status is TaskStatus.PENDING])

    def _count(self, job: Job, tasks: Sequence[Task], sign: int) -> None:
        book = self._books.get(job.queue)
        if book is None or not tasks:
            return
        amount = tasks[0].cls.request * (len(tasks) * sign)
        for above in book.path:
            above.reserved = above.reserved + amount
