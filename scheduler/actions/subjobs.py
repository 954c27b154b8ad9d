"""The order in which the sub-jobs of a job are turned to."""

from collections.abc import Iterable
from typing import Any

from scheduler.api.job import Job
from scheduler.api.subjob import SubJob
from scheduler.framework.session import Session


class SubJobOrder:
    """Those without which the job cannot be ready first (minSubGroups), then by SubJobOrder (Volcano's worksheet of a
    job). Which those are is settled when this is made."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        ready: dict[str | None, int] = {}
        unready = []
        for sub_job in job.sub_jobs.values():
            if session.sub_job_ready(job, sub_job):
                ready[sub_job.policy] = ready.get(sub_job.policy, 0) + 1
            else:
                unready.append(sub_job)
        self._required: set[str] = set()
        minimum = job.sub_group_minimum or {}
        for sub_job in sorted(unready, key=session.sub_job_key):
            have = ready.get(sub_job.policy, 0)
            if sub_job.policy is not None and have < minimum.get(sub_job.policy, 0):
                self._required.add(sub_job.key)
                ready[sub_job.policy] = have + 1

    def sorted(self, sub_jobs: Iterable[SubJob]) -> list[SubJob]:
        return sorted(sub_jobs, key=self.key)

    def key(self, sub_job: SubJob) -> tuple[Any, ...]:
        """The smaller comes first; as things stand now, and no two alike."""
        return (sub_job.key not in self._required, *self._session.sub_job_key(sub_job))
