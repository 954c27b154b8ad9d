"""The position of a job among the waiting jobs of its queue, and the amounts of its queue and the queue's ancestors."""

import numpy as np

from scheduler.api.job import Job
from scheduler.api.queue import ancestors
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector
from scheduler.api.task import TaskStatus
from scheduler.explain.explanation import QueueAmounts, QueuePosition
from scheduler.framework.session import Session


def queue_position(session: Session, job: Job) -> QueuePosition | None:
    """The position among the jobs of its queue that wait for the same: admission to the queue, or nodes."""
    if job.queue not in session.queues:
        return None
    waiting = sorted(
        (other for other in session.jobs.values() if other.queue == job.queue and _waits(other, job)),
        key=session.job_key,
    )
    position = next((i for i, other in enumerate(waiting) if other is job), None)
    if position is None:
        return None
    return QueuePosition(job.queue, position + 1, len(waiting), tuple(other.key for other in waiting[:position]))


def _waits(other: Job, job: Job) -> bool:
    if job.waiting_for_queue or other.waiting_for_queue:
        return job.waiting_for_queue and other.waiting_for_queue
    return bool(other.count(TaskStatus.PENDING, TaskStatus.PIPELINED))


def queue_amounts(session: Session, job: Job) -> list[QueueAmounts]:
    """Used, deserved and capability of the queue and its ancestors, for the resources that the job requests."""
    if job.queue not in session.queues:
        return []
    requested = job.pending if job.min_resources is None else np.maximum(job.pending, job.min_resources)
    dims = [int(d) for d in np.flatnonzero(requested) if d != PODS_INDEX]
    result = []
    for name in (job.queue, *ancestors(session.queues, job.queue)):
        queue = session.queues[name]
        used = used_in_queue(session, name)
        for d in dims:
            capability = None if np.isinf(queue.capability[d]) else float(queue.capability[d])
            deserved = float(queue.deserved[d]) if queue.deserved[d] >= SMALLEST else None
            if name != job.queue and capability is None and deserved is None:
                continue
            result.append(QueueAmounts(name, session.dimensions.names[d], float(used[d]), deserved, capability))
    return result


def used_in_queue(session: Session, name: str) -> Vector:
    """The amounts that are allocated to the jobs of a queue and its descendants."""
    used, queues = session.dimensions.zeros(), subtree(session, name)
    for job in session.jobs.values():
        if job.queue in queues:
            used += job.allocated
    return used


def subtree(session: Session, name: str) -> set[str]:
    """The names of a queue and its descendants."""
    return {name, *(other for other in session.queues if name in ancestors(session.queues, other))}
