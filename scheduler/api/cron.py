"""Schedules as CronJobs write them: five fields, or a word like ``@daily``, or ``@every`` and a duration; and when they
fire. Moments are seconds since the epoch.

The notation is that of the library which Volcano and Kubernetes use (robfig/cron, its standard parser): a field is
``*`` or ``?``, numbers, names of months and days of the week, ranges and steps, joined by commas; ``TZ=<zone> `` or
``CRON_TZ=<zone> `` may stand before. Fields are compared with local time: a time that is skipped when daylight saving
time begins does not fire, and one that occurs twice when it ends fires twice.
"""

import math
import re
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from scheduler.api.times import DurationError, parse_duration

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MACROS: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_EVERY: Final = "@every "
_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S*)(?:\s+|$)")
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
"""The schedule has no time after this one, so that calendar arithmetic cannot overflow."""
_YEARS: Final = 5
"""Years after which a schedule without a time counts as never firing (as in robfig/cron)."""


class CronError(ValueError):
    """The text is not a schedule."""


class CronSchedule(msgspec.Struct, frozen=True):
    """A schedule that fires at the start of each minute that matches all fields."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    """The days of the month."""
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    any_day: bool = False
    """``days`` or ``weekdays`` allows all days, so both must match; otherwise one of them is enough."""
    every: float = 0.0
    """Period of ``@every`` in seconds, at least 1; 0 for a schedule with fields."""
    zone: tzinfo = UTC

    def next_after(self, moment: float) -> float | None:
        """Returns the first time after ``moment`` (``@every``: one period after it), or None if there is none within
        five years. Times are Unix seconds."""
        start = math.floor(moment)
        if not -_LATEST < start < _LATEST:
            return None
        if self.every:
            return start + self.every
        at = start // 60 * 60 + 60
        local = datetime.fromtimestamp(at, self.zone)
        last_year = local.year + _YEARS
        while local.year <= last_year:
            if not (minutes := self._minutes_to_skip(local)):
                return float(at)
            # Elapsed time equals local time, unless the UTC offset changes in between.
            ahead = datetime.fromtimestamp(at + 60 * minutes, self.zone)
            if ahead.utcoffset() != local.utcoffset():
                minutes, ahead = 1, datetime.fromtimestamp(at + 60, self.zone)
            at, local = at + 60 * minutes, ahead
        return None

    def last_until(self, moment: float, until: float) -> float | None:
        """Returns the last time after ``moment`` and not after ``until``, or None."""
        last = self.next_after(moment)
        if last is None or last > until:
            return None
        if self.every:
            return last + (until - last) // self.every * self.every
        reach = until
        while (soon := self.next_after(last)) is not None and soon <= until:
            middle = (soon + reach) / 2
            later = self.next_after(middle)
            if later is not None and later <= until:
                last = later
            else:
                last, reach = soon, middle
        return last

    def _minutes_to_skip(self, local: datetime) -> int:
        """Returns 0 if the schedule fires at ``local``, else a number of minutes within which it does not fire."""
        on_day, on_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        if local.month not in self.months or not (on_day and on_weekday if self.any_day else on_day or on_weekday):
            return 1440 - 60 * local.hour - local.minute
        if local.hour not in self.hours:
            return 60 - local.minute
        return 0 if local.minute in self.minutes else 1


def load_zone(name: str) -> tzinfo:
    """Returns a time zone of the IANA database; UTC for "" and ``Local``. Raises CronError."""
    if name in ("", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError):
        raise CronError(f"unknown time zone {name:.66}") from None


def parse_cron(text: str, zone: tzinfo = UTC) -> CronSchedule:
    """Parses a schedule. ``zone`` applies if the text names no time zone. Raises CronError with the problem."""
    named = _ZONE.match(text)
    if named is not None:
        try:
            zone = load_zone(named[1])
        except CronError as error:
            raise CronError(f"provided bad location {named[1]:.66}: {error}") from None
        text = text[named.end() :].strip()
    if text.startswith(_EVERY):
        try:
            return CronSchedule(every=max(1.0, float(int(parse_duration(text.removeprefix(_EVERY))))))
        except DurationError as error:
            raise CronError(f"{text!r:.66}: {error}") from None
    if text.startswith("@") and text not in _MACROS:
        raise CronError(f"{text!r:.66} is none of {', '.join(_MACROS)}, @every <duration>")
    fields = _MACROS.get(text, text).split()
    if len(fields) != 5:
        raise CronError(f"{text!r:.66} has {len(fields)} fields, not 5 (minute, hour, day, month, weekday)")
    minute, hour, day, month, weekday = fields
    days, any_day = _field(day, 1, 31)
    weekdays, any_weekday = _field(weekday, 0, 6, _WEEKDAYS)
    return CronSchedule(
        minutes=_field(minute, 0, 59)[0],
        hours=_field(hour, 0, 23)[0],
        days=days,
        months=_field(month, 1, 12, _MONTHS)[0],
        weekdays=weekdays,
        any_day=any_day or any_weekday,
        zone=zone,
    )


def _field(text: str, low: int, high: int, names: list[str] | None = None) -> tuple[frozenset[int], bool]:
    """Returns the numbers of a field, and whether it allows all numbers."""
    numbers: set[int] = set()
    everything = False
    parts = [part for part in text.split(",") if part]
    if not parts:
        raise CronError(f"{text!r:.66} holds nothing")
    for part in parts:
        span, *steps = part.split("/")
        if len(steps) > 1:
            raise CronError(f"{part!r:.66} has too many slashes")
        step = _number(steps[0]) if steps else 1
        ends = span.split("-")
        if len(ends) > 2:
            raise CronError(f"{part!r:.66} has too many hyphens")
        star = ends[0] in ("*", "?")
        first = low if star else _number(ends[0], low, names)
        last = high if star or (len(ends) == 1 and steps) else _number(ends[-1], low, names)
        if first < low or last > high:
            raise CronError(f"{part!r:.66} is not within {low} and {high}")
        if first > last:
            raise CronError(f"{part!r:.66} ends before it begins")
        if step == 0:
            raise CronError(f"{part!r:.66} has a step of 0")
        everything = everything or (star and step == 1)
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers), everything


def _number(text: str, low: int = 0, names: list[str] | None = None) -> int:
    """Returns a number from digits or a name. The first name means ``low``."""
    if names and text.lower() in names:
        return low + names.index(text.lower())
    if _NUMBER.fullmatch(text) is None:
        raise CronError(f"{text!r:.66} is not a number")
    return int(text)
