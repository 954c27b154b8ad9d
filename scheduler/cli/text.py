"""Text for people: printing to the terminal, colours, ages of objects.

Commands print with the functions of this module only, because they show text that users of the cluster wrote: control
characters in it must not reach the terminal.
"""

import os
import secrets
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from scheduler.api.printable import escaped, printable

_COLOURS = {
    **dict.fromkeys(("Running", "Completed", "Succeeded", "Succeed", "Open"), "green"),
    **dict.fromkeys(("Pending", "Inqueue", "Restarting", "Completing", "Closing", "ContainerCreating"), "yellow"),
    **dict.fromkeys(("Failed", "Aborting", "Aborted", "Terminating", "Terminated", "Closed", "Unknown"), "red"),
}
_CLOCK_SKEW = -2.0
"""The least age in seconds that counts as 0: the clock of another machine may be ahead of ours."""


_MARK: Final = f"\ufdd0{secrets.token_hex(8)}"
"""Begins the code of a style. It is random in every process, so text of other origin cannot contain it."""
_END_OF_MARK: Final = "\ufdd1"
_CODES: Final = {
    **{name: str(code) for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), 31)},
    **{f"bright_{name}": str(code) for code, name in enumerate(("blue", "magenta", "cyan"), 94)},
}


def echo(line: str = "", *, err: bool = False) -> None:
    """Prints one line: ``printable``, except for the styles that ``styled`` adds. ``err``: on standard error."""
    click.echo(rendered(line), err=err)


def echo_tabbed(line: str) -> None:
    """Prints one line in which tabs separate labels from values, each part as ``echo`` prints it."""
    click.echo("\t".join(map(printable, line.split("\t"))))


def rendered(line: str) -> str:
    """The characters that ``echo`` prints for a line."""
    first, *styles = line.split(_MARK)
    shown = [printable(first)]
    for style in styles:
        code, _, text = style.partition(_END_OF_MARK)
        shown += [f"\x1b[{code}m", printable(text)]
    return "".join(shown)


def flush() -> None:
    """Writes what is printed and still buffered. Raises OSError, ValueError."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def draw(text: str) -> None:
    """Writes control sequences of a live view, and lines that are ``rendered``."""
    sys.stdout.write(text)
    sys.stdout.flush()


def echo_document(document: str, *, json: bool) -> None:
    """Prints a document in JSON or YAML, with characters that are not printable escaped."""
    click.echo(escaped(document, json=json), nl=False)


def echo_log(prefix: str, lines: Sequence[bytes]) -> None:
    """Prints lines of a log, each after ``prefix``: escaped on a terminal, else unchanged."""
    if on_terminal():
        for line in lines:
            echo(prefix + line.decode("utf-8", "replace"))
    else:
        start = prefix.encode()
        sys.stdout.buffer.write(b"".join(start + line + b"\n" for line in lines))
    sys.stdout.flush()


def styled(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """Returns text for ``echo``: in a colour or bold if colours are enabled."""
    codes = ([_CODES[colour]] if colour else []) + (["1"] if bold else [])
    if not codes or not colours_enabled():
        return text
    return f"{_MARK}{';'.join(codes)}{_END_OF_MARK}{text}{_MARK}0{_END_OF_MARK}"


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def colours_enabled() -> bool:
    """Whether standard output is a terminal with colours, and ``NO_COLOR`` is not set."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_of(phase: str) -> str | None:
    """The colour of a phase or state."""
    return _COLOURS.get(phase)


def coloured_by_phase(phase: str, text: str) -> str:
    """The text in the colour of a phase."""
    return styled(text, colour_of(phase))


def timestamp(time: str | None) -> float | None:
    """Seconds since the epoch of a time in Kubernetes' format; None if it is missing or malformed."""
    try:
        parsed = datetime.fromisoformat(time or "")
        return parsed.timestamp() if parsed.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None


def local_time(time: str | None, form: str) -> str:
    """A time in Kubernetes' format as one of the local time zone, in a format of ``strftime``; "" if it is missing or
    malformed."""
    since = timestamp(time)
    return "" if since is None else datetime.fromtimestamp(since, UTC).astimezone().strftime(form)


def age(time: str | None, now: float) -> str:
    """The time since ``time`` in kubectl's notation: two units at most, and the coarser the longer it is."""
    since = timestamp(time)
    if since is None:
        return "<unknown>"
    return duration(now - since)


def duration(amount: float) -> str:
    """Seconds in kubectl's notation."""
    seconds = int(amount)
    if seconds <= _CLOCK_SKEW:
        return "<invalid>"
    seconds = max(0, seconds)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(large: int, unit: str, small: int, rest: str) -> str:
    return f"{large}{unit}{small}{rest}" if small else f"{large}{unit}"


def pairs(amounts: Iterable[tuple[str, object]]) -> str:
    """Formats amounts as ``cpu=4,memory=8Gi``; no amounts as ``<none>``."""
    return ",".join(f"{name}={value}" for name, value in amounts) or "<none>"
