"""``volcano-py replay``: decides recorded sessions again and compares the decisions."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn

from scheduler.api.printable import printable
from scheduler.cli.output import JSON, TABLE, YAML, Column, RowTable, output_option, print_object
from scheduler.cli.plugins import with_plugins
from scheduler.cli.text import echo
from scheduler.record.frames import RecordingError
from scheduler.record.journal import SUFFIX
from scheduler.record.replay import Replayed, replay

DIFFERS, BAD_INPUT = 1, 2
_SHOWN = 20
"""The number of differences of one session that are printed."""


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@with_plugins
@output_option(TABLE, JSON, YAML)
def replay_command(paths: Sequence[Path], output: str) -> None:
    """Replay sessions that a scheduler recorded with --record, and print decisions that differ.

    PATH is a recording, or a directory of recordings. Each file is replayed on its own, up to the first session that
    differs: later sessions follow from its decisions.

    Exit codes: 0 no difference, 1 a difference, 2 not a recording.
    """
    try:
        reports = [_report(path) for path in _files(paths)]
    except RecordingError as error:
        echo(f"error: {error}", err=True)
        sys.exit(BAD_INPUT)
    if output == TABLE:
        for line in RowTable(_COLUMNS).lines(reports):
            echo(line)
        for report in reports:
            _print_difference(report)
    else:
        print_object({"apiVersion": "v1", "kind": "List", "items": reports}, output)
    sys.exit(DIFFERS if any(report["differs"] for report in reports) else 0)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files of the paths. Raises RecordingError for a directory without recordings."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.glob(f"*{SUFFIX}"))
        if not found:
            raise RecordingError(f"{path}: no {SUFFIX} file in it")
        yield from found


def _report(path: Path) -> dict[str, Any]:
    """Replays one file."""
    report: dict[str, Any] = {"file": str(path), "sessions": 0, "bindings": 0, "evictions": 0, "differs": None}
    columns = SpinnerColumn(), TextColumn("{task.description}: {task.completed:.0f} sessions", markup=False)
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(printable(path))
        for session in replay(path):
            progress.advance(task)
            report["sessions"] += 1
            if session.recorded is not None:
                report["bindings"] += len(session.recorded.binds)
                report["evictions"] += len(session.recorded.evictions)
            if not session.same or session.error:
                report["differs"] = _difference(session)
    return report


def _difference(session: Replayed) -> dict[str, Any]:
    return {
        "session": session.number,
        "time": datetime.fromtimestamp(session.now, UTC).isoformat(timespec="milliseconds"),
        "error": session.error,
        "recorded": session.recorded is not None,
        "differences": [
            {"field": field, "name": name, "recorded": recorded, "now": now}
            for field, name, recorded, now in session.differences
        ],
    }


def _outcome(report: dict[str, Any]) -> str:
    differs = report["differs"]
    if not differs:
        return "same"
    return f"session {differs['session']} fails" if differs["error"] else f"session {differs['session']} differs"


_COLUMNS: list[Column[dict[str, Any]]] = [
    Column("FILE", lambda report: report["file"]),
    Column("SESSIONS", lambda report: report["sessions"]),
    Column("BINDINGS", lambda report: report["bindings"]),
    Column("EVICTIONS", lambda report: report["evictions"]),
    Column("OUTCOME", _outcome),
]


def _print_difference(report: dict[str, Any]) -> None:
    differs = report["differs"]
    if not differs:
        return
    echo()
    echo(f"{report['file']}: session {differs['session']} of {differs['time']}")
    if differs["error"]:
        echo(f"  {differs['error']}" + ("" if differs["recorded"] else " (as when it was recorded)"))
    found = differs["differences"]
    for entry in islice(found, _SHOWN):
        was, now = entry["recorded"] or "nothing", entry["now"] or "nothing"
        echo(f"  {entry['field']} {entry['name']}: {was}; now {now}")
    if len(found) > _SHOWN:
        echo(f"  and {len(found) - _SHOWN} more (-o json shows all)")
