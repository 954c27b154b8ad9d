"""Nominations: nodes for all waiting tasks of a gang, on idle resources and on those that terminating tasks release.

The search takes the tasks to be evicted for terminating ones and applies the filters, scores and quotas of allocate. It
prefers resources that are idle now, then those that terminating tasks release, then those that evictions free.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.feasibility import Shortfall, compared_resources
from scheduler.actions.order import SubJobOrder
from scheduler.actions.placement.placer import waiting_tasks
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement

Nomination = list[tuple[Task, int]]
"""Tasks and the rows of their nodes, in the order of placement."""
Part = tuple[SubJob | None, list[Task]]
"""A sub-job (None: the job has none) and its waiting tasks, in task order."""


def parts_to_place(session: Session, job: Job) -> list[Part]:
    """Returns the tasks that need room, per sub-job: all waiting tasks, or only those of the next sub-job if the job is
    ready already (Volcano's gang actions). Best-effort tasks are left to backfill."""
    waiting = sorted(waiting_tasks(job), key=session.task_key)
    if not job.sub_jobs:
        return [(None, waiting)] if waiting else []
    by_sub_job: dict[SubJob, list[Task]] = {}
    for task in waiting:
        by_sub_job.setdefault(job.sub_job_of[task.uid], []).append(task)
    ordered = SubJobOrder(session, job).sorted(by_sub_job)
    parts: list[Part] = [(sub_job, by_sub_job[sub_job]) for sub_job in ordered]
    return parts[:1] if session.job_ready(job) else parts


class Nominator:
    """Finds nominations for one job in one domain."""

    def __init__(self, session: Session, job: Job, parts: Sequence[Part], domain: HyperNode) -> None:
        self._session = session
        self._job = job
        self._parts = parts
        self._domain = domain

    def nominate(self, evicted: Iterable[tuple[Task, int]]) -> Nomination | None:
        """Returns nodes for tasks that make the job pipelined, or None if there are none.

        ``evicted``: the tasks evicted for the job and the rows of their nodes. The session is unchanged afterwards.
        """
        session = self._session
        self._taken: Column = np.zeros_like(session.nodes.idle)
        for victim, row in evicted:
            self._taken[:, row] += victim.cls.request
        statement = session.statement()
        result: Nomination = []
        try:
            for sub_job, tasks in self._parts:
                found = self._place_part(sub_job, tasks, statement)
                if found is None:
                    return None
                result += found
                if session.job_pipelined(self._job):
                    return result
            return None
        finally:
            statement.discard()

    def _place_part(self, sub_job: SubJob | None, tasks: Sequence[Task], statement: Statement) -> Nomination | None:
        """Returns nodes for one part, all within one HyperNode that the sub-job may use."""
        session, job = self._session, self._job
        for rows in self._domains(sub_job):
            trial = session.statement()
            session.placing = sub_job
            found = self._place(tasks, rows, trial)
            session.placing = None
            if found is not None and (sub_job is None or session.sub_job_pipelined(job, sub_job)):
                statement.merge(trial)
                return found
            trial.discard()
        return None

    def _domains(self, sub_job: SubJob | None) -> Iterator[Rows]:
        if sub_job is None or not self._job.has_tier_limit:
            yield self._domain.rows
            return
        for gradient in self._session.gradients(sub_job, self._domain, True):
            for hyper_node in gradient:
                yield hyper_node.rows

    def _place(self, tasks: Sequence[Task], rows: Rows, trial: Statement) -> Nomination | None:
        session, job = self._session, self._job
        queue = session.queues[job.queue]
        result: Nomination = []
        open_to: dict[TaskClass, Rows] = {}
        for task in tasks:
            cls = task.cls
            if session.allocatable(queue, job, cls, 1) < 1:
                return None
            if cls not in open_to:
                open_to[cls] = rows[Shortfall(session, cls.request).none()[rows]]
            row = self._choose(cls, open_to[cls])
            if row is None:
                return None
            try:
                trial.pipeline(job, task, row)
            except AllocationError:
                return None
            result.append((task, row))
        return result

    def _choose(self, cls: TaskClass, rows: Rows) -> int | None:
        """Returns the best of the rows. All of them had sufficient amounts when the part was started."""
        nodes = self._session.nodes
        dims = compared_resources(cls.request)
        at = np.ix_(dims, rows)
        wanted = cls.request[dims][:, np.newaxis]
        idle = nodes.idle[at]
        later = idle + nodes.releasing[at] - nodes.pipelined[at]
        fits = wanted <= later
        view = self._session.view(cls, self._job)
        for amounts in (fits & (wanted <= idle), wanted <= later - self._taken[at], fits):
            better = rows[amounts.all(axis=0)]
            row = view.choose_future(within=better) if len(better) else None
            if row is not None:
                return row
        return None
