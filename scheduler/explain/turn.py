"""Where a job stands among those of its queue that wait, and what its queue and those above it use and may have."""

import numpy as np

from scheduler.api.job import Job
from scheduler.api.queue import ancestors
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector
from scheduler.api.task import TaskStatus
from scheduler.explain.explanation import QueueNumbers, Turn
from scheduler.framework.session import Session


def turn(session: Session, job: Job) -> Turn | None:
    """Among the jobs of its queue that wait as it does: to be let in, or for nodes."""
    if job.queue not in session.queues:
        return None
    waiting = sorted(
        (other for other in session.jobs.values() if other.queue == job.queue and _waits(other, job)),
        key=session.job_key,
    )
    position = next((i for i, other in enumerate(waiting) if other is job), None)
    if position is None:
        return None
    return Turn(job.queue, position + 1, len(waiting), tuple(other.key for other in waiting[:position]))


def _waits(other: Job, job: Job) -> bool:
    if job.waiting_for_queue or other.waiting_for_queue:
        return job.waiting_for_queue and other.waiting_for_queue
    return bool(other.count(TaskStatus.PENDING, TaskStatus.PIPELINED))


def queue_numbers(session: Session, job: Job) -> list[QueueNumbers]:
    """What the job asks for, of its queue and those above it: in use, deserved and allowed as their specs say."""
    if job.queue not in session.queues:
        return []
    asked = job.pending if job.min_resources is None else np.maximum(job.pending, job.min_resources)
    dims = [int(d) for d in np.flatnonzero(asked) if d != PODS_INDEX]
    result = []
    for name in (job.queue, *ancestors(session.queues, job.queue)):
        queue = session.queues[name]
        used = used_by(session, name)
        for d in dims:
            capability = None if np.isinf(queue.capability[d]) else float(queue.capability[d])
            deserved = float(queue.deserved[d]) if queue.deserved[d] >= SMALLEST else None
            if name != job.queue and capability is None and deserved is None:
                continue
            result.append(QueueNumbers(name, session.dimensions.names[d], float(used[d]), deserved, capability))
    return result


def used_by(session: Session, name: str) -> Vector:
    """What the jobs of a queue, and of those below it, hold."""
    used, queues = session.dimensions.zeros(), below(session, name)
    for job in session.jobs.values():
        if job.queue in queues:
            used += job.allocated
    return used


def below(session: Session, name: str) -> set[str]:
    """A queue and those below it."""
    return {name, *(other for other in session.queues if name in ancestors(session.queues, other))}
