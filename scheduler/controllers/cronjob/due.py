"""Whether a job of a CronJob is due: the last time of its schedule, if no job was created for that yet.

Of several missed times, only the last is made up for. Their number is estimated from the first two, as
Volcano and Kubernetes do.
"""

from typing import Final

import msgspec

from scheduler.api.cron import CronError, CronSchedule

MANY: Final = 100
"""Missed times above which a warning is recorded."""


class Due(msgspec.Struct, frozen=True):
    """Moments are in seconds since the epoch."""

    at: float | None
    """The time for which a job is due now."""
    next: float | None
    """When to check again."""
    many: bool = False
    """Many times were missed."""


def find_due(schedule: CronSchedule, since: float, floor: float, now: float) -> Due:
    """``since``: the time of the last job, or when the CronJob was made. ``floor``: what came up until then is not made
    up for. Raises CronError for a schedule that never comes up."""
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
