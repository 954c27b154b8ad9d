"""Decides whether a CronJob starts a job now, and which jobs it replaces.

Of several missed times of the schedule, only the last is made up for. Their number is estimated from the first two, as
Volcano and Kubernetes do.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.batch import CronJob, Job, ObjectReference
from scheduler.api.cron import CronError, CronSchedule, load_zone, parse_cron
from scheduler.api.kinds import CRON_JOB
from scheduler.api.names import (
    EVENT_FORBID_CONCURRENT,
    EVENT_INVALID_SCHEDULE,
    EVENT_INVALID_TIME_ZONE,
    EVENT_REPLACE_CONCURRENT,
    EVENT_TOO_MANY_MISSED_TIMES,
    EVENT_UNPARSEABLE_SCHEDULE,
    EVENT_UNSUPPORTED_SCHEDULE,
)
from scheduler.api.times import parse_timestamp
from scheduler.controllers.cronjob.summary import JobSummary, job_name, make_job
from scheduler.controllers.effects import Json, RecordEvent, malformed, warning
from scheduler.controllers.owners import foreign_job, manages

MANY: Final = 100
"""Missed times above which a warning is recorded."""


class Due(msgspec.Struct, frozen=True):
    """The result of comparing a schedule with the clock. Times are in seconds since the epoch."""

    at: float | None
    """The time for which a job is due now."""
    next: float | None
    """When to check again."""
    many: bool = False
    """Many times were missed."""


def find_due(schedule: CronSchedule, since: float, floor: float, now: float) -> Due:
    """The time for which a job is due. ``since``: the time of the last job, or of the creation of the CronJob.
    ``floor``: missed times up to this one are not made up for. Raises CronError for a schedule that never comes up."""
    first = schedule.next_after(since)
    if first is None:
        raise CronError("time difference between two schedules is less than 1 second")
    recent = schedule.last_until(since, now)
    if recent is None:
        return Due(None, first)
    next_time = schedule.next_after(recent)
    if recent <= floor:
        return Due(None, next_time)
    return Due(recent, next_time, _missed(schedule, max(since, floor), now) > MANY)


def _missed(schedule: CronSchedule, since: float, now: float) -> float:
    first = schedule.next_after(since)
    second = None if first is None else schedule.next_after(first)
    if first is None or second is None:
        return 1
    return (now - first) // (second - first) + 1


ALLOW: Final = "Allow"
FORBID: Final = "Forbid"
REPLACE: Final = "Replace"
_ZONE_WRITTEN: Final = "TZ"
_TOO_MANY: Final = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(slots=True)
class Start:
    """The decision whether a CronJob starts a job."""

    events: list[RecordEvent] = field(default_factory=list)
    next: float | None = None
    """When to decide again, in seconds since the epoch; None: when the CronJob or its jobs change."""
    replaced: list[ObjectReference] = field(default_factory=list)
    """Jobs to delete first."""
    manifest: Json | None = None
    """The job to create."""


def decide_start(
    cron: CronJob, summary: JobSummary, find: Callable[[str], Job | None], changed: float | None, now: float
) -> Start:
    """Decides whether a job starts now. ``find``: returns a job of the CronJob's namespace by name. ``changed``: when
    the schedule was last seen to change; the new schedule counts from then on."""
    start = Start()
    if cron.spec.suspend:
        return start
    schedule = _schedule(cron, start)
    due = None if schedule is None else _due(cron, schedule, summary, changed, now, start)
    if due is None:
        return start
    start.next = due.next
    if due.at is None:
        return start
    if due.many:
        start.events.append(warning(CRON_JOB, cron, EVENT_TOO_MANY_MISSED_TIMES, _TOO_MANY))
    namesake = find(job_name(cron, due.at))
    if namesake is not None:
        if not manages(cron, namesake):  # else the job for this time was created before
            start.events.append(foreign_job(CRON_JOB, cron, namesake))
    elif _has_room(cron, summary, start):
        start.manifest, left_out = make_job(cron, due.at, load_zone(cron.spec.time_zone or ""))
        start.events += left_out
    return start


def _schedule(cron: CronJob, start: Start) -> CronSchedule | None:
    """The parsed schedule; None, after an Event with the reason, if it cannot be used."""
    text, name = cron.spec.schedule, cron.spec.time_zone or ""
    try:
        zone = load_zone(name)
    except CronError as error:
        message = f"Invalid time zone {_quoted(name)}: {error}"
        start.events.append(warning(CRON_JOB, cron, EVENT_INVALID_TIME_ZONE, message))
        return None
    if _ZONE_WRITTEN in text:
        message = (
            f"CRON_TZ or TZ in the schedule {_quoted(text)} is not officially supported. "
            "If set, the TimeZone field will be ignored during execution."
        )
        start.events.append(warning(CRON_JOB, cron, EVENT_UNSUPPORTED_SCHEDULE, message))
    try:
        return parse_cron(text, zone)
    except CronError:
        message = f"unparseable schedule for cronjob: {text}"
        start.events.append(warning(CRON_JOB, cron, EVENT_UNPARSEABLE_SCHEDULE, message))
        return None


def _due(
    cron: CronJob, schedule: CronSchedule, summary: JobSummary, changed: float | None, now: float, start: Start
) -> Due | None:
    """The due time; None, after an Event with the reason, if the schedule never comes up."""
    created = parse_timestamp(cron.metadata.creation_timestamp)
    since = next((at for at in (summary.last_schedule, created) if at is not None), now)
    deadline = cron.spec.starting_deadline_seconds
    floors = (changed, None if deadline is None else now - deadline)
    try:
        return find_due(schedule, since, max((f for f in floors if f is not None), default=since), now)
    except CronError as error:
        message = f"Error getting schedule time: {error}"
        start.events.append(warning(CRON_JOB, cron, EVENT_INVALID_SCHEDULE, message))
        return None


def _has_room(cron: CronJob, summary: JobSummary, start: Start) -> bool:
    """Whether a job may start beside the running jobs, or once they are replaced."""
    policy = cron.spec.concurrency_policy
    if policy not in (ALLOW, FORBID, REPLACE):
        problem = f"{policy!r:.66} is none of {ALLOW}, {FORBID}, {REPLACE}, so jobs may overlap"
        start.events.append(malformed(CRON_JOB, cron, "spec.concurrencyPolicy", problem))
    if policy == FORBID and summary.active:
        message = "Skipping job creation because another job is already running"
        start.events.append(warning(CRON_JOB, cron, EVENT_FORBID_CONCURRENT, message))
        return False
    if policy == REPLACE and summary.active:
        message = "Replacing active job for CronJob"
        start.events.append(warning(CRON_JOB, cron, EVENT_REPLACE_CONCURRENT, message))
        start.replaced = list(summary.active)
    return True


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
