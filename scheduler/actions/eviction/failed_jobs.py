"""Jobs for which an action found no room. The same search for an equal job fails in the same way and is not repeated:
on a full cluster hundreds of equal gangs may wait, and each search evicts and restores tasks for a part of a gang."""

from collections.abc import Sequence

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.extension import JOB_PIPELINED, JOB_STARVING, PREEMPTIVE, ExtensionPoint
from scheduler.framework.session import Session

JobDemand = tuple[object, ...]
"""What a search for room depends on of a job."""


class FailedJobs:
    """The failed searches of one action for one queue. They hold until the session changes."""

    def __init__(self, session: Session, point: ExtensionPoint) -> None:
        """``point``: the extension point whose victim functions approve victims."""
        self._session = session
        self._by_demand = all(map(session.answers_by_demand, (point, JOB_STARVING, JOB_PIPELINED, PREEMPTIVE)))
        self._failed: dict[JobDemand, list[tuple[TaskStatus, str] | None]] = {}
        """Demand of a job -> the nodes that its tasks had until the statement was discarded, in task order."""

    def demand(self, job: Job, tasks: Sequence[Task]) -> JobDemand | None:
        """Returns the demand of a job before the search; None: its search is not comparable with that of another
        job.

        ``tasks``: its pending tasks, in task order.
        """
        session = self._session
        comparable = job.by_status.keys() == {TaskStatus.PENDING} and not (job.sub_jobs or job.topology)
        if not (comparable and self._by_demand) or session.is_traced(job) or any(task.nominated for task in tasks):
            return None
        views = {task.cls.id: session.view_key(task.cls, job) for task in tasks}
        return (
            job.priority,
            job.min_member,
            session.job_missing(job),
            job.size,
            job.pending_best_effort,
            *(tuple(sorted(each.items())) for each in (job.role_minimum, job.labels, job.annotations)),
            *views.items(),
            *((task.cls.id, task.priority, task.role) for task in tasks),
        )

    def repeat(self, demand: JobDemand | None, job: Job, tasks: Sequence[Task]) -> bool:
        """Returns whether the search failed for an equal job. The tasks then get the nodes of that job's tasks for
        their messages, as if the search had been repeated."""
        nodes = None if demand is None else self._failed.get(demand)
        if nodes is None:
            return False
        job.transaction |= {task.uid: node for task, node in zip(tasks, nodes, strict=True) if node is not None}
        return True

    def add(self, demand: JobDemand | None, job: Job, tasks: Sequence[Task], placed: Sequence[Task]) -> None:
        """Records a failed search after its statement was discarded. ``placed``: the tasks that the statement had
        placed."""
        if demand is not None:
            uids = {task.uid for task in placed}
            self._failed[demand] = [job.transaction[task.uid] if task.uid in uids else None for task in tasks]

    def clear(self) -> None:
        """Forgets all. To be called when the session changed."""
        self._failed.clear()
