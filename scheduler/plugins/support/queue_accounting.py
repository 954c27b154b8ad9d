"""The accounting of queues, and the refusals of the queue plugins (proportion, capacity, overcommit, capacity-card).

Amounts of queues are what their jobs hold and wait for, and what admitted jobs reserve. Settled jobs count with their
sums per queue; the amounts of the others become columns, so that sums over thousands of jobs are a few array
operations.

A refusal has the requested amount, the used or reserved amount, the limit, and its queue. overcommit, proportion and
capacity share one wording. A message begins with Volcano's message, if Volcano has one; the numbers follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import EVENT_UNSCHEDULABLE
from scheduler.api.node import Column
from scheduler.api.queue import Queue, not_open_message
from scheduler.api.reasons import Refusal, Shortage
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.task import ALLOCATED_STATUSES
from scheduler.framework.charged_namespaces import charged_pods
from scheduler.framework.plugin_session import PluginSession


class JobAmounts(NamedTuple):
    """The amounts of the jobs of a queue when the session opens."""

    allocated: Vector
    """With what Pods without a queue hold that the queue is charged for."""
    pending: Vector
    reserved: Vector
    """The reservations of Inqueue and running jobs: minResources (limited to the amounts that the job was admitted
    with), less the job's allocated amounts, and at most the total of the cluster."""
    elastic: Vector
    """What is allocated to each job beyond its minResources."""


def queue_amounts(session: PluginSession) -> dict[str, JobAmounts]:
    """Returns the amounts of all queues, in the order of their names. They are computed once, and shared by all plugins
    that call this while they open."""
    return session.once(_amounts)


def _amounts(session: PluginSession) -> dict[str, JobAmounts]:
    names = sorted(session.queues)
    code = {name: i for i, name in enumerate(names)}
    jobs = [job for job in session.active_jobs.values() if job.queue in code]
    sums = np.zeros((4, len(names), session.dimensions.width))
    at = np.array([code[job.queue] for job in jobs], dtype=np.intp)
    for column, of_queues in zip(amounts_of_jobs(session, jobs), sums, strict=True):
        np.add.at(of_queues, at, column)
    for name, settled in session.settled_jobs.items():
        sums[0, code[name]] += settled.allocated
        sums[3, code[name]] += settled.elastic
    for name, charged in session.once(charged_pods).amounts.items():
        if name in code:
            sums[0, code[name]] += charged
    return {name: JobAmounts(*sums[:, i]) for name, i in code.items()}


def amounts_of_jobs(session: PluginSession, jobs: Sequence[Job]) -> tuple[Column, Column, Column, Column]:
    """Returns the columns of ``JobAmounts`` for each of the jobs; shape (jobs, resources)."""
    width = session.dimensions.width
    zeros = session.dimensions.zeros()
    minimum = _stack([zeros if job.reservation_limit is None else job.reservation_limit for job in jobs], width)
    allocated = _stack([job.allocated for job in jobs], width)
    pending = _stack([job.pending for job in jobs], width)
    reserving = np.array([reserves(job) for job in jobs], dtype=bool)
    reserved = np.where(reserving[:, None], np.maximum(minimum - allocated, 0), 0.0) if jobs else allocated
    reserved = np.minimum(reserved, session.total)
    for i, job in enumerate(jobs):
        if job.gated is not None:
            reserved[i] = without_gated(job, reserved[i])
    return allocated, pending, reserved, np.maximum(allocated - minimum, 0)


def reserves(job: Job) -> bool:
    """Whether the job reserves its minResources: it is Inqueue, or it runs with at least minMember tasks, or with the
    first of its tasks, which start one after another."""
    if job.min_resources is None:
        return False
    if job.phase == INQUEUE:
        return True
    return job.phase == "Running" and (job.grows or job.count(*ALLOCATED_STATUSES) >= job.min_member)


def reservation(session: PluginSession, job: Job, minimum: Vector) -> Vector:
    """Returns the reservation of a job that is admitted with ``minimum``: at most the total of the cluster."""
    return np.minimum(without_gated(job, minimum), session.total)


def without_gated(job: Job, amount: Vector) -> Vector:
    """Returns the amount less the requests of the job's gated Pods, which cannot use it yet."""
    return amount if job.gated is None else np.maximum(amount - job.gated, 0)


def total_guarantee(session: PluginSession) -> Vector:
    """Returns the sum of the guarantees of all queues."""
    total = session.dimensions.zeros()
    for queue in session.queues.values():
        total += queue.guarantee
    return total


def flat_limits(session: PluginSession) -> dict[str, Vector]:
    """Returns queue -> its capability, limited to the part of the cluster that the guarantees of other queues leave
    (Volcano's realCapability). For queues without a hierarchy."""
    free = np.maximum(session.total - total_guarantee(session), 0)
    return {name: np.minimum(free + queue.guarantee, queue.capability) for name, queue in session.queues.items()}


def _stack(vectors: list[Vector], width: int) -> Column:
    # Faster than numpy.stack, which makes an array object for each vector.
    return np.concatenate(vectors).reshape(len(vectors), width) if vectors else np.zeros((0, width))


QUEUE_OVERUSED = "QueueOverused"
QUOTA_INSUFFICIENT = "queue resource quota insufficient"
"""Volcano's message for a PodGroup that is not admitted to its queue."""
LimitedObject = tuple[str, str]
"""Kind and name of the object that has the limit."""
CLUSTER: Final[LimitedObject] = ("Cluster", "")


def of_queue(name: str) -> LimitedObject:
    return ("Queue", name)


def not_admitted(
    dimensions: Dimensions,
    headline: str,
    short: str,
    over: Iterable[int],
    where: str = "",
    of: LimitedObject = CLUSTER,
    **amounts: Vector,
) -> Refusal:
    """Refuses a PodGroup: ``headline: short cpu, short memory (where; cpu: asked 4, limit 2; memory: ...)``.

    ``over``: the resources beyond their limit. ``amounts``: ``asked``, then what is used or reserved, then the limit.
    """
    over = list(over)
    names = ", ".join(f"{short} {dimensions.names[d]}" for d in over)
    numbers = _numbers(dimensions, over, amounts)
    message = f"{headline}: {names} ({f'{where}; ' if where else ''}{numbers})"
    return Refusal(EVENT_UNSCHEDULABLE, message, _shortages(dimensions, over, amounts, of))


def overused(
    dimensions: Dimensions, headline: str, over: Iterable[int], of: LimitedObject = CLUSTER, **amounts: Vector
) -> Refusal:
    """Refuses tasks of a queue that has reached a limit: ``headline (cpu: asked 1, used 4, limit 4; ...)``.

    ``over`` and ``amounts`` as for ``not_admitted``; amounts may be left out.
    """
    over = list(over)
    message = f"{headline} ({_numbers(dimensions, over, amounts) or 'nothing'})"
    return Refusal(QUEUE_OVERUSED, message, _shortages(dimensions, over, amounts, of))


def not_open(queue: Queue) -> Refusal:
    return Refusal(EVENT_UNSCHEDULABLE, not_open_message(queue))


def _shortages(
    dimensions: Dimensions, over: Iterable[int], amounts: Mapping[str, Vector], of: LimitedObject
) -> tuple[Shortage, ...]:
    if not amounts:
        return ()
    zeros = dimensions.zeros()
    asked = amounts.get("asked", zeros)
    used, limit = [zeros, *(vector for what, vector in amounts.items() if what != "asked")][-2:]
    names = dimensions.names
    return tuple(Shortage(names[d], float(asked[d]), float(used[d]), float(limit[d]), *of) for d in over)


def _numbers(dimensions: Dimensions, over: Iterable[int], amounts: dict[str, Vector]) -> str:
    return "; ".join(
        dimensions.numbers(int(d), **{what: float(vector[d]) for what, vector in amounts.items()}) for d in over
    )
