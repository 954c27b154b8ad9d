"""Groups the nodes that refuse a Pod by their reasons, with the numbers behind each reason."""

from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.reasons import Shortage
from scheduler.api.task import TaskClass
from scheduler.explain.explanation import NodeGroup
from scheduler.framework.columns import Filter, MeasuringFilter
from scheduler.framework.remedies.nodes import compared_resources
from scheduler.framework.session import Session

INSUFFICIENT: Final = "Insufficient {}"


def groups(session: Session, job: Job, cls: TaskClass) -> list[NodeGroup]:
    """The nodes that refuse a task of the class now, largest group first."""
    names, nodes = session.nodes.names, session.nodes
    reasons: dict[int, list[str]] = {}
    short: dict[int, list[int]] = {}
    for d in compared_resources(cls):
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
    """The rows that a filter refuses, each with the filter's reasons."""
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
