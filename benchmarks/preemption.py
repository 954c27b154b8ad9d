"""One session in which many Pods preempt or reclaim: a full cluster, and preemptors of several kinds.

The nodes are full of Pods of low priority. Preemptors are jobs of one Pod each, one gang, jobs of equal priority (no
Pod may be evicted), jobs of a queue that is far over its quota, and reclaimers of a second queue; and as many gangs of
eight Pods of higher priority, of equal priority and of a second queue. Each job has a different image. Each kind has
a separate cluster and two sessions: in the second, the evicted Pods terminate. Prints a table of processor times of
sessions; those of actions are wall-clock times. Asserts nothing.
"""

import argparse
import gc
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report_time
from scheduler.api import objects, scheduling
from scheduler.api.kinds import NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from scheduler.api.names import GROUP_NAME
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import Outcome, run_cycle

CONFIGURATION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion},
            {name: nodeorder}, {name: binpack}]
"""
START = "2026-01-01T00:00:00Z"
LOW, HIGH = "low", "high"
SINGLE, ONE_GANG, GANGS = "single Pods", "one gang", "gangs of 8"
KINDS = {
    "single Pods of higher priority": (SINGLE, HIGH, "4", "default"),
    "one gang of higher priority": (ONE_GANG, HIGH, "4", "default"),
    "single Pods of equal priority": (SINGLE, LOW, "4", "default"),
    "single Pods over the queue's quota": (SINGLE, HIGH, "8", "narrow"),
    "single Pods of another queue": (SINGLE, LOW, "4", "other"),
    "gangs of 8 of higher priority": (GANGS, HIGH, "4", "default"),
    "gangs of 8 of equal priority": (GANGS, LOW, "4", "default"),
    "gangs of 8 of another queue": (GANGS, LOW, "4", "other"),
}
"""Maps a name to (jobs and Pods per job, priority class, cpu of a Pod, queue)."""


def nodes(number: int) -> Iterator[objects.Node]:
    for i in range(number):
        name = f"node-{i:05d}"
        yield msgspec.convert(
            {
                "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}},
            },
            objects.Node,
        )


def group(name: str, minimum: int, priority: str, queue: str) -> scheduling.PodGroup:
    spec = {"minMember": minimum, "queue": queue, "priorityClassName": priority}
    metadata = {"name": name, "namespace": "default", "uid": f"g-{name}", "creationTimestamp": START}
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": {"phase": "Inqueue"}}, scheduling.PodGroup, strict=False
    )


def pod(name: str, group: str, cpu: str, node: str = "") -> objects.Pod:
    spec: dict[str, Any] = {
        "schedulerName": "volcano-py",
        "containers": [{"name": "main", "image": group, "resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}}],
    }
    if node:
        spec["nodeName"] = node
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": START,
        "annotations": {GROUP_NAME: group},
    }
    status = {"phase": "Running" if node else "Pending"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, objects.Pod)


def cluster(kind: str, number: int, running: int, preemptors: int) -> ClusterCache:
    grouping, priority, cpu, queue = KINDS[kind]
    cache = ClusterCache(["volcano-py"])
    for node in nodes(number):
        cache.upsert(NODE, node)
    for name, value in ((LOW, 10), (HIGH, 1000)):
        cache.upsert(
            PRIORITY_CLASS, msgspec.convert({"metadata": {"name": name}, "value": value}, objects.PriorityClass)
        )
    for name, spec in (("default", {}), ("other", {}), ("narrow", {"capability": {"cpu": "32"}})):
        body = {"metadata": {"name": name}, "spec": {"weight": 1, **spec}, "status": {"state": "Open"}}
        cache.upsert(QUEUE, msgspec.convert(body, scheduling.Queue))
    held = "narrow" if queue == "narrow" else "default"
    for i in range(running):
        cache.upsert(POD_GROUP, group(f"low-{i:05d}", 1, LOW, held))
        cache.upsert(POD, pod(f"low-{i:05d}", f"low-{i:05d}", "4", f"node-{i % number:05d}"))
    jobs, size = {SINGLE: (preemptors, 1), ONE_GANG: (1, preemptors), GANGS: (preemptors, 8)}[grouping]
    for i in range(jobs):
        name = f"high-{i:05d}"
        cache.upsert(POD_GROUP, group(name, size, priority, queue))
        for j in range(size):
            cache.upsert(POD, pod(f"{name}-{j}", name, cpu))
    return cache


def timed(cache: ClusterCache, configuration: Configuration) -> tuple[Outcome, float]:
    """A session, and its processor seconds."""
    snapshot = cache.snapshot(time.time())
    begun = time.process_time()
    outcome = run_cycle(snapshot, configuration)
    return outcome, time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--preemptors", type=int, default=1000, help="Pods, or gangs of 8")
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help="beginnings of the names of kinds; all if none is given"
    )
    arguments = parser.parse_args()
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    configuration = parse_configuration(CONFIGURATION)
    title = (
        f"{arguments.nodes:,} nodes, {arguments.running:,} running Pods, {arguments.preemptors:,} that want their place"
    )
    table = Table(title=title)
    for column in ("", "evicted", "allocate", "preempt", "reclaim", "session", "the next"):
        table.add_column(column, justify="right" if column else "left")
    for kind in KINDS:
        if arguments.kinds and not kind.startswith(tuple(arguments.kinds)):
            continue
        cache = cluster(kind, arguments.nodes, arguments.running, arguments.preemptors)
        gc.collect()
        outcome, session = timed(cache, configuration)
        seconds = [f"{outcome.action_seconds[name]:.2f} s" for name in ("allocate", "preempt", "reclaim")]
        cache.assume(outcome.decisions)
        _, following = timed(cache, configuration)
        table.add_row(kind, f"{len(outcome.decisions.evictions):,}", *seconds, f"{session:.2f} s", f"{following:.2f} s")
        report_time(kind, session)
        report_time(f"{kind}, the next session", following)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
