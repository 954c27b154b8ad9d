"""Prefers, for a Pod that replaces another of its job, the node of that Pod (``prefer-previous-node``), and avoids the
node on which the Pod was faulty.

While a job restarts, the nodes are those of its recorded restart, so a new scheduler knows them too. Pods of one class
share their scores, so each of several Pods that are replaced together prefers all of their nodes; each then gets the
node of its predecessor, if that is among the nodes chosen for them. A node whose Pod failed is not preferred. Jobs in
super pods choose their nodes as a whole.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Score, StaticScore
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.rescheduling.rescheduler import Rescheduler

_BONUS: Final = 2e9
"""Exceeds every score for free chips."""


class Rows(NamedTuple):
    """Rows of nodes, ascending."""

    preferred: tuple[int, ...] = ()
    avoided: tuple[int, ...] = ()


_NONE: Final = Rows()


class PreviousNodes:
    """The nodes that the waiting Pods of the jobs of one session prefer and avoid."""

    def __init__(self, npus: NpuSession, rescheduler: Rescheduler) -> None:
        self._session = npus.session
        self._demand = npus.demand
        self._rescheduler = rescheduler
        self._prefer = npus.settings.prefer_previous
        """Whether nodes are preferred; those of faulty Pods are avoided in any case."""
        self._rows: dict[str, Rows] = {}
        self._faulty: dict[str, set[str]] = {}
        """Key of a job -> names of the faulty Pods of its restart."""

    @property
    def matters(self) -> bool:
        """Whether a job may have such nodes."""
        return self._prefer or any(restart.pods for restart in self._rescheduler.restarts.values())

    def rows(self, job: Job) -> Rows:
        """Returns the nodes of Pods whose rank no Pod on a node has now."""
        if not job.previous_nodes and job.key not in self._rescheduler.restarts:
            return _NONE
        if job.key not in self._rows:
            self._rows[job.key] = self._of(job)
        return self._rows[job.key]

    def scores(self, cls: TaskClass, rows: Rows) -> list[Score]:
        if rows == _NONE or not self._demand.asks(cls):
            return []
        column = np.zeros(len(self._session.nodes))
        column[list(rows.preferred)] = _BONUS
        column[list(rows.avoided)] = -_BONUS
        return [StaticScore(column)]

    def last(self, task: Task) -> bool:
        """Whether a task is placed after the others of its job: its Pod was faulty, so it takes a node that none of
        them returns to."""
        if task.job not in self._faulty:
            restart = self._rescheduler.restarts.get(task.job)
            entries = restart.pods if restart is not None else ()
            self._faulty[task.job] = {entry.name for entry in entries if entry.fault}
        return task.name in self._faulty[task.job]

    def assign(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> Sequence[int] | None:
        """Gives each task the node of the Pod of its name that a restart deleted, if that was chosen for the job, and a
        task whose Pod was faulty rather another node."""
        use = self._demand.use(job)
        before = {entry.name: entry for entry in self._rescheduler.previous_nodes(job)}
        if not before or (use is not None and use.job):
            return None
        index, left = self._session.nodes.index, Counter(rows)
        given: dict[str, int] = {}
        for task in tasks:
            entry = before.get(task.name)
            row = index.get(entry.node) if entry is not None and not entry.fault else None
            if row is not None and left[row]:
                given[task.uid] = row
                left[row] -= 1
        others = [*left.elements()]
        for task in tasks:
            if task.uid not in given:
                entry = before.get(task.name)
                own = index.get(entry.node) if entry is not None else None
                if others[-1] == own:
                    others[0], others[-1] = others[-1], others[0]
                given[task.uid] = others.pop()
        return [given[task.uid] for task in tasks]

    def _of(self, job: Job) -> Rows:
        use = self._demand.use(job)
        if use is not None and use.job:
            return _NONE
        held = {task.rank for task in job.tasks() if task.node and task.rank}
        lost = [entry for entry in self._rescheduler.previous_nodes(job) if entry.rank not in held]
        faulty = {entry.node for entry in lost if entry.fault}
        nodes = {entry.node for entry in lost}
        if not nodes:
            nodes = {node for rank, node in job.previous_nodes.items() if rank not in held}
        return Rows(self._found(nodes - faulty) if self._prefer else (), self._found(faulty))

    def _found(self, names: Iterable[str]) -> tuple[int, ...]:
        index = self._session.nodes.index
        return tuple(sorted(index[name] for name in names if name in index))
