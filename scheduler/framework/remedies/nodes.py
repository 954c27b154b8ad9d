"""Which nodes accept a Pod, by amounts and by filters."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Filter
from scheduler.framework.session import Session


def compared_resources(cls: TaskClass) -> list[int]:
    """Returns the resources that are compared with nodes: the requested ones, and always cpu and memory."""
    if cls.best_effort:
        return []
    return sorted({*np.flatnonzero(cls.request > 0).tolist(), CPU_INDEX, MEMORY_INDEX})


def accepting_rows(session: Session, job: Job, cls: TaskClass, ahead: Mapping[int, int] | None = None) -> Rows:
    """Returns the rows that accept one task of the class now. ``ahead``: row -> number of tasks of the class placed
    there first."""
    taken = np.zeros(len(session.nodes), dtype=np.int64)
    for row, number in (ahead or {}).items():
        taken[row] = number
    rows: Rows = np.flatnonzero(passing_nodes(session, session.filters(cls, job), taken))
    for d in compared_resources(cls):
        free = session.nodes.idle[d, rows] - taken[rows] * cls.request[d]
        rows = rows[free >= cls.request[d]]
    return rows


def passing_nodes(session: Session, filters: list[Filter], taken: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Returns a mask of shape (nodes,): whether all filters accept one task after ``taken`` tasks of its class."""
    rows: Rows = np.arange(len(session.nodes))
    passes = np.ones(len(rows), dtype=bool)
    try:
        for condition in filters:
            passes &= condition.room(rows) > (0 if taken is None else taken)
    except Exception as error:  # the code of others may raise anything
        session.fail_column(condition, "room", error)
    return passes


def room(amounts: Vector, cls: TaskClass) -> int:
    """Returns how many Pods of the class fit into the amounts."""
    asked = cls.request > 0
    if not asked.any():
        return 1
    return max(int((amounts[asked] // cls.request[asked]).min()), 0)
