"""drf: the job with the smaller dominant share goes first (dominant resource fairness, Volcano's drf plugin)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scheduler.api.job import Job
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import JOB_ORDER, PREEMPTABLE
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.framework.tenants import Mask, Tenants

CLOSE_ENOUGH = 1e-6
"""Shares that differ by no more are equal."""


@register_plugin
class Drf:
    """Dominant share of a job: the largest part that it holds of any resource of the cluster (``pods`` included)."""

    name: ClassVar[str] = "drf"

    def __init__(self, arguments: Arguments) -> None:
        del arguments  # takes none

    def open(self, session: Session) -> None:
        self._session = session
        total = session.total
        self._dims = np.flatnonzero(total >= SMALLEST)
        self._total = total[self._dims]
        session.add(JOB_ORDER, self.share)
        session.add(PREEMPTABLE, self._victims, bound=self._richer)

    def share(self, job: Job) -> float:
        """What the job holds or was promised, as its dominant share (0 to 1)."""
        return self._share(job.allocated + job.pipelined)

    def _share(self, amount: Vector) -> float:
        return float((amount[self._dims] / self._total).max()) if len(self._dims) else 0.0

    def _victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        job = self._session.jobs.get(preemptor.job)
        if job is None:
            return None
        claim = self._share(job.allocated + job.pipelined + preemptor.cls.request)
        left: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            owner = self._session.jobs.get(task.job)
            if owner is None:
                continue
            rest = left.get(task.job, owner.allocated + owner.pipelined) - task.cls.request
            left[task.job] = rest
            share = self._share(rest)
            if claim < share or abs(claim - share) <= CLOSE_ENOUGH:
                victims.append(task)
        return victims

    def _richer(self, preemptor: Task, tenants: Tenants) -> Mask:
        """Tasks whose jobs would hold as much as the preemptor's, were they the only ones to go."""
        job = self._session.jobs.get(preemptor.job)
        if job is None or not len(self._dims):
            return tenants.present
        claim = self._share(job.allocated + job.pipelined + preemptor.cls.request)
        rest = (tenants.per_job(self._held) - tenants.requests[self._dims].T) / self._total
        richer: Mask = rest.max(axis=1) >= claim - CLOSE_ENOUGH
        return richer

    def _held(self, job: Job) -> Vector:
        held: Vector = (job.allocated + job.pipelined)[self._dims]
        return held
