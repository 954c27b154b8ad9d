"""Amounts of queues: of all jobs of a session as columns, what admitted jobs reserve, and the limits of flat queues.

Columns make sums over thousands of jobs a few array operations.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import INQUEUE, Job
from scheduler.api.node import Column
from scheduler.api.resource import Vector
from scheduler.api.task import ALLOCATED_STATUSES
from scheduler.framework.session import Session


@dataclass(slots=True)
class JobColumns:
    """One row per job of the session when it opens; amounts of shape (jobs, resources)."""

    jobs: list[Job]
    queues: NDArray[np.intp]
    """Index of each job's queue in ``queue_names``. Jobs whose queue does not exist are left out."""
    queue_names: list[str]
    allocated: Column
    pending: Column
    minimum: Column
    """minResources, limited to what the job was admitted with; zero if the PodGroup has none."""
    reserved: Column
    """What Inqueue and running jobs reserve: ``minimum`` less ``allocated``, at most what the cluster has."""

    def per_queue(self, column: Column) -> Column:
        """The sums of a job column per queue: shape (queues, resources)."""
        sums = np.zeros((len(self.queue_names), column.shape[1]))
        np.add.at(sums, self.queues, column)
        return sums

    @property
    def elastic(self) -> Column:
        """What is allocated to each job beyond its minResources."""
        beyond: Column = np.maximum(self.allocated - self.minimum, 0)
        return beyond


def job_columns(session: Session) -> JobColumns:
    """The columns of a session. They are computed once, and shared by all plugins that call this while they open."""
    return session.once(_columns)


def _columns(session: Session) -> JobColumns:
    names = sorted(session.queues)
    code = {name: i for i, name in enumerate(names)}
    jobs = [job for job in session.jobs.values() if job.queue in code]
    width = session.dimensions.width
    zeros = session.dimensions.zeros()
    minimum = _stack([zeros if job.reservation_limit is None else job.reservation_limit for job in jobs], width)
    allocated = _stack([job.allocated for job in jobs], width)
    reserving = np.array([reserves(job) for job in jobs], dtype=bool)
    reserved = np.where(reserving[:, None], np.maximum(minimum - allocated, 0), 0.0) if jobs else allocated
    reserved = np.minimum(reserved, session.total)
    for i, job in enumerate(jobs):
        if job.gated is not None:
            reserved[i] = without_gated(job, reserved[i])
    return JobColumns(
        jobs=jobs,
        queues=np.array([code[job.queue] for job in jobs], dtype=np.intp),
        queue_names=names,
        allocated=allocated,
        pending=_stack([job.pending for job in jobs], width),
        minimum=minimum,
        reserved=reserved,
    )


def reserves(job: Job) -> bool:
    """Whether the job reserves its minResources: it is Inqueue, or it runs with at least minMember tasks."""
    if job.min_resources is None:
        return False
    if job.phase == INQUEUE:
        return True
    return job.phase == "Running" and job.count(*ALLOCATED_STATUSES) >= job.min_member


def reservation(session: Session, job: Job, minimum: Vector) -> Vector:
    """What a job reserves when it is admitted with ``minimum``: at most what the cluster has."""
    return np.minimum(without_gated(job, minimum), session.total)


def without_gated(job: Job, amount: Vector) -> Vector:
    """The amount less the requests of the job's gated Pods, which cannot use it yet."""
    return amount if job.gated is None else np.maximum(amount - job.gated, 0)


def total_guarantee(session: Session) -> Vector:
    """The sum of the guarantees of all queues."""
    total = session.dimensions.zeros()
    for queue in session.queues.values():
        total += queue.guarantee
    return total


def flat_limits(session: Session) -> dict[str, Vector]:
    """Queue -> its capability, at most what the guarantees of other queues leave (Volcano's realCapability). For queues
    without a hierarchy."""
    free = np.maximum(session.total - total_guarantee(session), 0)
    return {name: np.minimum(free + queue.guarantee, queue.capability) for name, queue in session.queues.items()}


def _stack(vectors: list[Vector], width: int) -> Column:
    # Faster than numpy.stack, which makes an array object for each vector.
    return np.concatenate(vectors).reshape(len(vectors), width) if vectors else np.zeros((0, width))
