"""Measures one, two and four schedulers on one real API server: bindings per second, and whether a Pod is placed twice.

Each number of schedulers gets a new kube-apiserver and etcd with the same nodes, queues and Pods, all created before
they start. Every scheduler has the same number of nodes and queues. The result is the time from the first binding to
the last, as a watch receives them. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import re
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import OURS, PODS, SCHEDULER_NAMES, node_bodies, pod_bodies
from benchmarks.contest import TIMEOUT, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.kinds import NODE_SHARD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import SHARD_QUEUES

NUMBERS = (1, 2, 4)
QUEUES = 8


class Measured(msgspec.Struct):
    """The result with one number of schedulers."""

    schedulers: int
    times: list[float]
    """The time when each Pod was seen bound."""
    tried: int
    """The placements that the schedulers decided."""
    failed: int
    """The bindings that the API server refused."""
    cpu: float
    memory: float
    """The peak memory of the largest scheduler, in MiB."""

    @property
    def rate(self) -> float:
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


def body(kind: Kind, name: str, **parts: Any) -> bytes:
    metadata = {"name": name, **parts.pop("metadata", {})}
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **parts})


def division(schedulers: int, nodes: int) -> Iterable[tuple[str, bytes]]:
    """The queues, and a NodeShard for each scheduler."""
    for i in range(QUEUES):
        yield QUEUE.path, body(QUEUE, f"q{i}", spec={"weight": 1})
    for i in range(schedulers):
        queues = {SHARD_QUEUES: ",".join(f"q{queue}" for queue in range(i, QUEUES, schedulers))}
        mine = [f"node-{node:05d}" for node in range(i, nodes, schedulers)]
        yield NODE_SHARD.path, body(NODE_SHARD, f"s{i}", metadata={"annotations": queues}, spec={"nodesDesired": mine})


def group_bodies(pods: int, gang: int) -> Iterable[tuple[str, bytes]]:
    for i in range(pods // gang):
        group = body(POD_GROUP, f"job-{i:04d}", spec={"minMember": gang, "queue": f"q{i % QUEUES}"})
        yield POD_GROUP.path_in("default"), group


def attempts(port: int) -> dict[str, int]:
    """Maps each result to the number of Pods, from the metrics of one scheduler."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    found = re.findall(r'^volcano_schedule_attempts_total\{result="(\w+)"\} (\S+)$', page, re.MULTILINE)
    return {result: int(float(number)) for result, number in found}


async def run(schedulers: int, arguments: argparse.Namespace) -> Measured:
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, ControlPlane(logs=Path(folder)) as plane, ExitStack() as stack:
        plane.apply_crds()
        async with Api.of(plane) as api:
            await api.post_all(node_bodies(arguments.nodes))
            await api.post_all(division(schedulers, arguments.nodes))
            await api.post_all(group_bodies(arguments.pods, arguments.gang))
            await api.post_all(pod_bodies(arguments.pods, arguments.gang, SCHEDULER_NAMES[OURS]))
            ready = asyncio.Event()
            watcher = asyncio.create_task(api.watch_bindings(PODS, lambda name: True, arguments.pods, times, ready))
            await ready.wait()
            await asyncio.sleep(2)
            ports, pids = free_ports(schedulers), []
            for i, port in enumerate(ports):
                options = ["--leader-elect=false", "--enable-metrics=true", f"--listen-address=127.0.0.1:{port}"]
                if schedulers > 1:
                    options += ["--scheduler-sharding-mode=hard", f"--scheduler-sharding-name=s{i}"]
                (logs := Path(folder) / f"s{i}").mkdir()
                pids.append(stack.enter_context(running("scheduler", plane, logs, *options)))
            await asyncio.wait_for(watcher, TIMEOUT)
            await asyncio.sleep(1)
            counts = [await asyncio.to_thread(attempts, port) for port in ports]
            return Measured(
                schedulers,
                times,
                tried=sum(count.get("scheduled", 0) for count in counts),
                failed=sum(count.get("error", 0) for count in counts),
                cpu=sum(map(cpu_seconds, pids)),
                memory=max(map(peak_memory, pids)),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--gang", type=int, default=100)
    arguments = parser.parse_args()
    console = Console(width=120)
    table = Table(title=f"{arguments.nodes:,} nodes, {arguments.pods:,} Pods in gangs of {arguments.gang}")
    for column in ("schedulers", "bound", "placements", "refused", "bindings/s", "cpu", "peak memory of one"):
        table.add_column(column, justify="right")
    rates: list[float] = []
    for number in NUMBERS:
        console.print(f"{number}: {arguments.nodes:,} nodes, {arguments.pods:,} Pods ...")
        began = time.perf_counter()
        measured = uvloop.run(run(number, arguments))
        console.print(f"  {measured.rate:,.0f} bindings/s, {time.perf_counter() - began:.0f} s in all")
        table.add_row(
            str(number),
            f"{len(measured.times):,}",
            f"{measured.tried:,}",
            f"{measured.failed:,}",
            f"{measured.rate:,.0f}",
            f"{measured.cpu:.1f} s",
            f"{measured.memory:.0f} MiB",
        )
        rates.append(measured.rate)
        report(f"placements per Pod, {number} schedulers", measured.tried / arguments.pods)
    for number, rate in zip(NUMBERS[1:], rates[1:], strict=True):
        report(f"bindings per second, {number} schedulers, of one", rate / rates[0], higher_is_better=True)
    console.print(table)


if __name__ == "__main__":
    main()
