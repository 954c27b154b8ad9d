"""Statements: transactions of placements, which change the session at once and are committed or discarded as a whole.

Amounts are whole numbers, so undoing an operation restores every number exactly. Plugins that keep books (quota, chips)
are notified of every operation and every rollback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.api.decisions import Decisions, EventRecord, Evict
from scheduler.api.job import Job
from scheduler.api.node import Nodes
from scheduler.api.task import Task, TaskStatus

Placement = tuple[Job, Sequence[Task], Sequence[int]]
"""A job, some of its tasks, and the rows of their nodes."""


class StatementContext(Protocol):
    """The part of a session that a statement uses."""

    nodes: Nodes
    decisions: Decisions

    def touch(self, job: Job) -> None: ...

    def row_of(self, job: Job, task: Task) -> int: ...

    def status_of(self, job: Job, task: Task) -> TaskStatus: ...

    def notify_allocate(
        self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool, *, may_refuse: bool = True
    ) -> None: ...

    def notify_deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None: ...

    def bind(self, placements: Iterable[Placement]) -> None: ...


class AllocationError(Exception):
    """A plugin refuses a placement because its books do not allow it. The operation is undone."""


@dataclass(slots=True)
class _Placement:
    """A run of tasks of one job and one class, allocated (or pipelined) to rows, in order."""

    job: Job
    tasks: Sequence[Task]
    rows: Sequence[int]
    status: TaskStatus
    nominate: bool = False


@dataclass(slots=True)
class _Eviction:
    job: Job
    task: Task
    row: int
    was: TaskStatus
    reason: str
    event: EventRecord | None
    grace_period: int | None


class Statement:
    """Operations on one session, to be committed or discarded as a whole."""

    def __init__(self, session: StatementContext) -> None:
        self._session = session
        self._operations: list[_Placement | _Eviction] = []

    def __bool__(self) -> bool:
        return bool(self._operations)

    @property
    def evicts(self) -> bool:
        """Whether the statement evicts tasks."""
        return any(isinstance(operation, _Eviction) for operation in self._operations)

    # --- operations ---
    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Allocates nodes to pending tasks of one class: ``tasks[i]`` is placed on ``rows[i]``.

        Raises AllocationError, without any change, if a plugin refuses.
        """
        self._place(_Placement(job, tasks, rows, TaskStatus.ALLOCATED))

    def pipeline(self, job: Job, task: Task, row: int, *, nominate: bool = False) -> None:
        """Assigns a pending task to resources that terminating tasks will release. Raises AllocationError as
        ``allocate`` does.

        ``nominate``: tasks are evicted for it. The node is written to its Pod and is tried first from then on.
        """
        self._place(_Placement(job, (task,), (row,), TaskStatus.PIPELINED, nominate))

    def evict(
        self,
        job: Job,
        task: Task,
        reason: str,
        event: EventRecord | None = None,
        *,
        grace_period: int | None = None,
    ) -> None:
        """Evicts a task that holds a node. ``event`` is recorded if the statement is committed. ``grace_period``: as in
        ``decisions.Evict``."""
        session = self._session
        if not task.node and task.uid not in job.placed:
            raise ValueError(f"Pod {task.key} holds no node, so it cannot be evicted")
        session.touch(job)
        row = session.row_of(job, task)
        was = session.status_of(job, task)
        job.move(task, was, TaskStatus.RELEASING)
        session.nodes.evict(row, task.cls)
        session.notify_deallocate(job, (task,), (row,))
        self._operations.append(_Eviction(job, task, row, was, reason, event, grace_period))

    def withdraw(self, job: Job, task: Task) -> None:
        """Makes a task that an earlier statement pipelined pending again. Discarding does not undo this."""
        operation = _Placement(job, (task,), (job.placed[task.uid],), TaskStatus.PIPELINED)
        self._session.notify_deallocate(job, operation.tasks, operation.rows)
        self._take(operation, -1)

    def restore(self, task: Task) -> None:
        """Undoes the eviction of a task in this statement. Amounts and books can be changed in any order, so this may
        happen before later operations are undone. Raises StopIteration if the task was not evicted here."""
        position, operation = next(
            (i, o) for i, o in enumerate(self._operations) if isinstance(o, _Eviction) and o.task is task
        )
        del self._operations[position]
        self._undo_eviction(operation)

    def _undo_eviction(self, operation: _Eviction) -> None:
        session = self._session
        operation.job.move(operation.task, TaskStatus.RELEASING, operation.was)
        session.nodes.evict(operation.row, operation.task.cls, -1)
        session.notify_allocate(operation.job, (operation.task,), (operation.row,), False, may_refuse=False)

    def _place(self, operation: _Placement) -> None:
        session, job = self._session, operation.job
        self._take(operation, 1)
        try:
            session.notify_allocate(job, operation.tasks, operation.rows, operation.status is TaskStatus.PIPELINED)
        except AllocationError:
            self._take(operation, -1)
            raise
        self._operations.append(operation)

    def _take(self, operation: _Placement, sign: int) -> None:
        """Applies (1) or undoes (-1) a placement in the amounts of the job and the nodes."""
        job, nodes, status = operation.job, self._session.nodes, operation.status
        tasks, rows = operation.tasks, operation.rows
        cls = tasks[0].cls
        old, new = (TaskStatus.PENDING, status) if sign > 0 else (status, TaskStatus.PENDING)
        source = job.by_status[old]
        target = job.by_status.setdefault(new, {})
        placed = job.placed
        for task, row in zip(tasks, rows, strict=True):
            uid = task.uid
            del source[uid]
            target[uid] = task
            if sign > 0:
                placed[uid] = row
                if operation.nominate:
                    job.nominated[uid] = None
            else:
                del placed[uid]
                job.nominated.pop(uid, None)
        if not source:
            del job.by_status[old]
        job.account(tasks, old, new)
        runs: dict[int, int] = {}
        for row in rows:
            runs[row] = runs.get(row, 0) + 1
        take = nodes.pipeline if status is TaskStatus.PIPELINED else nodes.hold
        for row, number in runs.items():
            take(row, cls, sign * number)

    # --- completion ---
    def discard(self) -> None:
        """Undoes all operations in reverse order. The node that each task had is kept for its message."""
        session = self._session
        for operation in reversed(self._operations):
            if isinstance(operation, _Eviction):
                self._undo_eviction(operation)
                continue
            names = session.nodes.names
            for task, row in zip(operation.tasks, operation.rows, strict=True):
                operation.job.transaction[task.uid] = (operation.status, names[row])
            session.notify_deallocate(operation.job, operation.tasks, operation.rows)
            self._take(operation, -1)
        self._operations.clear()

    def commit(self) -> None:
        """Adds bindings and evictions to the decisions of the session. Pipelined placements exist only in the
        session."""
        session = self._session
        allocated = []
        session.decisions.eviction_transactions.update({o.reason for o in self._operations if isinstance(o, _Eviction)})
        for operation in self._operations:
            if isinstance(operation, _Eviction):
                session.decisions.evictions.append(Evict(operation.task, operation.reason, operation.grace_period))
                if operation.event is not None:
                    session.decisions.events.append(operation.event)
            elif operation.status is TaskStatus.ALLOCATED:
                allocated.append((operation.job, operation.tasks, operation.rows))
        session.bind(allocated)
        self._operations.clear()

    def merge(self, other: "Statement") -> None:
        """Moves the operations of another statement in the same session into this one."""
        self._operations.extend(other._operations)
        other._operations.clear()
