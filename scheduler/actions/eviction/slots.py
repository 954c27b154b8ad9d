"""Slots: an upper bound of how many tasks of a gang the nodes can hold by amounts, while other tasks are evicted.

Filters and quotas may reduce the number, never increase it. So no placement is tried before there are slots for the
whole gang.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.eviction.feasibility import compared_resources, freed_amounts
from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts
from scheduler.framework.session import Session


class Demand:
    """How many tasks of each class a gang has to place, and on which nodes evictions could make room for them."""

    def __init__(self, session: Session, job: Job, tasks: Sequence[Task]) -> None:
        """``tasks``: at least one."""
        self._session = session
        self._classes = [
            _ClassDemand(cls, number, ~session.view(cls, job).unresolvable())
            for cls, number in Counter(task.cls for task in tasks).items()
        ]
        self._dims = np.unique(np.concatenate([asked.dims for asked in self._classes]))

    @property
    def usable(self) -> Mask:
        """The nodes on which evictions could make room for some of the tasks."""
        usable: Mask = np.logical_or.reduce([asked.usable for asked in self._classes])
        return usable

    def lacking(self, rows: Rows) -> Mask:
        """Returns the resources that some nodes lack for the tasks without evictions, shape (resources,)."""
        nodes = self._session.nodes
        future = nodes.future_idle()
        result: Mask = np.zeros(len(future), dtype=bool)
        usable = self.usable[rows]
        for d in self._dims.tolist():
            amounts = np.maximum(future[d, rows][usable], 0)
            result[d] = amounts.sum() < sum(asked.total(d) for asked in self._classes) or any(
                asked.room_by(d, amounts) < asked.number for asked in self._classes
            )
        return result

    def slots_without(self, evicted: Mask) -> "Slots":
        """Returns the slots that exist if all candidates of a mask are evicted."""
        future = self._session.nodes.future_idle()
        future[self._dims] += freed_amounts(self._session, evicted, self._dims)
        return Slots(self._classes, future)

    def current_slots(self) -> "Slots":
        """Returns the slots that exist without evictions."""
        return Slots(self._classes, self._session.nodes.future_idle())


class _ClassDemand:
    """The tasks of one class."""

    def __init__(self, cls: TaskClass, number: int, usable: Mask) -> None:
        self.number = number
        self.usable = usable
        self.dims = compared_resources(cls.request)
        self._request = cls.request[self.dims]

    def total(self, d: int) -> float:
        """Returns what the tasks request of a resource."""
        return float(self._asked(d) * self.number)

    def room_by(self, d: int, amounts: Vector) -> float:
        """Returns how many of the tasks fit if only one resource is compared, of which nodes have these amounts."""
        asked = self._asked(d)
        return float((amounts // asked).sum()) if asked > 0 else np.inf

    def _asked(self, d: int) -> float:
        return float(self._request[self.dims == d].sum())

    def room(self, future: Column) -> Counts:
        """Returns how many of the tasks fit into each column of ``future``, shape (resources, nodes)."""
        asked = self._request[:, np.newaxis]
        available: NDArray[np.float64] = future[self.dims]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(asked > 0, available // asked, np.where(available >= 0, UNBOUNDED, 0)).min(axis=0)
        room: Counts = np.clip(each, 0, self.number).astype(np.int64)
        return room


class Slots:
    """How many tasks of each class each node can hold."""

    def __init__(self, classes: Sequence[_ClassDemand], future: Column) -> None:
        self._classes = classes
        self._future = future
        self._each = [asked.room(future) * asked.usable for asked in classes]
        self._totals = self._sums(slice(None))

    def _sums(self, rows: Rows | slice) -> list[int]:
        return [int(each[rows].sum()) for each in self._each]

    @property
    def each(self) -> Counts:
        """The number of slots of each node, shape (nodes,)."""
        result: Counts = np.add.reduce(self._each)
        return result

    def confine(self, rows: Rows) -> None:
        """Count only the slots of these nodes from now on."""
        self._totals = self._sums(rows)

    @property
    def number(self) -> int:
        """The number of tasks that have slots."""
        return sum(min(total, asked.number) for total, asked in zip(self._totals, self._classes, strict=True))

    def enough(self) -> bool:
        """Whether all tasks of every class have slots."""
        return all(total >= asked.number for total, asked in zip(self._totals, self._classes, strict=True))

    def enough_on(self, rows: Rows) -> bool:
        """Whether all tasks of every class have slots on the given nodes."""
        return all(total >= asked.number for total, asked in zip(self._sums(rows), self._classes, strict=True))

    def add_freed(self, row: int, amount: Vector) -> None:
        """Add the amounts that an eviction frees on a node that is counted."""
        self._future[:, row] += amount
        for i, asked in enumerate(self._classes):
            if asked.usable[row]:
                now = int(asked.room(self._future[:, row : row + 1])[0])
                self._totals[i] += now - int(self._each[i][row])
                self._each[i][row] = now
