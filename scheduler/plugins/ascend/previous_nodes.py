"""Prefers, for a Pod that replaces another of its job, the node of that Pod (``prefer-previous-node``).

Pods of one class share their scores, so each of several Pods that are replaced together prefers all of their nodes. A
node whose Pod failed is not preferred. Jobs in super pods choose their nodes as a whole.
"""

from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Score, StaticScore
from scheduler.framework.session import Session
from scheduler.plugins.ascend.demand import Demand, Use

_BONUS: Final = 2e9
"""Exceeds every score for free chips."""


class PreviousNodes:
    """The nodes that the waiting Pods of the jobs of one session prefer."""

    def __init__(self, session: Session, demand: Demand) -> None:
        self._session = session
        self._demand = demand
        self._rows: dict[str, tuple[int, ...]] = {}

    def rows(self, job: Job) -> tuple[int, ...]:
        """The rows of the nodes of Pods whose rank no Pod on a node has now."""
        if not job.previous_nodes:
            return ()
        if job.key not in self._rows:
            self._rows[job.key] = self._of(job)
        return self._rows[job.key]

    def scores(self, cls: TaskClass, rows: tuple[int, ...]) -> list[Score]:
        if not rows or not self._demand.asks(cls):
            return []
        column = np.zeros(len(self._session.nodes))
        column[list(rows)] = _BONUS
        return [StaticScore(column)]

    def _of(self, job: Job) -> tuple[int, ...]:
        use = self._demand.use(job)
        if isinstance(use, Use) and use.job:
            return ()
        held = {task.rank for task in job.tasks() if task.node}
        index = self._session.nodes.index
        nodes = {node for rank, node in job.previous_nodes.items() if rank not in held}
        return tuple(sorted(index[node] for node in nodes if node in index))
