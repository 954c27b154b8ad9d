"""Room in queues that is reserved for tasks whose queue admission gate was removed.

Such a task is pending, has the annotation and no gate; this is derived from the Pod, so it survives a restart. The
task may wait long for new nodes. Until it is placed, no other task gets its room in its queue or in the ancestors.
"""

from collections.abc import Sequence

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.capacity.books import QueueBook


class Reservations:
    """The reservations of one session."""

    def __init__(self, session: Session, books: dict[str, QueueBook]) -> None:
        self._session = session
        self._books = books
        self._held: set[str] = set()
        """uids of the tasks that have a reservation."""

    def register(self) -> None:
        """Counts tasks that earlier sessions ungated, and registers the handlers of this session."""
        for job in self._session.active_jobs.values():
            waiting: dict[TaskClass, list[Task]] = {}
            for task in job.of(TaskStatus.PENDING).values():
                if task.cls.requests_queue_gate and not task.gated:
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
        """Reserves again for a task whose placement is undone. An evicted task gets no reservation."""
        self._reserve(job, [t for t in tasks if t.cls.requests_queue_gate and t.status is TaskStatus.PENDING])

    def _count(self, job: Job, tasks: Sequence[Task], sign: int) -> None:
        book = self._books.get(job.queue)
        if book is None or not tasks:
            return
        amount = tasks[0].cls.request * (len(tasks) * sign)
        for above in book.path:
            above.reserved = above.reserved + amount
