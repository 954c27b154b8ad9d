"""Revocable zones and the hours of the day in which their nodes may be used."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

_HOURS: Final = re.compile(r"\s*([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])\s*")
_MINUTE: Final = 60
_DAY: Final = 24 * 60 * _MINUTE


class HoursError(ValueError):
    """The text is not ``HH:MM-HH:MM``."""


class Hours(msgspec.Struct, frozen=True):
    """A daily time interval."""

    text: str
    start: int
    """Seconds since midnight."""
    end: int
    """Seconds since midnight; on the next day if not after ``start``."""

    def contains(self, moment: float) -> bool:
        """Whether the interval contains a Unix time, in the local time zone of this process."""
        local = datetime.fromtimestamp(moment)
        second = (local.hour * 60 + local.minute) * _MINUTE + local.second
        length = (self.end - self.start - 1) % _DAY + 1
        return (second - self.start) % _DAY <= length


def parse_hours(text: str) -> Hours:
    """Parses ``HH:MM-HH:MM``. Raises HoursError."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise HoursError(f"not hours of a day as HH:MM-HH:MM: {text!r:.66}")
    hour, minute, last_hour, last_minute = (int(part) for part in match.groups())
    return Hours(text, (hour * 60 + minute) * _MINUTE, (last_hour * 60 + last_minute) * _MINUTE)


class Zones:
    """The configured zones at one time."""

    def __init__(self, hours: Mapping[str, Hours], now: float) -> None:
        self._hours = hours
        self._active = {name: span.contains(now) for name, span in hours.items()}

    def active(self, zone: str) -> bool:
        return self._active.get(zone, False)

    def inactive(self, zone: str) -> bool:
        """Whether the zone is configured and its nodes may not be used now."""
        return not self._active.get(zone, True)

    def closed_reason(self, zone: str) -> str:
        """Returns why nodes of the zone may not be used now; "" if they may."""
        span = self._hours.get(zone)
        if span is None:
            return f"revocable zone {zone} not support"
        return "" if self._active[zone] else f"current time beyond revocable zone {zone}:{span.text}"
