"""Measures the processor time of our programs at rest: percent of one core while nothing happens in a full cluster.

A real API server is filled with nodes and running gangs. Scheduler, controllers and webhooks run with leader election,
as the chart starts them, but without probes and scrapes; kube-scheduler runs beside them. Prints a table; asserts
nothing.
"""

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.cluster import KUBE
from benchmarks.contest import peak_memory, running
from benchmarks.figures import report
from benchmarks.restart import fill_cluster
from controlplane.process import free_ports
from controlplane.run import ControlPlane

ELECTION: Final = ("--leader-elect-resource-namespace=default",)


def processor_time(pid: int) -> float:
    """The processor time of a process in seconds, to the nanosecond: at rest, a process uses fewer ticks than /proc
    counts."""
    return time.clock_gettime(~pid << 3 | 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before the measurement")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the measurement")
    arguments = parser.parse_args()
    console = Console(width=140)
    title = f"{arguments.nodes:,} nodes, {arguments.pods:,} running Pods, {arguments.jobs:,} jobs"
    table = Table("", "percent of a core", "peak memory", title=f"{title}: at rest, {arguments.seconds:g} s")
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        console.print(f"{title}: filling ...")
        fill_cluster(plane, arguments.nodes, arguments.pods, arguments.jobs)
        (port,) = free_ports(1)
        address = (f"--webhook-url=https://127.0.0.1:{port}", "--listen-address=127.0.0.1", f"--port={port}")
        roles = {"scheduler": ELECTION, "controllers": ELECTION, "webhooks": ("--webhook-namespace=default", *address)}
        pids = {role: stack.enter_context(running(role, plane, folder, *options)) for role, options in roles.items()}
        pids[KUBE] = plane.start_kube_scheduler().pid
        time.sleep(arguments.settle)
        begun, before = time.perf_counter(), {role: processor_time(pid) for role, pid in pids.items()}
        time.sleep(arguments.seconds)
        used = {role: processor_time(pid) - before[role] for role, pid in pids.items()}
        seconds = time.perf_counter() - begun
        for role, pid in pids.items():
            percent = 100 * used[role] / seconds
            if role != KUBE:
                report(f"{role}, of {KUBE}", used[role] / used[KUBE])
            table.add_row(role, f"{percent:.3f} %", f"{peak_memory(pid):.0f} MiB")
    console.print(table)


if __name__ == "__main__":
    main()
