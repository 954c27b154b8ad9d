"""Figures of benchmarks that can be compared between machines and days.

A benchmark reports ratios: to kube-scheduler or to a bare loop in the same run, or to the processor time that this
machine needs for a fixed piece of work (``report_time``). Memory and numbers of requests are reported unchanged.
``benchmarks.check`` compares the figures with those in ``recorded.json``.
"""

import json
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

FILE: Final = "BENCHMARK_FIGURES"
"""Environment variable: the file to which figures are appended. Without it, they are not kept."""


class Figure(msgspec.Struct, frozen=True):
    name: str
    value: float
    higher_is_better: bool = False


def report(name: str, value: float, *, higher_is_better: bool = False) -> None:
    """Keeps a figure, if ``benchmarks.check`` runs the benchmark. ``name``: unique within the benchmark."""
    path = os.environ.get(FILE)
    if path:
        with Path(path).open("ab") as file:
            file.write(msgspec.json.encode(Figure(name, value, higher_is_better)) + b"\n")


def reported(path: Path) -> Iterator[Figure]:
    """Reads the figures that a benchmark has reported."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        yield msgspec.json.decode(line, type=Figure)


def report_time(name: str, seconds: float) -> None:
    """Keeps a processor time, divided by the time that this machine needs for a fixed piece of work."""
    if os.environ.get(FILE):
        report(name, seconds / _unit())


@cache
def _unit() -> float:
    return min(_piece_of_work() for _ in range(5))


def _piece_of_work() -> float:
    """The processor seconds for the operations that a scheduler mostly does: objects in dictionaries, JSON, columns."""
    begun = time.process_time()
    objects = {
        f"default/pod-{i}": {"name": f"pod-{i}", "cpu": i % 64, "labels": {"app": str(i % 100)}} for i in range(40_000)
    }
    decoded = msgspec.json.decode(json.dumps(list(objects.values())))
    by_app: dict[str, list[int]] = {}
    for each in decoded:
        by_app.setdefault(each["labels"]["app"], []).append(each["cpu"])
    columns = np.tile(np.arange(10_000, dtype=np.float64), (20, 1))
    for values in by_app.values():
        columns[:, values] -= 1.0
        np.argsort(columns.sum(axis=0), kind="stable")
    return time.process_time() - begun
