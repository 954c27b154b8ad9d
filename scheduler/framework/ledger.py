"""Who took what of the nodes in a session, where amounts do not say it: chips, cards, devices.

What a task takes is chosen where its placement is made, and given back exactly when it is undone. Evicting a task frees
nothing now: what it holds is free when it is gone. Each plugin that keeps such books says what these steps mean in its
own, and registers ``allocate`` and ``deallocate`` as handlers of the session.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.statement import AllocationError

Held = TypeVar("Held")


class Ledger(ABC, Generic[Held]):
    """``Held``: what a task is known by that was evicted and may come back."""

    def __init__(self) -> None:
        self._evicted: dict[str, Held] = {}
        """uid -> what the task holds, of tasks that were evicted in this session."""

    # --- what a plugin says ---
    @abstractmethod
    def concerns(self, cls: TaskClass) -> bool:
        """Whether tasks of a class take anything."""

    @abstractmethod
    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        """Choose for a task. Raises AllocationError, nothing taken, where there is nothing for it."""

    @abstractmethod
    def _give_back(self, task: Task, row: int) -> None:
        """Undo a ``_take``."""

    @abstractmethod
    def _evict(self, task: Task, row: int) -> Held:
        """A task that has a node, from before this session or in it, terminates."""

    @abstractmethod
    def _spare(self, row: int, held: Held) -> None:
        """Undo an ``_evict``."""

    # --- handlers of the session ---
    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tasks take their rows, or are evicted no more. Raises AllocationError, nothing taken, where there is nothing
        for one of them."""
        if tasks[0].uid in self._evicted:
            for task, row in zip(tasks, rows, strict=True):
                self._spare(row, self._evicted.pop(task.uid))
        elif self.concerns(tasks[0].cls):
            for position, (task, row) in enumerate(zip(tasks, rows, strict=True)):
                try:
                    self._take(job, task, row, pipelined=pipelined)
                except AllocationError:
                    for undone in reversed(range(position)):
                        self._give_back(tasks[undone], rows[undone])
                    raise

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks are evicted, or their placement is undone."""
        if tasks[0].uid in job.of(TaskStatus.RELEASING):
            for task, row in zip(tasks, rows, strict=True):
                self._evicted[task.uid] = self._evict(task, row)
        elif self.concerns(tasks[0].cls):
            for task, row in zip(tasks, rows, strict=True):
                self._give_back(task, row)
