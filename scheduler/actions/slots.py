"""Slots: for how many tasks of a gang nodes would have the amounts, as tasks of others go one after the other.

Filters and quotas may leave fewer, never more. So a plan is not tried before there are slots for the whole gang.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.openings import compared, freed
from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts
from scheduler.framework.session import Session


class Demand:
    """What a gang asks for: how many tasks of each class, and on which nodes evictions could make room for them."""

    def __init__(self, session: Session, job: Job, tasks: Sequence[Task]) -> None:
        """``tasks``: at least one."""
        self._session = session
        self._classes = [
            _Asked(cls, number, ~session.view(cls, job).unresolvable())
            for cls, number in Counter(task.cls for task in tasks).items()
        ]
        self._dims = np.unique(np.concatenate([asked.dims for asked in self._classes]))

    def without(self, going: Mask) -> "Slots":
        """The slots there would be if all tenants of a mask went."""
        future = self._session.nodes.future_idle()
        future[self._dims] += freed(self._session, going, self._dims)
        return Slots(self._classes, future)

    def now(self) -> "Slots":
        """The slots there are."""
        return Slots(self._classes, self._session.nodes.future_idle())


class _Asked:
    """Tasks of one class."""

    def __init__(self, cls: TaskClass, number: int, usable: Mask) -> None:
        self.number = number
        self.usable = usable
        self.dims = compared(cls.request)
        self._request = cls.request[self.dims]

    def room(self, future: Column) -> Counts:
        """How many of the tasks fit into each column of amounts."""
        asked = self._request[:, np.newaxis]
        available: NDArray[np.float64] = future[self.dims]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(asked > 0, available // asked, np.where(available >= 0, UNBOUNDED, 0)).min(axis=0)
        room: Counts = np.clip(each, 0, self.number).astype(np.int64)
        return room


class Slots:
    """For each class of tasks, how many each node has the amounts for."""

    def __init__(self, classes: Sequence[_Asked], future: Column) -> None:
        self._classes = classes
        self._future = future
        self._each = [asked.room(future) * asked.usable for asked in classes]
        self._totals = self._sums(slice(None))

    def _sums(self, rows: Rows | slice) -> list[int]:
        return [int(each[rows].sum()) for each in self._each]

    def confine(self, rows: Rows) -> None:
        """From now on only these nodes count."""
        self._totals = self._sums(rows)

    @property
    def number(self) -> int:
        """For how many of the tasks there are slots."""
        return sum(min(total, asked.number) for total, asked in zip(self._totals, self._classes, strict=True))

    def enough(self) -> bool:
        """Whether there are slots for all the tasks, class by class."""
        return all(total >= asked.number for total, asked in zip(self._totals, self._classes, strict=True))

    def enough_on(self, rows: Rows) -> bool:
        """The same of some nodes."""
        return all(total >= asked.number for total, asked in zip(self._sums(rows), self._classes, strict=True))

    def free(self, row: int, amount: Vector) -> None:
        """A tenant of a node that counts goes."""
        self._future[:, row] += amount
        for i, asked in enumerate(self._classes):
            if asked.usable[row]:
                now = int(asked.room(self._future[:, row : row + 1])[0])
                self._totals[i] += now - int(self._each[i][row])
                self._each[i][row] = now
