"""Amounts of all jobs of a session as columns, so that sums over thousands of jobs are a few array operations."""

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
    """One row per job of the session at its opening; amounts of shape (jobs, resources)."""

    jobs: list[Job]
    queues: NDArray[np.intp]
    """Index of each job's queue in ``queue_names``; jobs of queues that do not exist are left out."""
    queue_names: list[str]
    allocated: Column
    pending: Column
    minimum: Column
    """minResources, as far as the job was admitted with them; zero where not given."""
    reserved: Column
    """What an Inqueue or a running job still lacks of that: taken, though not yet allocated. Never more than the
    cluster has."""

    def per_queue(self, column: Column) -> Column:
        """Sums of a job column per queue: shape (queues, resources)."""
        sums = np.zeros((len(self.queue_names), column.shape[1]))
        np.add.at(sums, self.queues, column)
        return sums

    @property
    def elastic(self) -> Column:
        """What each job holds beyond its minResources."""
        beyond: Column = np.maximum(self.allocated - self.minimum, 0)
        return beyond


def job_columns(session: Session) -> JobColumns:
    """The columns of a session, made once and shared by all plugins that ask before anything is placed."""
    return session.once(_columns)


def _columns(session: Session) -> JobColumns:
    names = sorted(session.queues)
    code = {name: i for i, name in enumerate(names)}
    jobs = [job for job in session.jobs.values() if job.queue in code]
    width = session.dimensions.width
    zeros = session.dimensions.zeros()
    minimum = _stack([zeros if job.most_reserved is None else job.most_reserved for job in jobs], width)
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
    """Whether the job's minResources count as taken beyond what it holds: it was let in, or it runs at its minimum."""
    if job.min_resources is None:
        return False
    if job.phase == INQUEUE:
        return True
    return job.phase == "Running" and job.count(*ALLOCATED_STATUSES) >= job.min_member


def promised(session: Session, job: Job, minimum: Vector) -> Vector:
    """What a job that is let in reserves with its minResources: no more than the cluster has."""
    return np.minimum(without_gated(job, minimum), session.total)


def without_gated(job: Job, amount: Vector) -> Vector:
    """The amount less what gated Pods of the job ask for: they cannot use it yet."""
    return amount if job.gated is None else np.maximum(amount - job.gated, 0)


def _stack(vectors: list[Vector], width: int) -> Column:
    return np.stack(vectors) if vectors else np.zeros((0, width))
