"""The vcjobs of a CronJob: the manifest of the vcjob for one time, what the existing ones say about the status, and
which of them exceed the history limits.

The name of a vcjob contains the minute, so that none is created twice.

Everything is derived from the jobs themselves: if the process is killed after it created a job and before it wrote the
status, the next reconciliation adds the job to the status.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from scheduler.api.batch import FINISHED_PHASES, CronJob, Job, JobPhase, ObjectReference
from scheduler.api.kinds import CRON_JOB, VCJOB
from scheduler.api.names import (
    CRONJOB_SCHEDULED_TIMESTAMP,
    EVENT_ORPHANED_JOB,
    EVENT_SAW_COMPLETED_JOB,
    EVENT_STALE_REFERENCE,
)
from scheduler.api.times import format_timestamp, parse_timestamp
from scheduler.controllers.effects import Json, RecordEvent, malformed, normal, warning
from scheduler.controllers.owners import owned

_MINUTE: Final = 60


def job_name(cron: CronJob, at: float) -> str:
    """The name of the job for a time: ``<cron job>-<minutes since the epoch>``."""
    return f"{cron.metadata.name}-{int(at) // _MINUTE}"


def scheduled_time(cron: CronJob, job: Job) -> float | None:
    """The time for which the CronJob made the job, in seconds since the epoch; None if it did not make it."""
    at = parse_timestamp((job.metadata.annotations or {}).get(CRONJOB_SCHEDULED_TIMESTAMP))
    return at if at is not None and job.metadata.name == job_name(cron, at) else None


def make_job(cron: CronJob, at: float, zone: tzinfo) -> tuple[Json, list[RecordEvent]]:
    """The manifest of the job for a time, and Events about what is left out. ``zone``: the time zone of the
    annotation with the time."""
    template = cron.spec.job_template
    events: list[RecordEvent] = []
    labels = _strings(cron, "labels", events)
    moment = datetime.fromtimestamp(at, zone).isoformat().replace("+00:00", "Z")
    annotations = _strings(cron, "annotations", events) | {CRONJOB_SCHEDULED_TIMESTAMP: moment}
    manifest = owned(VCJOB, job_name(cron, at), CRON_JOB, cron, spec=copy.deepcopy(template.spec))
    manifest["metadata"] |= {"annotations": annotations} | ({"labels": labels} if labels else {})
    return manifest, events


def _strings(cron: CronJob, field: str, events: list[RecordEvent]) -> dict[str, str]:
    """Labels or annotations of the template. Values that are no text are reported and left out."""
    given = (cron.spec.job_template.metadata or {}).get(field)
    if given is None:
        return {}
    pairs = given if isinstance(given, dict) else {}
    kept = {key: value for key, value in pairs.items() if isinstance(value, str)}
    if pairs is not given or len(kept) < len(pairs):
        events.append(malformed(CRON_JOB, cron, f"spec.jobTemplate.metadata.{field}", "not all of it is text"))
    return kept


@dataclass(slots=True)
class JobSummary:
    """The jobs of a CronJob; times in seconds since the epoch."""

    active: list[ObjectReference]
    last_schedule: float | None
    last_successful: float | None
    history: list[Job] = field(default_factory=list)
    """Finished jobs that exceed the limits, the oldest first."""
    events: list[RecordEvent] = field(default_factory=list)

    def status_patch(self, cron: CronJob) -> Json:
        """The changes to the status; empty if there are none."""
        old, patch = cron.status, Json()
        if self.active != (old.active or []):
            patch["active"] = [msgspec.to_builtins(reference) for reference in self.active] or None
        if self.last_schedule is not None and self.last_schedule != parse_timestamp(old.last_schedule_time):
            patch["lastScheduleTime"] = format_timestamp(self.last_schedule)
        if self.last_successful is not None and self.last_successful != parse_timestamp(old.last_successful_time):
            patch["lastSuccessfulTime"] = format_timestamp(self.last_successful)
        return patch


def is_finished(job: Job) -> bool:
    return job.status.state.phase in FINISHED_PHASES


def summarize_jobs(cron: CronJob, jobs: Sequence[Job], find: Callable[[str], Job | None], now: float) -> JobSummary:
    """The state of a CronJob according to its jobs. ``jobs``: the jobs that the CronJob manages, the oldest first.
    ``find``: returns a job of its namespace by name."""
    status = cron.status
    summary = JobSummary([], parse_timestamp(status.last_schedule_time), parse_timestamp(status.last_successful_time))
    noted = summary.last_schedule
    for reference in status.active or ():
        job = find(reference.name) if reference.namespace == cron.metadata.namespace else None
        if (event := _why_inactive(cron, reference, job)) is not None:
            summary.events.append(event)
        else:
            summary.active.append(reference)
    known = {reference.uid for reference in summary.active}
    for job in jobs:
        made_for = scheduled_time(cron, job)
        if made_for is not None and made_for <= now:
            summary.last_schedule = max(made_for, summary.last_schedule or made_for)
        if is_finished(job):
            if job.status.state.phase == JobPhase.COMPLETED:
                finished = parse_timestamp(job.status.state.last_transition_time)
                summary.last_successful = max(filter(None, (finished, summary.last_successful)), default=None)
        elif job.metadata.uid not in known and job.metadata.deletion_timestamp is None:
            if made_for is None or (noted is not None and made_for <= noted):
                summary.events.append(warning(CRON_JOB, cron, EVENT_ORPHANED_JOB, _orphaned(job)))
            summary.active.append(_reference(job))
    limits = (
        (JobPhase.COMPLETED, cron.spec.successful_jobs_history_limit),
        (JobPhase.FAILED, cron.spec.failed_jobs_history_limit),
    )
    for phase, limit in limits:
        summary.history += _surplus((job for job in jobs if job.status.state.phase == phase), limit)
    return summary


def _why_inactive(cron: CronJob, reference: ObjectReference, job: Job | None) -> RecordEvent | None:
    """The Event about a job that is no longer active, or None if it is."""
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
    """The jobs beyond the limit, the oldest first. Without a limit all are kept."""
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
