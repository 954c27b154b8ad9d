"""Which jobs may evict tasks of others, and which tasks they may evict as far as queues, jobs and Pods themselves say.

The functions of plugins that approve victims (PREEMPTABLE, RECLAIMABLE, UNIFIED_EVICTABLE) are called later, node by
node.
"""

from collections.abc import Iterator, Sequence

from scheduler.actions.eviction.feasibility import compared_resources
from scheduler.api.job import Job
from scheduler.api.names import PREEMPTABLE, TRUE
from scheduler.api.node import Mask
from scheduler.api.queue import Queue
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session

NEVER = "Never"
"""preemptionPolicy of Pods that do not evict others."""


def starving_jobs(session: Session) -> Iterator[Job]:
    """Yields the valid jobs that are admitted to their queues, have pending tasks and starve (JOB_STARVING)."""
    for job in session.jobs.values():
        if (
            TaskStatus.PENDING in job.by_status
            and not job.waiting_for_queue
            and job.queue in session.queues
            and session.job_starving(job)
            and session.job_valid(job) is None
        ):
            yield job


def pending_tasks(session: Session, job: Job) -> list[Task]:
    """Returns the pending tasks of a job that are not gated, in task order."""
    return sorted((t for t in job.of(TaskStatus.PENDING).values() if not t.gated), key=session.task_key)


def can_wait_for_nominated_nodes(session: Session, tasks: Sequence[Task]) -> bool:
    """Whether every task has a nominated node with enough room for it once the terminating tasks there end.

    Such tasks need no further eviction. False if no task terminates on these nodes.
    """
    if not all(task.nominated for task in tasks):
        return False
    nodes = session.nodes
    rows = [nodes.index.get(task.nominated) for task in tasks]
    left = {row: nodes.future_idle_of(row) for row in rows if row is not None}
    for task, row in zip(tasks, rows, strict=True):
        if row is None:
            return False
        left[row] -= task.cls.request
        if (left[row][compared_resources(task.cls.request)] < 0).any():
            return False
    return bool(nodes.releasing[PODS_INDEX, list(left)].any())


def reclaimable_candidates(session: Session, preemptor: Queue) -> Mask:
    """Returns the mask of running, preemptable tasks in other queues that are reclaimable."""

    def loses(name: str) -> bool:
        queue = session.queues.get(name)
        return queue is not None and queue is not preemptor and queue.reclaimable

    candidates = session.eviction_candidates
    return candidates.running & candidates.preemptable & candidates.of_queues(loses)


def allows_gang_eviction(job: Job) -> bool:
    """Whether the gang actions may evict tasks of the job: unless its PodGroup says ``volcano.sh/preemptable:
    false``."""
    text = job.annotations.get(PREEMPTABLE, job.labels.get(PREEMPTABLE))
    return text is None or text in TRUE
