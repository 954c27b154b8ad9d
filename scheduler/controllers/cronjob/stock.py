"""Taking stock of a CronJob's jobs: what its status should say, and which of them are history.

Everything is found again from the jobs themselves: a job that was made, and not yet noted in the status when this
process was killed, is noted by whoever looks next.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler.api.batch import FINISHED_PHASES, CronJob, Job, JobPhase, ObjectReference
from scheduler.api.kinds import CRON_JOB, VCJOB
from scheduler.api.moment import format_moment, parse_moment
from scheduler.api.names import EVENT_ORPHANED_JOB, EVENT_SAW_COMPLETED_JOB, EVENT_STALE_REFERENCE
from scheduler.controllers.cronjob.manifest import scheduled_time
from scheduler.controllers.effects import Json, Post
from scheduler.controllers.posts import normal, warning


@dataclass(slots=True)
class Stock:
    """What there is; moments in seconds since the epoch."""

    active: list[ObjectReference]
    last_schedule: float | None
    last_successful: float | None
    history: list[Job] = field(default_factory=list)
    """Finished jobs that exceed the limits, the oldest first."""
    news: list[Post] = field(default_factory=list)

    def status_patch(self, cron: CronJob) -> Json:
        """The changes to the status; empty if it says all that already."""
        old, patch = cron.status, Json()
        if self.active != (old.active or []):
            patch["active"] = [msgspec.to_builtins(reference) for reference in self.active] or None
        if self.last_schedule is not None and self.last_schedule != parse_moment(old.last_schedule_time):
            patch["lastScheduleTime"] = format_moment(self.last_schedule)
        if self.last_successful is not None and self.last_successful != parse_moment(old.last_successful_time):
            patch["lastSuccessfulTime"] = format_moment(self.last_successful)
        return patch


def is_finished(job: Job) -> bool:
    return job.status.state.phase in FINISHED_PHASES


def take_stock(cron: CronJob, jobs: Sequence[Job], find: Callable[[str], Job | None], now: float) -> Stock:
    """``jobs``: those the CronJob manages, the oldest first. ``find``: a job of its namespace by name."""
    status = cron.status
    stock = Stock([], parse_moment(status.last_schedule_time), parse_moment(status.last_successful_time))
    noted = stock.last_schedule
    for reference in status.active or ():
        job = find(reference.name) if reference.namespace == cron.metadata.namespace else None
        if (told := _why_inactive(cron, reference, job)) is not None:
            stock.news.append(told)
        else:
            stock.active.append(reference)
    known = {reference.uid for reference in stock.active}
    for job in jobs:
        made_for = scheduled_time(cron, job)
        if made_for is not None and made_for <= now:
            stock.last_schedule = max(made_for, stock.last_schedule or made_for)
        if is_finished(job):
            if job.status.state.phase == JobPhase.COMPLETED:
                finished = parse_moment(job.status.state.last_transition_time)
                stock.last_successful = max(filter(None, (finished, stock.last_successful)), default=None)
        elif job.metadata.uid not in known and job.metadata.deletion_timestamp is None:
            if made_for is None or (noted is not None and made_for <= noted):
                stock.news.append(warning(CRON_JOB, cron, EVENT_ORPHANED_JOB, _orphaned(job)))
            stock.active.append(_reference(job))
    limits = (
        (JobPhase.COMPLETED, cron.spec.successful_jobs_history_limit),
        (JobPhase.FAILED, cron.spec.failed_jobs_history_limit),
    )
    for phase, limit in limits:
        stock.history += _surplus((job for job in jobs if job.status.state.phase == phase), limit)
    return stock


def _why_inactive(cron: CronJob, reference: ObjectReference, job: Job | None) -> Post | None:
    """What to tell of a job that is active no more, or None if it is."""
    name, uid = reference.name, reference.uid
    if job is None:
        return warning(CRON_JOB, cron, EVENT_STALE_REFERENCE, f'Active job "{name}" no longer exists (UID: {uid})')
    if job.metadata.uid != uid:
        message = (
            f'Active job reference "{name}" points to a different UID (expected: {uid}, actual: {job.metadata.uid})'
        )
        return warning(CRON_JOB, cron, EVENT_STALE_REFERENCE, message)
    if is_finished(job):
        return normal(CRON_JOB, cron, EVENT_SAW_COMPLETED_JOB, f"Saw completed job: {name} in active, remove")
    return None


def _orphaned(job: Job) -> str:
    return (
        f"Detected orphaned job forgotten or not managed by controller: {job.metadata.name} (UID: {job.metadata.uid})"
    )


def _surplus(jobs: Iterable[Job], limit: int | None) -> list[Job]:
    """The jobs beyond the limit, those first that are the oldest; without a limit all are kept."""
    kept = list(jobs)
    extra = 0 if limit is None else max(0, len(kept) - max(0, limit))
    return [job for job in kept[:extra] if job.metadata.deletion_timestamp is None]


def _reference(job: Job) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(
        api_version=VCJOB.api_version,
        kind=VCJOB.name,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
