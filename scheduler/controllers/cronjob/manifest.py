"""The vcjob that a CronJob creates for one time. Its name contains the minute, so that none is created twice."""

import copy
from datetime import datetime, tzinfo
from typing import Final

from scheduler.api.batch import CronJob, Job
from scheduler.api.kinds import CRON_JOB, VCJOB
from scheduler.api.names import CRONJOB_SCHEDULED_TIMESTAMP
from scheduler.api.times import parse_timestamp
from scheduler.controllers.effects import Json, RecordEvent, malformed
from scheduler.controllers.owners import owned

_MINUTE: Final = 60


def job_name(cron: CronJob, at: float) -> str:
    """``<cron job>-<minutes since the epoch>``."""
    return f"{cron.metadata.name}-{int(at) // _MINUTE}"


def scheduled_time(cron: CronJob, job: Job) -> float | None:
    """The time for which the CronJob made the job, in seconds since the epoch; None if it did not make it."""
    at = parse_timestamp((job.metadata.annotations or {}).get(CRONJOB_SCHEDULED_TIMESTAMP))
    return at if at is not None and job.metadata.name == job_name(cron, at) else None


def make_job(cron: CronJob, at: float, zone: tzinfo) -> tuple[Json, list[RecordEvent]]:
    """The job for a time, and what had to be left out. ``zone``: in which the time is written on it."""
    template = cron.spec.job_template
    events: list[RecordEvent] = []
    labels = _strings(cron, "labels", events)
    moment = datetime.fromtimestamp(at, zone).isoformat().replace("+00:00", "Z")
    annotations = _strings(cron, "annotations", events) | {CRONJOB_SCHEDULED_TIMESTAMP: moment}
    manifest = owned(VCJOB, job_name(cron, at), CRON_JOB, cron, spec=copy.deepcopy(template.spec))
    manifest["metadata"] |= {"annotations": annotations} | ({"labels": labels} if labels else {})
    return manifest, events


def _strings(cron: CronJob, field: str, events: list[RecordEvent]) -> dict[str, str]:
    """Labels or annotations of the template; values that are no text are reported and left out."""
    given = (cron.spec.job_template.metadata or {}).get(field)
    if given is None:
        return {}
    pairs = given if isinstance(given, dict) else {}
    kept = {key: value for key, value in pairs.items() if isinstance(value, str)}
    if pairs is not given or len(kept) < len(pairs):
        events.append(malformed(CRON_JOB, cron, f"spec.jobTemplate.metadata.{field}", "not all of it is text"))
    return kept
