"""Measures sessions of one of several schedulers on 100,000 nodes, in memory: the costs that a shard reduces, and the
costs that it does not reduce.

Each scheduler stores the whole cluster, and decides on its part of the nodes and queues. The measured scheduler is the
first of 1, 2, 4 or 8 schedulers, whose shards are of equal size. Pods belong to gangs of 100, which are divided between
16 queues. Each number of schedulers runs in a separate process, so that peak memory is measured for each number.
Asserts nothing.
"""

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from scheduler.api.kinds import NODE, NODE_SHARD, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import DEFAULT_SCHEDULER_NAME, GROUP_NAME, SHARD_QUEUES, SHARD_QUEUES_IN_USE
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from scheduler.framework.cycle import run_cycle

NUMBERS = (1, 2, 4, 8)
QUEUES, GANG, LONE_PODS = 16, 100, 11
CREATED = "2026-01-01T00:00:00Z"


class Measured(msgspec.Struct):
    """The costs of one scheduler."""

    schedulers: int
    nodes: int
    bound: int
    cold: float
    """The processor time of the snapshot and the first session, which places all Pods of the shard."""
    lone: float
    """The processor time of the snapshot and the session that places one more Pod (median)."""
    memory: float
    """The peak memory of the process, in MiB."""


class Cluster:
    """The cache of the first of several schedulers."""

    def __init__(self, schedulers: int) -> None:
        self.cache = ClusterCache([DEFAULT_SCHEDULER_NAME], shard="s0" if schedulers > 1 else "")
        self._schedulers = schedulers

    def store(self, kind: Kind, name: str, meta: dict[str, Any] | None = None, **parts: Any) -> None:
        namespace = {"namespace": "default"} if kind.namespaced else {}
        metadata = {
            "name": name,
            "uid": f"{kind.name}/{name}",
            "creationTimestamp": CREATED,
            **namespace,
            **(meta or {}),
        }
        assert kind.struct is not None
        self.cache.upsert(kind, msgspec.convert({"metadata": metadata, **parts}, kind.struct))

    def fill(self, nodes: int, pods: int) -> None:
        amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        for i in range(nodes):
            status = {"allocatable": amounts, "capacity": amounts}
            self.store(NODE, f"node-{i:06d}", {"labels": {"kubernetes.io/hostname": f"node-{i:06d}"}}, status=status)
        for name in ("root", *(f"q{i}" for i in range(QUEUES))):
            self.store(QUEUE, name, spec={"weight": 1}, status={"state": "Open"})
        if self._schedulers > 1:
            mine = [f"node-{i:06d}" for i in range(0, nodes, self._schedulers)]
            queues = ",".join(f"q{i}" for i in range(0, QUEUES, self._schedulers))
            annotations = {SHARD_QUEUES: queues, SHARD_QUEUES_IN_USE: queues}
            meta = {"annotations": annotations, "resourceVersion": "1"}
            self.store(NODE_SHARD, "s0", meta, spec={"nodesDesired": mine}, status={"nodesInUse": mine})
            self.cache.use_shard(self.cache.shard_claims())
        for i in range(pods // GANG):
            self.gang(f"job-{i:05d}", i % QUEUES, GANG)

    def gang(self, name: str, queue: int, size: int) -> None:
        spec = {"minMember": size, "queue": f"q{queue}"}
        self.store(POD_GROUP, name, spec=spec, status={"phase": "Inqueue"})
        for i in range(size):
            request = {"requests": {"cpu": "1", "memory": "1Gi"}}
            pod = {
                "schedulerName": DEFAULT_SCHEDULER_NAME,
                "containers": [{"name": "main", "image": "train", "resources": request}],
            }
            meta = {"annotations": {GROUP_NAME: name}}
            self.store(POD, f"{name}-{i}", meta, spec=pod, status={"phase": "Pending"})

    def session(self) -> tuple[int, float]:
        """The bound Pods, and the seconds of processor time."""
        began = time.process_time()
        outcome = run_cycle(self.cache.snapshot(time.time()), parse_configuration(DEFAULT_CONFIGURATION))
        seconds = time.process_time() - began
        self.cache.assume(outcome.decisions)
        outcome.session.release()
        return len(outcome.decisions.binds), seconds


def measure(schedulers: int, nodes: int, pods: int) -> Measured:
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    cluster = Cluster(schedulers)
    cluster.fill(nodes, pods)
    gc.freeze()
    bound, cold = cluster.session()
    cluster.session()
    lone = []
    for i in range(LONE_PODS):
        cluster.gang(f"lone-{i}", 0, 1)
        lone.append(cluster.session()[1])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(schedulers, nodes // schedulers, bound, cold, median(lone), memory)


def measured_in_processes(nodes: int, pods: int) -> Iterator[Measured]:
    for number in NUMBERS:
        command = [sys.executable, "-m", "benchmarks.shard_sessions", f"--nodes={nodes}", f"--pods={pods}"]
        answer = subprocess.run([*command, f"--one={number}"], check=True, stdout=subprocess.PIPE).stdout
        yield msgspec.json.decode(answer, type=Measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=400_000)
    parser.add_argument("--one", type=int, help="measure this number of schedulers in this process, and print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.buffer.write(msgspec.json.encode(measure(arguments.one, arguments.nodes, arguments.pods)))
        return
    table = Table(title=f"One of several schedulers, {arguments.nodes:,} nodes, {arguments.pods:,} Pods in all")
    for column in ("schedulers", "nodes of its own", "bound", "first session", "session of a lone Pod", "peak memory"):
        table.add_column(column, justify="right")
    for each in measured_in_processes(arguments.nodes, arguments.pods):
        table.add_row(
            str(each.schedulers),
            f"{each.nodes:,}",
            f"{each.bound:,}",
            f"{each.cold:.2f} s",
            f"{each.lone * 1000:.1f} ms",
            f"{each.memory:,.0f} MiB",
        )
        report_time(f"first session, one of {each.schedulers}", each.cold)
        report_time(f"session of a lone Pod, one of {each.schedulers}", each.lone)
        report(f"peak memory in MiB, one of {each.schedulers}", each.memory)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
