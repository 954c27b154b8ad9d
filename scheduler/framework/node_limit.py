"""Limits what the tasks of a queue or job hold on each node, or on the nodes of each rack, and keeps the books for it.

The books follow every placement, eviction and rollback of the session. A terminating task keeps what it holds: no task
is bound in its place before it has exited, but one can be pipelined.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.queue import Queue
from scheduler.api.reasons import Shortage
from scheduler.api.task import FINISHED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.framework.columns import Counts, Filter, Scope
from scheduler.framework.plugin_session import PluginSession

_UNIT: Final = 1000
"""Shortages of anything but memory and Pods are in thousandths."""


def limit_per_node(
    session: PluginSession,
    *,
    per_queue: Callable[[Queue], int | None] | None = None,
    per_job: Callable[[Job], int | None] | None = None,
    amount: Callable[[TaskClass], int] = lambda cls: 1,
    what: str = "Pods",
    label: str = "",
) -> None:
    """Registers a filter: on each node, the tasks of a queue (or of a job) hold at most the limit. Call it in ``open``.

    ``label``: nodes with the same value of this label, such as the nodes of a rack, share one limit. A node without the
    label has it alone.

    ``per_queue(queue)`` or ``per_job(job)``, one of them, returns the limit; None: no limit. ``amount``: what one task
    of a class holds; tasks that hold 0 are neither counted nor refused. ``what``: the name of the amount in messages,
    and the resource of the filter's Shortages, in thousandths.

    Raises TypeError if not exactly one of ``per_queue`` and ``per_job`` is given.
    """
    if (per_queue is None) == (per_job is None):
        raise TypeError("limit_per_node takes either per_queue or per_job")
    key_of: Callable[[Job], str] = (lambda job: job.queue) if per_queue is not None else (lambda job: job.key)
    groups, values = _groups(session, label)
    books = _Books(session, amount, key_of, groups)
    session.add_handlers(books.allocated, books.deallocated)

    def filters(cls: TaskClass, key: str, owner: str, limit: int | None) -> list[Filter]:
        asked = amount(cls)
        if limit is None or asked <= 0:
            return []
        held, rule = books.held[key], _Limit(asked, limit, what, owner)
        if label:
            return [_GroupLimit(held, groups, rule, label, values)]
        return [_NodeLimit(held, groups, rule)]

    if per_queue is not None:
        limit_of_queue = per_queue
        session.add_filter(
            lambda cls, queue: filters(cls, queue.name, f"queue {queue.name}", limit_of_queue(queue)), per_queue=True
        )
    elif per_job is not None:
        limit_of_job = per_job
        session.add_filter(lambda cls, job: filters(cls, job.key, f"job {job.key}", limit_of_job(job)), per_job=True)


def _groups(session: PluginSession, label: str) -> tuple[Counts, Sequence[str]]:
    """Returns the group of each node, shape (nodes,), and the values of the label by group. Nodes with the same value
    are a group; behind these groups, each other node is one."""
    alone = np.arange(len(session.nodes), dtype=np.int64)
    if not label:
        return alone, ()
    codes, values = session.nodes.facts.label_column(label)
    return np.where(codes >= 0, codes, len(values) + alone), values


class _Held:
    """The amounts that the tasks of one queue or job hold; columns of shape (groups,)."""

    def __init__(self, groups: int) -> None:
        self.staying: Counts = np.zeros(groups, dtype=np.int64)
        self.releasing: Counts = np.zeros(groups, dtype=np.int64)
        self.pipelined: Counts = np.zeros(groups, dtype=np.int64)


class _Books:
    """The amounts held in each group of nodes, by queue or job."""

    def __init__(
        self, session: PluginSession, amount: Callable[[TaskClass], int], key: Callable[[Job], Hashable], groups: Counts
    ) -> None:
        """``groups``: the group of each node, shape (nodes,)."""
        size, index = int(groups.max(initial=-1)) + 1, session.nodes.index
        self.groups = groups
        self.held: defaultdict[Hashable, _Held] = defaultdict(lambda: _Held(size))
        self._amount, self._key = amount, key
        self._evicted: set[str] = set()
        """uids of the tasks that are evicted in this session."""
        for job in session.jobs.values():
            for status, tasks in job.by_status.items():
                if status is TaskStatus.PENDING or status in FINISHED_STATUSES:
                    continue
                for task in tasks.values():
                    row = job.placed.get(task.uid, index.get(task.node))
                    if row is not None and (number := amount(task.cls)) > 0:
                        held = self.held[key(job)]
                        (held.releasing if status is TaskStatus.RELEASING else held.staying)[groups[row]] += number

    def allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        number = self._amount(tasks[0].cls)
        if number <= 0:
            return
        held = self.held[self._key(job)]
        for task, row in zip(tasks, rows, strict=True):
            group = self.groups[row]
            if task.uid in self._evicted:  # its eviction is undone
                self._evicted.remove(task.uid)
                held.releasing[group] -= number
                held.staying[group] += number
            else:
                (held.pipelined if pipelined else held.staying)[group] += number

    def deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        number = self._amount(tasks[0].cls)
        if number <= 0:
            return
        held = self.held[self._key(job)]
        releasing, pipelined = job.of(TaskStatus.RELEASING), job.of(TaskStatus.PIPELINED)
        for task, row in zip(tasks, rows, strict=True):
            group = self.groups[row]
            if task.uid in releasing:  # it is evicted
                self._evicted.add(task.uid)
                held.staying[group] -= number
                held.releasing[group] += number
            else:  # its placement is undone
                (held.pipelined if task.uid in pipelined else held.staying)[group] -= number


class _Limit(msgspec.Struct, frozen=True):
    """What the tasks of one class in a queue or job may hold."""

    asked: int
    """What one task holds."""
    most: int
    """What the tasks of the queue or job hold at most."""
    what: str
    """The name of the amount."""
    owner: str
    """The queue or job, in words."""


class _NodeLimit:
    """The limit of each node."""

    scope = Scope.NODE
    unresolvable = False
    _kind = "Node"

    def __init__(self, held: _Held, groups: Counts, limit: _Limit) -> None:
        """``groups``: the group of each node, shape (nodes,)."""
        self._held, self._groups, self._limit = held, groups, limit

    def _used(self, rows: Rows) -> Counts:
        """Returns the amounts held now; pipelined tasks take the places of terminating ones."""
        held, groups = self._held, self._groups[rows]
        used: Counts = held.staying[groups] + np.maximum(held.releasing[groups], held.pipelined[groups])
        return used

    def room(self, rows: Rows) -> Counts:
        room: Counts = np.maximum(self._limit.most - self._used(rows), 0) // self._limit.asked
        return room

    def future_room(self, rows: Rows) -> Counts:
        groups = self._groups[rows]
        future = self._held.staying[groups] + self._held.pipelined[groups]
        room: Counts = np.maximum(self._limit.most - future, 0) // self._limit.asked
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        text = f"of at most {self._limit.most} {self._limit.what} of {self._limit.owner}"
        used, groups = self._used(rows), self._groups[rows]
        found = ((number, groups[used == number]) for number in np.unique(used).tolist())
        return [(f"node(s) {self._holding(of_number)} {number} {text}", len(of_number)) for number, of_number in found]

    def _holding(self, groups: Counts) -> str:
        """Returns the words for nodes of these groups, which hold an equal number."""
        return "hold"

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        used, limit = int(self._used(rows).min()), self._limit
        return (Shortage(limit.what, limit.asked * _UNIT, used * _UNIT, limit.most * _UNIT, self._kind),)


class _GroupLimit(_NodeLimit):
    """The limit of a group of nodes: a task on one of them takes room on the others. It is ``Grouped``."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(self, held: _Held, groups: Counts, limit: _Limit, label: str, values: Sequence[str]) -> None:
        """``values``: the value of the label in each group."""
        super().__init__(held, groups, limit)
        self._kind = label.rpartition("/")[2]
        self._values = values

    def _holding(self, groups: Counts) -> str:
        group = int(groups[0])
        value = self._values[group] if group < len(self._values) and (groups == group).all() else ""
        if value:
            return f"of {self._kind} {value}, which holds"
        return f"of a {self._kind} that holds"  # several: a message that names each would be long

    def traits(self, rows: Rows) -> Sequence[Column]:
        return [self._groups[rows].astype(np.float64)]

    def place(self, row: int, number: int) -> None:
        self._held.staying[self._groups[row]] += number * self._limit.asked
