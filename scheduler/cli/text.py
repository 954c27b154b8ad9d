"""Text for people: what may go to a terminal, its colours, and how old things are."""

import os
import sys
from collections.abc import Iterable
from datetime import datetime

import click

_COLOURS = {
    **dict.fromkeys(("Running", "Completed", "Succeeded", "Succeed", "Open"), "green"),
    **dict.fromkeys(("Pending", "Inqueue", "Restarting", "Completing", "Closing", "ContainerCreating"), "yellow"),
    **dict.fromkeys(("Failed", "Aborting", "Aborted", "Terminating", "Terminated", "Closed", "Unknown"), "red"),
}
_FORGIVEN = -2.0
"""Seconds that another machine's clock may be ahead of ours."""


def printable(text: object) -> str:
    """On one line and without control characters: what a server sends must not steer the terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def coloured() -> bool:
    """Whether standard output is a terminal that takes colours, and nobody asked for none (``NO_COLOR``)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_of(phase: str) -> str | None:
    """The colour of a phase or state."""
    return _COLOURS.get(phase)


def in_colour_of(phase: str, text: str) -> str:
    """The text as it is to be shown for that phase."""
    colour = colour_of(phase)
    return click.style(text, fg=colour) if colour and coloured() else text


def moment(time: str | None) -> float | None:
    """Seconds since the epoch of a time as Kubernetes writes it; None where there is none that can be read."""
    try:
        parsed = datetime.fromisoformat(time or "")
        return parsed.timestamp() if parsed.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None


def age(time: str | None, now: float) -> str:
    """How long ago, in kubectl's notation: two units at most, and coarser the longer it is."""
    since = moment(time)
    if since is None:
        return "<unknown>"
    seconds = int(now - since)
    if seconds <= _FORGIVEN:
        return "<invalid>"
    seconds = max(0, seconds)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, rest: str) -> str:
    return f"{large}{unit}{small}{rest}" if small else f"{large}{unit}"


def pairs(amounts: Iterable[tuple[str, object]]) -> str:
    """``cpu=4,memory=8Gi``; ``<none>`` for nothing."""
    return ",".join(f"{name}={value}" for name, value in amounts) or "<none>"
