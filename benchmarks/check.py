"""Compares the figures of the benchmarks with the recorded figures, and fails on a loss of more than 15 %.

A benchmark with a loss runs again, twice at most, and the best of its figures count: other programs on the machine make
figures worse, and never better. ``--record`` records the figures instead.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.figures import FILE, Figure, reported
from benchmarks.rows import ROWS, Row, add_arguments, chosen

RECORDED: Final = Path(__file__).parent / "recorded.json"
LIMIT: Final = 0.15
RUNS: Final = 3
Figures = Mapping[str, Figure]
"""The figures of one benchmark, by name."""


class Change(NamedTuple):
    """A figure now, and when it was recorded."""

    name: str
    before: Figure | None
    now: Figure | None

    @property
    def loss(self) -> float:
        """The part by which the figure is worse; negative if it is better."""
        if self.before is None or self.now is None or not self.before.value or not self.now.value:
            return 0.0
        if self.now.higher_is_better:
            return self.before.value / self.now.value - 1
        return self.now.value / self.before.value - 1


def changes(before: Figures, now: Figures) -> list[Change]:
    """The figures of a benchmark, in the order in which they were recorded, then those that are new."""
    return [Change(name, before.get(name), now.get(name)) for name in {**before, **now}]


def is_lost(change: Change) -> bool:
    """Whether the figure has become worse by more than the limit, or is no longer reported."""
    return change.loss > LIMIT or (change.before is not None and change.now is None)


def best(first: Figures, second: Figures) -> dict[str, Figure]:
    """The better of two figures with the same name."""
    found = {**first, **second}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        found[name] = max(one, other, key=lambda figure: figure.value * (1 if figure.higher_is_better else -1))
    return found


def measured(row: Row) -> dict[str, Figure]:
    """Runs a benchmark. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures"
        subprocess.run(row.command, check=True, env={**os.environ, FILE: str(path)})
        return {figure.name: figure for figure in reported(path)}


def recorded() -> dict[str, dict[str, Figure]]:
    if not RECORDED.exists():
        return {}
    rows = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, list[Figure]])
    return {name: {figure.name: figure for figure in figures} for name, figures in rows.items()}


def write(rows: Mapping[str, Figures]) -> None:
    """Records the figures of benchmarks."""
    ordered = {
        name: [msgspec.structs.replace(figure, value=float(f"{figure.value:.4g}")) for figure in rows[name].values()]
        for name in ROWS
        if name in rows
    }
    RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")


def lines(name: str, found: list[Change]) -> Iterator[list[str]]:
    for change in found:
        values = (f"{figure.value:,.3g}" if figure is not None else "-" for figure in (change.before, change.now))
        compared = change.before is not None and change.now is not None
        better = change.now is not None and change.now.higher_is_better
        text = f"{-change.loss if better else change.loss:+.0%}" if compared else ""
        yield [name, change.name, *values, text, "LOST" if is_lost(change) else ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--record", action="store_true", help="record the figures instead of comparing them")
    arguments = parser.parse_args()
    before, now = recorded(), dict[str, dict[str, Figure]]()
    for name, row in chosen(arguments.group, arguments.row).items():
        now[name] = measured(row)
        for _ in range(RUNS - 1):
            if not arguments.record and any(is_lost(change) for change in changes(before.get(name, {}), now[name])):
                now[name] = best(now[name], measured(row))
    if arguments.record:
        write({**before, **now})
        return 0
    table = Table(title="Figures, recorded and now", title_justify="left")
    for column in ("benchmark", "figure", "recorded", "now", "change", ""):
        table.add_column(column, justify="right" if column in ("recorded", "now", "change") else "left")
    for name, figures in now.items():
        for line in lines(name, changes(before.get(name, {}), figures)):
            table.add_row(*line)
    Console(width=150).print(table)
    lost = [name for name, figures in now.items() if any(map(is_lost, changes(before.get(name, {}), figures)))]
    if lost:
        print(f"lost more than {LIMIT:.0%}: {', '.join(lost)} (make profile ROW={lost[0]} shows where the time goes)")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
