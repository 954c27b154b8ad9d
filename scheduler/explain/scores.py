"""Which nodes a Pod may have, and why one of them is better than another: the scores by plugin."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.task import Task, TaskClass
from scheduler.explain.explanation import Ranked, Ranking
from scheduler.framework.columns import Scope
from scheduler.framework.extension import NODE_ORDER
from scheduler.framework.remedies.nodes import open_rows
from scheduler.framework.session import Session

SHOWN: Final = 3


def rank(
    session: Session, job: Job, task: Task, *, chosen: str = "", ahead: Mapping[int, int] | None = None
) -> Ranking:
    """The nodes that take a pending task now, the best ones by score. ``ahead``: row -> tasks of the same class that
    are placed there before it, though not yet in the books. ``chosen``: a node that is to be named in any case."""
    cls = task.cls
    ahead = ahead or {}
    rows = open_rows(session, job, cls, ahead)
    by_plugin = _scores(session, job, cls, rows, ahead)
    total: Column = np.zeros(len(rows))
    for column in by_plugin.values():
        total += column
    order = np.argsort(-total, kind="stable").tolist()
    names = session.nodes.names
    shown = order[:SHOWN]
    shown += [i for i in order[SHOWN:] if names[rows[i]] == chosen]
    best = tuple(
        Ranked(names[rows[i]], float(total[i]), {plugin: float(column[i]) for plugin, column in by_plugin.items()})
        for i in shown
    )
    return Ranking(task.key, len(rows), best, chosen)


def _scores(session: Session, job: Job, cls: TaskClass, rows: Rows, ahead: Mapping[int, int]) -> dict[str, Column]:
    """Plugin -> its score of each of the rows; those that say nothing are left out."""
    result: dict[str, Column] = {}
    counts = np.array([ahead.get(int(row), 0) for row in rows], dtype=np.int64)
    for tier in session.functions(NODE_ORDER):
        for function in tier:
            plugin = session.plugin_of(function)
            for score in function(cls, job):
                values = score.values(rows, counts if score.scope is Scope.NODE else None)
                result[plugin] = result.get(plugin, np.zeros(len(rows))) + values
    return result
