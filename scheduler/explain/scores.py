"""Ranks the nodes that accept a Pod, with the score of each plugin."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.task import Task, TaskClass
from scheduler.explain.explanation import RankedNode, Ranking
from scheduler.framework.columns import Scope
from scheduler.framework.extension import SCORE
from scheduler.framework.remedies.nodes import accepting_rows
from scheduler.framework.session import Session

SHOWN: Final = 3


def rank(
    session: Session, job: Job, task: Task, *, chosen: str = "", ahead: Mapping[int, int] | None = None
) -> Ranking:
    """The nodes that accept a pending task now, with the best ones by score.

    ``ahead``: row -> number of tasks of this class that are placed there first and are not yet allocated.
    ``chosen``: a node that is always included.
    """
    cls = task.cls
    ahead = ahead or {}
    rows = accepting_rows(session, job, cls, ahead)
    by_plugin = _scores(session, job, cls, rows, ahead)
    total: Column = np.zeros(len(rows))
    for column in by_plugin.values():
        total += column
    order = np.argsort(-total, kind="stable").tolist()
    names = session.nodes.names
    shown = order[:SHOWN]
    shown += [i for i in order[SHOWN:] if names[rows[i]] == chosen]
    best = tuple(
        RankedNode(names[rows[i]], float(total[i]), {plugin: float(column[i]) for plugin, column in by_plugin.items()})
        for i in shown
    )
    return Ranking(task.key, len(rows), best, chosen)


def _scores(session: Session, job: Job, cls: TaskClass, rows: Rows, ahead: Mapping[int, int]) -> dict[str, Column]:
    """Plugin -> its score for each row. Plugins without a score for the class are left out."""
    result: dict[str, Column] = {}
    counts = np.array([ahead.get(int(row), 0) for row in rows], dtype=np.int64)
    for tier in session.functions(SCORE):
        for function in tier:
            plugin = session.plugin_of(function)
            for score in session.call(SCORE, function, cls, job):
                values = score.values(rows, counts if score.scope is Scope.NODE else None)
                result[plugin] = result.get(plugin, np.zeros(len(rows))) + values
    return result
