"""Timestamps as Kubernetes writes them, and durations as Go writes them."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

from scheduler.api.text_cache import cache_texts


def format_timestamp(seconds: float) -> str:
    """Formats Unix seconds as ``2026-01-31T09:00:00Z``. Fractions of a second are dropped."""
    return _formatted(int(seconds))


@lru_cache(maxsize=64)
def _formatted(seconds: int) -> str:
    """A session writes the same time to many objects."""
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}Z"  # strftime takes ten times as long


def parse_timestamp(text: str | None) -> float | None:
    """Returns Unix seconds, or None if the text is missing or malformed. A time without a zone is in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


@cache_texts(4096)
def seconds_of(timestamp: str | None) -> float:
    """Unix seconds; 0 if the timestamp is missing or malformed. Objects that were created together share it."""
    return parse_timestamp(timestamp) or 0.0


def seconds_left(due: float, now: float, pause: float) -> float:
    """Returns the seconds until the end of a pause of ``pause`` seconds that ends at ``due``; 0 if it is over. A pause
    of which more is left than its length is over as well: the clock was set back since it began."""
    left = due - now
    return left if 0 < left <= pause + 1.0 else 0.0


_UNITS: Final = {
    "ns": Decimal("1e-9"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "μs": Decimal("1e-6"), "ms": Decimal("1e-3"),
    "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600),
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_MAX_SECONDS: Final = Decimal(2**63 - 1) / 10**9


class DurationError(ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> float:
    """Returns seconds. Raises DurationError if the text is not a Go duration (``1h30m``, ``1.5h``), or is longer than
    292 years."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    seconds, end = Decimal(0), 0
    while part := _PART.match(rest, end):
        seconds += Decimal(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not end or end != len(rest):
        raise DurationError(f"not a duration: {text!r:.66}")
    if seconds > _MAX_SECONDS:
        raise DurationError(f"longer than 292 years: {text!r:.66}")
    return sign * float(seconds)


def format_duration(seconds: float) -> str:
    """Formats seconds as Go does: ``1h0m0s``, ``10m0s``, ``1.5s``, ``100ms``, ``0s``. Rounded to milliseconds."""
    milli = round(abs(seconds) * 1000)
    sign = "-" if seconds < 0 and milli else ""
    if 0 < milli < 1000:
        return f"{sign}{milli}ms"
    minutes, rest = divmod(milli, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text
