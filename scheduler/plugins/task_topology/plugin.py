"""The plugin: tasks are placed bucket by bucket, each on the node that fits most of its bucket.

Scores are computed for a class. They are those of its first pending task in task order, which is placed next.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope, Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.task_topology.buckets import JobBuckets, TopologyError, read_topology

FULL = 100.0


@register_plugin
class TaskTopology:
    """Argument ``task-topology.weight`` (default 1). Annotations of the PodGroup, after ``volcano.sh/task-topology-``:
    ``affinity``, ``anti-affinity`` (``ps,worker;evaluator``) and ``task-order`` (``ps,worker``)."""

    name: ClassVar[str] = "task-topology"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("task-topology.weight", 1)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._jobs: dict[str, JobBuckets] = {}
        for key, job in session.active_jobs.items():
            if job.annotations and TaskStatus.PENDING in job.by_status:
                buckets = self._buckets(job)
                if buckets is not None:
                    self._jobs[key] = buckets
        if not self._jobs:
            return
        session.add_task_order(self._key)
        session.add_score(self._scores, per_job=lambda job: job.key if job.key in self._jobs else "")
        session.add_handlers(partial(self._move, 1), partial(self._move, -1))

    def _buckets(self, job: Job) -> JobBuckets | None:
        try:
            topology = read_topology(job)
        except TopologyError as error:
            if job.size >= job.min_member:  # before that, some Pods may not exist yet
                problem = Malformed("PodGroup", job.namespace, job.name, error.field, str(error))
                self._session.malformed_field(problem)
            return None
        return None if topology is None else JobBuckets(job, topology)

    def _key(self, task: Task) -> tuple[int, ...]:
        buckets = self._jobs.get(task.job)
        return (1,) if buckets is None else buckets.key(task)

    def _scores(self, cls: TaskClass, job_key: str) -> list[Score]:
        buckets = self._jobs.get(job_key)
        if buckets is None or not buckets.largest:
            return []
        return [TopologyScore(self._session, cls, buckets, FULL * self._weight / buckets.largest)]

    def _move(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        buckets = self._jobs.get(job.key)
        if buckets is not None:
            buckets.move(tasks, (self._session.nodes.names[row] for row in rows), sign)


class TopologyScore:
    """Scores nodes for the next task of a class. Every placement changes the bucket, and thereby all scores."""

    scope = Scope.CLUSTER

    def __init__(self, session: PluginSession, cls: TaskClass, buckets: JobBuckets, scale: float) -> None:
        self._session = session
        self._buckets = buckets
        self._scale = scale
        waiting = buckets.job.of(TaskStatus.PENDING).values()
        self._order = sorted((t for t in waiting if t.cls is cls and not t.gated), key=session.task_key)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        task = self._next()
        if task is None:
            return np.zeros(len(rows))
        column: Column = self._buckets.column(task, self._session.nodes, rows) * self._scale
        return column

    def _next(self) -> Task | None:
        """Returns the first pending task of the class, in task order."""
        pending = self._buckets.job.of(TaskStatus.PENDING)
        return next((task for task in self._order if task.uid in pending), None)
