"""Durations as Go writes them: ``30s``, ``5m``, ``1h30m``, ``1.5h``."""

import re
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("1e-9"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "μs": Decimal("1e-6"), "ms": Decimal("1e-3"),
    "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600),
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST: Final = Decimal(2**63 - 1) / 10**9


class DurationError(ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> float:
    """Seconds. Raises DurationError when the text is not a Go duration, or one of more than 292 years."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    seconds, end = Decimal(0), 0
    while part := _PART.match(rest, end):
        seconds += Decimal(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not end or end != len(rest):
        raise DurationError(f"not a duration: {text!r:.66}")
    if seconds > _LONGEST:
        raise DurationError(f"longer than 292 years: {text!r:.66}")
    return sign * float(seconds)


def format_duration(seconds: float) -> str:
    """As Go prints it: ``1h0m0s``, ``10m0s``, ``1.5s``, ``100ms``, ``0s``; to a thousandth of a second."""
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
