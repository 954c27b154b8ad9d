"""Shows where a benchmark and the programs that it starts spend their time.

py-spy samples all Python processes and threads. Prints the functions with the most samples, without and with the
functions that they call, and keeps the stacks for a viewer of flame graphs (https://www.speedscope.app reads the file).
"""

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.rows import ROWS

SHOWN = 30


def functions(stacks: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Maps each function to its own samples, and to its samples including the functions that it calls. ``stacks``:
    ``outer;inner 12``."""
    own, total = Counter[str](), Counter[str]()
    for line in stacks:
        stack, _, number = line.rpartition(" ")
        frames = stack.split(";")
        own[frames[-1]] += int(number)
        for frame in set(frames):
            total[frame] += int(number)
    return own, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--sampler", default="py-spy", help="path of py-spy")
    parser.add_argument("--rate", type=int, default=200, help="samples per second")
    arguments = parser.parse_args()
    path = Path("build") / f"profile-{arguments.row}.txt"
    path.parent.mkdir(exist_ok=True)
    sampler = [arguments.sampler, "record", "--subprocesses", "--rate", str(arguments.rate), "--function"]
    sampler += ["--format", "raw", "--output", str(path), "--", *ROWS[arguments.row].command]
    subprocess.run(sampler, check=True)
    own, total = functions(path.read_text(encoding="utf-8").splitlines())
    samples = sum(own.values()) or 1
    for title, counts in (("own time", own), ("with what it calls", total)):
        table = Table(title=f"{arguments.row}: {title}", title_justify="left")
        table.add_column("share", justify="right")
        table.add_column("function")
        for function, number in counts.most_common(SHOWN):
            table.add_row(f"{number / samples:.1%}", function)
        Console(width=150).print(table)
    print(f"stacks: {path}")


if __name__ == "__main__":
    main()
