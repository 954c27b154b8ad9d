"""Why nodes refuse a Pod: nodes with the same reasons are one group, and each reason comes with its numbers."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.reasons import Shortage
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.task import TaskClass
from scheduler.explain.explanation import NodeGroup
from scheduler.framework.columns import Filter, MeasuringFilter
from scheduler.framework.session import Session

INSUFFICIENT: Final = "Insufficient {}"


def compared(cls: TaskClass) -> list[int]:
    """The resources in which a class is compared with nodes: those asked for, and cpu and memory always."""
    if cls.best_effort:
        return []
    return sorted({*np.flatnonzero(cls.request > 0).tolist(), CPU_INDEX, MEMORY_INDEX})


def open_rows(session: Session, job: Job, cls: TaskClass, ahead: Mapping[int, int] | None = None) -> Rows:
    """The nodes that take one task of the class now. ``ahead``: row -> tasks of the class that go there first."""
    taken = np.zeros(len(session.nodes), dtype=np.int64)
    for row, number in (ahead or {}).items():
        taken[row] = number
    rows: Rows = np.flatnonzero(passing(session, session.filters(cls, job), taken))
    for d in compared(cls):
        free = session.nodes.idle[d, rows] - taken[rows] * cls.request[d]
        rows = rows[free >= cls.request[d]]
    return rows


def passing(session: Session, filters: list[Filter], taken: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Shape (nodes,): where filters let one task, after ``taken`` of its class were placed there."""
    rows: Rows = np.arange(len(session.nodes))
    passes = np.ones(len(rows), dtype=bool)
    for condition in filters:
        passes &= condition.room(rows) > (0 if taken is None else taken)
    return passes


def room(amounts: Vector, cls: TaskClass) -> int:
    """How many Pods of the class the amounts would do for."""
    asked = cls.request > 0
    if not asked.any():
        return 1
    return max(int((amounts[asked] // cls.request[asked]).min()), 0)


def groups(session: Session, job: Job, cls: TaskClass) -> list[NodeGroup]:
    """The nodes that refuse a task of the class now, the largest group first."""
    names, nodes = session.nodes.names, session.nodes
    reasons: dict[int, list[str]] = {}
    short: dict[int, list[int]] = {}
    for d in compared(cls):
        for row in np.flatnonzero(nodes.idle[d] < cls.request[d]).tolist():
            reasons.setdefault(row, []).append(INSUFFICIENT.format(session.dimensions.names[d]))
            short.setdefault(row, []).append(d)
    measured: dict[int, list[MeasuringFilter]] = {}
    for condition in session.filters(cls, job):
        for row, texts in _refused(condition, len(nodes)):
            reasons.setdefault(row, []).extend(texts)
            if isinstance(condition, MeasuringFilter):
                measured.setdefault(row, []).append(condition)
    by_reason: dict[tuple[str, ...], list[int]] = {}
    for row in sorted(reasons):
        by_reason.setdefault(tuple(dict.fromkeys(reasons[row])), []).append(row)
    found = [
        NodeGroup(
            tuple(names[row] for row in rows),
            texts,
            (
                *(_most(session, cls, d, rows) for d in short.get(rows[0], ())),
                *(s for condition in measured.get(rows[0], ()) for s in condition.shortages(np.array(rows))),
            ),
        )
        for texts, rows in by_reason.items()
    ]
    return sorted(found, key=lambda group: (-len(group.names), group.names))


def _refused(condition: Filter, number: int) -> list[tuple[int, list[str]]]:
    """The rows that a filter refuses, each with the filter's words."""
    rows: Rows = np.arange(number)
    refused = rows[condition.room(rows) < 1]
    if not len(refused):
        return []
    texts = [text for text, _ in condition.reasons(refused)]
    if len(texts) == 1:
        return [(row, texts) for row in refused.tolist()]
    return [(int(row), [text for text, _ in condition.reasons(np.array([row]))]) for row in refused]


def _most(session: Session, cls: TaskClass, d: int, rows: list[int]) -> Shortage:
    best = max(rows, key=lambda row: (session.nodes.idle[d, row], -row))
    free, names = float(session.nodes.idle[d, best]), session.nodes.names
    return Shortage(session.dimensions.names[d], float(cls.request[d]), 0.0, free, "Node", names[best])
