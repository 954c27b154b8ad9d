"""Jobs for which an action found no room. The same search for an equal job fails in the same way and is not repeated:
on a full cluster hundreds of equal gangs may wait, and each search places a part of a gang and takes it back."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec

from scheduler.api.job import Job
from scheduler.api.reasons import FitErrors, Refusal
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.extension import JOB_PIPELINED, JOB_READY, ExtensionPoint
from scheduler.framework.session import Session

JobDemand = tuple[object, ...]
"""The properties of a job that a search for room depends on."""


class FailedSearch(msgspec.Struct, frozen=True):
    """The result of a failed search, for messages."""

    nodes: Mapping[int, tuple[TaskStatus, str]]
    """Position of a task in task order -> the node that it had until the statement was discarded."""
    fit_errors: Mapping[int, FitErrors] = msgspec.field(default_factory=dict)
    """The new ``fit_errors`` of the job."""
    refusals: tuple[Refusal, ...] = ()
    """The new ``refusals`` of the job."""


class FailedJobs:
    """The failed searches of one action. They hold until the session changes."""

    def __init__(self, session: Session, action: str, points: Collection[ExtensionPoint]) -> None:
        """``points``: the extension points that the action asks about jobs and tasks, besides readiness. Empty: no
        searches are compared."""
        self._session = session
        self._result = f"demand of {action}"
        self._by_demand = bool(points) and session.by_task.isdisjoint((JOB_READY, JOB_PIPELINED, *points))
        self._failed: dict[JobDemand, FailedSearch] = {}

    def demand(self, job: Job, tasks: Sequence[Task]) -> JobDemand | None:
        """Returns the demand of a job before the search; None: its search cannot be compared with other jobs' searches.

        ``tasks``: its pending tasks that the action places, in task order.
        """
        session = self._session
        if not self._by_demand or session.is_traced(job):
            return None
        compute = partial(_demand, job, tasks)
        if session.task_order_is_fixed:
            found = job.remember(self._result, session.configuration, compute)
        else:
            found = compute()
        if found is None:
            return None
        lasting, classes = found
        return (session.job_missing(job), lasting, *(session.view_key(cls, job) for cls in classes))

    def repeat(self, demand: JobDemand | None, job: Job, tasks: Sequence[Task]) -> bool:
        """Returns whether the search failed for an equal job. The job then gets the reasons of that job, as if the
        search had been repeated."""
        failed = None if demand is None else self._failed.get(demand)
        if failed is None:
            return False
        for position, node in failed.nodes.items():
            job.transaction[tasks[position].uid] = node
        job.fit_errors |= failed.fit_errors
        job.refusals += failed.refusals
        return True

    def add(self, demand: JobDemand | None, failed: FailedSearch) -> None:
        """Records a failed search after its statement was discarded."""
        if demand is not None:
            self._failed[demand] = failed

    def clear(self) -> None:
        """Forgets all failed searches. It is called when the session changed."""
        self._failed.clear()


def _demand(job: Job, tasks: Sequence[Task]) -> tuple[JobDemand, Collection[TaskClass]] | None:
    """The part of the demand that is the same in all sessions, and the classes; None: the search is not comparable."""
    comparable = job.by_status.keys() == {TaskStatus.PENDING} and not (job.sub_jobs or job.topology)
    if not comparable or any(task.nominated or task.gated for task in tasks):
        return None
    demand = (
        job.queue,
        job.priority,
        job.min_member,
        job.size,
        job.pending_best_effort,
        *(tuple(sorted(each.items())) for each in (job.role_minimum, job.labels, job.annotations)),
        *((key, sum(1 for _ in equal)) for key, equal in groupby(tasks, _task_demand)),
    )
    return demand, {task.cls.id: task.cls for task in tasks}.values()


def _task_demand(task: Task) -> tuple[int, int, str]:
    return task.cls.id, task.priority, task.role
