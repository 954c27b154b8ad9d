"""The Job views of all jobs, kept from snapshot to snapshot: only views of changed jobs are built again.

Jobs in which nothing waits (``Job.is_settled``) are summed per queue, so that a session need not walk them. A session
that changes such a job reports it (``Snapshot.touched``).
"""

import sys
from collections.abc import Collection
from typing import Final, cast

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.resource import Vector
from scheduler.api.snapshot import JobChanges, SettledJobs

_MANY: Final = 16
"""If more than one of so many jobs has changed, the jobs of the last snapshot are not kept for the next one."""
_ONE_REFERENCE: Final = 2
"""What ``sys.getrefcount`` returns for an object to which one attribute refers, and its own argument."""


class _EqualJobs(msgspec.Struct, eq=False, gc=False):
    """Settled jobs with the same amounts."""

    allocated: Vector
    limit: Vector | None
    """Their ``reservation_limit``."""
    number: int = 0
    """Below 0: so many are removed."""


class JobViews:
    """The views of all jobs by key, the views of jobs that are not settled, and the sums of settled jobs."""

    def __init__(self) -> None:
        self._views: dict[str, Job | None] = {}
        """None: dropped, and not replaced yet."""
        self._handed_out: dict[str, Job] | None = None
        """The jobs of the last snapshot, in which those in ``_changed`` are not up to date; None: most have changed."""
        self._changed: dict[str, None] | None = None
        """Keys of the views that differ from those of the last snapshot; None: all may differ."""
        self._changes = JobChanges(object(), None, ())
        """The changes up to the last snapshot."""
        self._active: dict[str, Job | None] = {}
        self._settled: dict[str, SettledJobs] = {}
        """Queue -> sums, without ``_not_summed``."""
        self._not_summed: dict[tuple[str, int, int, bool], _EqualJobs] = {}
        """Queue, identities of the amounts, and whether the jobs are online -> jobs to be added to the sums."""
        self.touched: dict[Job, Vector] = {}
        """Settled job that a session has changed -> what was allocated to it before. Sessions write it."""

    def __contains__(self, key: str) -> bool:
        return key in self._views

    def changed_by_sessions(self) -> list[str]:
        """Returns the keys of jobs whose views sessions have changed, so that they must be built again. Clears what
        sessions recorded on the other views."""
        changed = []
        for job in (*filter(None, self._active.values()), *self.touched):
            if self._views.get(job.key) is not job:
                self.touched.pop(job, None)
            elif job.changed:
                changed.append(job.key)
            else:
                job.clear_records()
                self.touched.pop(job, None)
        return changed

    def drop(self, key: str) -> None:
        """Drops the view of a job that has changed, and with it the tasks as they were. The next snapshot needs another
        one (``replace``)."""
        old = self._views.get(key)
        if old is None:
            return
        self._views[key] = None  # the order stays
        self._differs(key)
        if key in self._active:
            self._active[key] = None
        else:
            self._add(old, self.touched.pop(old, old.allocated), -1)

    def replace(self, key: str, view: Job | None) -> None:
        """Replaces the view of a job; None: there is none."""
        if self._views.get(key) is not None:
            self.drop(key)
        if view is None:
            self._views.pop(key, None)
            self._active.pop(key, None)
            return
        self._views[key] = view
        self._differs(key)
        if view.is_settled:
            self._active.pop(key, None)
            self._add(view, view.allocated, 1)
        else:
            self._active[key] = view

    def _add(self, job: Job, allocated: Vector, sign: int) -> None:
        """Adds a settled job to the sums of its queue, or removes it."""
        limit, online = job.reservation_limit, job.is_online
        key = (job.queue, id(allocated), id(limit), online)
        jobs = self._not_summed.get(key)
        if jobs is None:
            jobs = self._not_summed[key] = _EqualJobs(allocated, limit)
        jobs.number += sign

    def _sum_up(self) -> None:
        """Brings the sums up to date. They are exact: amounts are whole numbers."""
        for (queue, _, _, online), jobs in self._not_summed.items():
            if not jobs.number:
                continue
            sums = self._settled.get(queue)
            if sums is None:
                zeros = np.zeros_like(jobs.allocated)
                sums = SettledJobs(0, zeros, zeros, zeros)
            allocated = jobs.allocated * jobs.number
            # A limit is at most what is allocated, because the jobs are settled.
            elastic = allocated if jobs.limit is None else allocated - jobs.limit * jobs.number
            self._settled[queue] = SettledJobs(
                sums.number + jobs.number,
                sums.allocated + allocated,
                sums.elastic + elastic,
                sums.online + allocated if online else sums.online,
            )
        for queue in {queue for queue, *_ in self._not_summed}:
            if queue in self._settled and not self._settled[queue].number:
                del self._settled[queue]
        self._not_summed.clear()

    def clear(self) -> None:
        """Drops all views."""
        for part in (self._views, self._active, self._settled, self._not_summed, self.touched):
            part.clear()
        self._handed_out, self._changed = None, None

    def _differs(self, key: str) -> None:
        if self._changed is None:
            return
        self._changed[key] = None
        if len(self._changed) * _MANY > len(self._views):
            self._handed_out = None  # and with it the tasks as they were

    def all(self) -> tuple[dict[str, Job], JobChanges]:
        """Returns all views by key, for a snapshot, which must not change the dictionary. No view may be missing."""
        changed = self._changed
        if not changed and self._handed_out is not None:
            return self._handed_out, self._changes
        # Without another reference no snapshot uses the dictionary any more. To copy it would cost more than a session.
        if changed and self._handed_out is not None and sys.getrefcount(self._handed_out) == _ONE_REFERENCE:
            for key in changed:
                view = self._views.get(key)
                if view is None:
                    self._handed_out.pop(key, None)
                else:
                    self._handed_out[key] = view
        else:
            self._handed_out = cast("dict[str, Job]", self._views.copy())
        if changed is None:
            self._changes = JobChanges(object(), None, ())
        else:
            self._changes = JobChanges(object(), self._changes.identity, tuple(changed))
        self._changed = {}
        return self._handed_out, self._changes

    def of_queues(self, queues: Collection[str]) -> tuple[dict[str, Job], dict[str, SettledJobs]]:
        """Returns the jobs that a session has to look at, and the sums of the others per queue. Jobs of a queue that is
        not in ``queues`` are among the former, because they are refused. No view may be missing."""
        self._sum_up()
        active, settled = cast("dict[str, Job]", self._active.copy()), self._settled.copy()
        missing = settled.keys() - queues
        if missing:
            jobs = {key: job for key, job in self.all()[0].items() if job.queue in missing and key not in active}
            active |= jobs
            self.touched.update((job, job.allocated) for job in jobs.values())
            settled = {queue: sums for queue, sums in settled.items() if queue in queues}
        return active, settled
