"""The rows of ``make bench``, and the command of each row.

``python -m benchmarks.rows GROUP [ROW ...]`` runs the rows of a group, or some of them.
"""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

MEMORY, COMMANDS, CLUSTER, WORKLOADS, VCJOBS, CLAIMS = "memory", "commands", "cluster", "workloads", "vcjobs", "claims"


@dataclass(frozen=True)
class Row:
    """A benchmark with its arguments."""

    group: str
    module: str
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", f"benchmarks.{self.module}", *self.arguments]


ROWS: Final = {
    "sessions": Row(MEMORY, "memory"),
    "lone-sessions": Row(MEMORY, "lone_sessions"),
    "workloads-in-memory": Row(MEMORY, "workloads_memory"),
    "preemption": Row(MEMORY, "preemption"),
    "super-pods": Row(MEMORY, "super_pods"),
    "npu-families": Row(MEMORY, "npu_families"),
    "scale": Row(MEMORY, "scale", ("--sizes", "10000", "100000")),
    "shard-sessions": Row(MEMORY, "shard_sessions"),
    "commands": Row(COMMANDS, "commands"),
    "commands-live": Row(COMMANDS, "commands", ("--live",)),
    "bindings": Row(CLUSTER, "cluster"),
    "gangs-of-500": Row(CLUSTER, "cluster", ("--nodes", "1000", "--gang", "500")),
    "restart": Row(CLUSTER, "restart"),
    "restart-87000": Row(CLUSTER, "restart", ("--nodes", "5000", "--pods", "87000", "--jobs", "87000")),
    "restart-140000": Row(
        CLUSTER, "restart", ("--nodes", "5000", "--pods", "140000", "--jobs", "140000", "--rounds", "1")
    ),
    "rest": Row(CLUSTER, "rest"),
    "refused": Row(CLUSTER, "refused"),
    "shards": Row(CLUSTER, "shards"),
    "lone-pods": Row(CLUSTER, "lone_pods"),
    "lone-pods-large": Row(CLUSTER, "lone_pods", ("--nodes", "10000", "--running", "100000")),
    "lone-pods-100": Row(CLUSTER, "lone_pods", ("--rate", "100", "--pods", "1000")),
    "workloads": Row(WORKLOADS, "workloads", ("--markdown", "build/workloads.md", "--json", "build/workloads.json")),
    "vcjobs": Row(VCJOBS, "vcjobs"),
    "vcjobs-50": Row(VCJOBS, "vcjobs", ("--jobs", "100", "--replicas", "50")),
    "acjob": Row(VCJOBS, "vcjobs", ("--acjob", "--jobs", "128", "--replicas", "8", "--nodes", "100")),
    "rank-tables": Row(VCJOBS, "rank_tables"),
    "acjob-flow": Row(VCJOBS, "acjob_flow"),
    "claims": Row(CLAIMS, "claims", ("--markdown", "build/claims.md")),
}


def chosen(groups: list[str], names: list[str]) -> dict[str, Row]:
    """The rows of some groups, or with some names; all if neither is given."""
    if not groups and not names:
        return dict(ROWS)
    return {name: row for name, row in ROWS.items() if row.group in groups or name in names}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the choice of rows to the arguments of a program."""
    groups = sorted({row.group for row in ROWS.values()})
    parser.add_argument("--group", nargs="*", choices=groups, default=[], help="of rows")
    parser.add_argument("--row", nargs="*", choices=list(ROWS), default=[])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args()
    for row in chosen(arguments.group, arguments.row).values():
        subprocess.run(row.command, check=True)


if __name__ == "__main__":
    main()
