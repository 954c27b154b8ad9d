"""The devices (chips, cards, devices of claims) that tasks hold in a session.

A ledger allocates the devices of a task when a statement places it, and releases exactly these when the placement is
undone. An eviction frees no devices in this session: a terminating task holds them until it ends. A plugin implements
the steps for its devices, and registers ``allocate`` and ``deallocate`` as handlers of the session.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.statement import AllocationError

Held = TypeVar("Held")


class Ledger(ABC, Generic[Held]):
    """``Held``: the data about an evicted task with which the ledger can undo the eviction."""

    def __init__(self) -> None:
        self._evicted: dict[str, Held] = {}
        """uid -> what an evicted task holds, for the tasks evicted in this session."""

    # --- steps of a plugin ---
    @abstractmethod
    def concerns(self, cls: TaskClass) -> bool:
        """Returns whether tasks of a class use devices of this ledger."""

    @abstractmethod
    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        """Allocates devices to a task. Raises AllocationError, without an allocation, if there are not enough."""

    @abstractmethod
    def _release(self, task: Task, row: int) -> None:
        """Undoes a ``_take``."""

    @abstractmethod
    def _evict(self, task: Task, row: int) -> Held:
        """Evicts a task that has a node, from this session or an earlier one."""

    @abstractmethod
    def _restore(self, row: int, held: Held) -> None:
        """Undoes an ``_evict``."""

    # --- handlers of the session ---
    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Allocates the devices of tasks that are placed, or undoes evictions. Raises AllocationError, without an
        allocation, if there are not enough devices for one of the tasks."""
        if tasks[0].uid in self._evicted:
            for task, row in zip(tasks, rows, strict=True):
                self._restore(row, self._evicted.pop(task.uid))
        elif self.concerns(tasks[0].cls):
            for position, (task, row) in enumerate(zip(tasks, rows, strict=True)):
                try:
                    self._take(job, task, row, pipelined=pipelined)
                except AllocationError:
                    for undone in reversed(range(position)):
                        self._release(tasks[undone], rows[undone])
                    raise

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Evicts tasks, or undoes their placement."""
        if tasks[0].uid in job.of(TaskStatus.RELEASING):
            for task, row in zip(tasks, rows, strict=True):
                self._evicted[task.uid] = self._evict(task, row)
        elif self.concerns(tasks[0].cls):
            for task, row in zip(tasks, rows, strict=True):
                self._release(task, row)
