"""Text for people: how it gets to the terminal, its colours, and how old things are.

Commands write through ``echo`` and nothing else, so that no command can forget that what it shows was written by
others.
"""

import os
import secrets
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from scheduler.api.printable import escaped, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_COLOURS = {
    **dict.fromkeys(("Running", "Completed", "Succeeded", "Succeed", "Open"), "green"),
    **dict.fromkeys(("Pending", "Inqueue", "Restarting", "Completing", "Closing", "ContainerCreating"), "yellow"),
    **dict.fromkeys(("Failed", "Aborting", "Aborted", "Terminating", "Terminated", "Closed", "Unknown"), "red"),
}
_FORGIVEN = -2.0
"""Seconds that another machine's clock may be ahead of ours."""


_MARK: Final = f"\ufdd0{secrets.token_hex(8)}"
"""Begins the code of a style; text of others cannot hold it, since it is another one in every process."""
_END_OF_MARK: Final = "\ufdd1"
_CODES: Final = {
    **{name: str(code) for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), 31)},
    **{f"bright_{name}": str(code) for code, name in enumerate(("blue", "magenta", "cyan"), 94)},
}


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line, ``printable`` but for the styles of ``styled``. ``err``: on standard error."""
    first, *styles = line.split(_MARK)
    shown = [printable(first)]
    for style in styles:
        code, _, text = style.partition(_END_OF_MARK)
        shown += [f"\x1b[{code}m", printable(text)]
    click.echo("".join(shown), err=err)


def echo_document(document: str, *, json: bool) -> None:
    """Print a document in JSON, or in YAML that has all but visible characters in double quotes."""
    click.echo(escaped(document, json=json), nl=False)


def echo_log(prefix: str, lines: Sequence[bytes]) -> None:
    """Print lines of a log, each behind ``prefix``: on a terminal like any other text, elsewhere as they are."""
    if on_terminal():
        for line in lines:
            echo(prefix + line.decode("utf-8", "replace"))
    else:
        start = prefix.encode()
        sys.stdout.buffer.write(b"".join(start + line + b"\n" for line in lines))
    sys.stdout.flush()


def styled(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """Text for ``echo``, in a colour or bold if standard output takes colours."""
    codes = ([_CODES[colour]] if colour else []) + (["1"] if bold else [])
    if not codes or not coloured():
        return text
    return f"{_MARK}{';'.join(codes)}{_END_OF_MARK}{text}{_MARK}0{_END_OF_MARK}"


def console() -> "Console":
    """Where tables and live views of ``rich`` are drawn, of ``cell`` and of text that is ours."""
    from rich.console import Console

    return Console(no_color=not coloured(), highlight=False, markup=False, emoji=False)


def cell(text: object, style: str = "") -> "Text":
    """A cell of them, ``printable`` and without markup."""
    from rich.text import Text

    return Text(printable(text), style)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def coloured() -> bool:
    """Whether standard output is a terminal that takes colours, and nobody asked for none (``NO_COLOR``)."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_of(phase: str) -> str | None:
    """The colour of a phase or state."""
    return _COLOURS.get(phase)


def in_colour_of(phase: str, text: str) -> str:
    """The text as it is to be shown for that phase."""
    return styled(text, colour_of(phase))


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
