"""The position of a job among the waiting jobs of its queue, and the amounts of its queue and the queue's ancestors."""

from collections.abc import Mapping

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import CARD_REQUEST
from scheduler.api.queue import ancestors
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector
from scheduler.api.task import TaskStatus
from scheduler.explain.explanation import QueueAmounts, QueuePosition
from scheduler.framework.session import Session


def queue_position(session: Session, job: Job) -> QueuePosition | None:
    """The position among the jobs of its queue that wait for the same: admission to the queue, or nodes."""
    waiting = waiting_in_order(session, job.queue).get((job.queue, job.waiting_for_queue), [])
    position = next((i for i, other in enumerate(waiting) if other is job), None)
    if position is None:
        return None
    return QueuePosition(job.queue, position + 1, len(waiting), tuple(other.key for other in waiting[:position]))


def waiting_in_order(session: Session, queue: str = "") -> dict[tuple[str, bool], list[Job]]:
    """The jobs that wait, by queue and whether they wait for admission to it (or else for nodes), in the order in which
    the session considers them. ``queue``: only of this queue; "": of all."""
    found: dict[tuple[str, bool], list[Job]] = {}
    for job in session.jobs.values():
        if job.queue not in session.queues or queue not in ("", job.queue):
            continue
        if job.waiting_for_queue or job.count(TaskStatus.PENDING, TaskStatus.PIPELINED):
            found.setdefault((job.queue, job.waiting_for_queue), []).append(job)
    for jobs in found.values():
        jobs.sort(key=session.job_key)
    return found


def queue_amounts(session: Session, job: Job) -> list[QueueAmounts]:
    """Used, deserved and capability of the queue and its ancestors, for the resources that the job requests; for cards
    as well if it requests extended resources."""
    if job.queue not in session.queues:
        return []
    requested = job.pending if job.min_resources is None else np.maximum(job.pending, job.min_resources)
    dims = [int(d) for d in np.flatnonzero(requested) if d != PODS_INDEX]
    by_name = CARD_REQUEST in job.annotations or any(d > PODS_INDEX for d in dims)
    return [
        amounts
        for amounts in _amounts(session, job.queue, dims, by_name=by_name)
        if amounts.queue == job.queue or _limited(amounts)
    ]


def all_amounts(session: Session, name: str) -> list[QueueAmounts]:
    """Used, deserved and capability of a queue and its ancestors, for the resources that are used or limited there. The
    deserved amount is what the plugin that divides the cluster has computed, if there is one."""
    dims = [d for d in range(len(session.dimensions.names)) if d != PODS_INDEX]
    computed = {queue: its.deserved for one in session.figures() for queue, its in one.queues.items()}
    return [amounts for amounts in _amounts(session, name, dims, computed) if amounts.used or _limited(amounts)]


def _limited(amounts: QueueAmounts) -> bool:
    return amounts.deserved is not None or amounts.capability is not None


def _amounts(
    session: Session, name: str, dims: list[int], computed: Mapping[str, Vector] | None = None, *, by_name: bool = True
) -> list[QueueAmounts]:
    """Of a queue, and then of its ancestors. ``computed``: queue -> its deserved amounts, if not those of its spec.
    ``by_name``: with what plugins limit by name, such as cards."""
    result = []
    for each in (name, *ancestors(session.queues, name)):
        queue = session.queues[each]
        used = used_in_queue(session, each)
        deserves = (computed or {}).get(each, queue.deserved)
        for d in dims:
            capability = None if np.isinf(queue.capability[d]) else float(queue.capability[d])
            deserved = float(deserves[d]) if deserves[d] >= SMALLEST else None
            result.append(QueueAmounts(each, session.dimensions.names[d], float(used[d]), deserved, capability))
        usage = session.queue_usage(queue) if by_name else {}
        result += [QueueAmounts(each, card, its.used, None, its.limit) for card, its in usage.items()]
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
