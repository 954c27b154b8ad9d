"""Measures the session of a single Pod, and a session in which nothing changed, in memory, beside many jobs of one
running Pod each.

Each size runs in a separate process, so that peak memory is measured for each size. A session is the snapshot, the
cycle, and the assumption of its decisions; its processor time counts, in the median of several. Prints a table; asserts
nothing.
"""

import argparse
import cProfile
import gc
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from benchmarks.memory import CONFIGURATION, START, device_info, nodes, queues
from scheduler.api import objects, scheduling
from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import GROUP_NAME
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from scheduler.framework.cycle import Outcome, run_cycle

SIZES = ((1_000, 10_000), (10_000, 100_000))
CONFIGURATIONS = {"proportion": DEFAULT_CONFIGURATION, "capacity-card": CONFIGURATION}
WARM_UP, ROUNDS = 5, 21


def job(name: str, node: str = "") -> Iterator[tuple[Kind, objects.KubeObject]]:
    """A PodGroup of one member and its Pod, which runs on ``node``, or waits without one."""
    group: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": f"g-{name}", "creationTimestamp": START},
        "spec": {"minMember": 1, "minResources": {"cpu": "100m", "memory": "1Gi"}, "queue": "cpu"},
    }
    if node:
        group["status"] = {"phase": "Running", "running": 1}
    yield POD_GROUP, msgspec.convert(group, scheduling.PodGroup)
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"p-{name}",
            "creationTimestamp": START,
            "annotations": {GROUP_NAME: name},
        },
        "spec": {
            "schedulerName": "volcano-py",
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }
    yield POD, msgspec.convert(pod, objects.Pod)


class Sessions:
    """The sessions of one cluster."""

    def __init__(self, node_number: int, job_number: int, plugin: str) -> None:
        self._configuration = parse_configuration(CONFIGURATIONS[plugin])
        cache = self._cache = ClusterCache(["volcano-py"])
        for queue in queues():
            cache.upsert(QUEUE, queue)
        for node in nodes(node_number):
            cache.upsert(NODE, node)
        for info in device_info(node_number):
            cache.upsert(CONFIG_MAP, info)
        for i in range(job_number):
            for kind, obj in job(f"running-{i:06d}", f"node-{i % node_number:05d}"):
                cache.upsert(kind, obj)
        self._now = time.time()

    def unchanged(self) -> Outcome:
        """Runs a session, and assumes its decisions."""
        self._now += 1
        outcome = run_cycle(self._cache.snapshot(self._now), self._configuration)
        self._cache.assume(outcome.decisions)
        outcome.session.release()
        return outcome

    def confirm(self, outcome: Outcome) -> None:
        """Confirms the bindings of a session: their Pods run."""
        for bind in outcome.decisions.binds:
            for kind, obj in job(bind.task.name, bind.node):
                if kind is POD:
                    self._cache.upsert(kind, obj)

    def lone(self, number: int) -> tuple[float, float]:
        """The processor times of the session that places a new Pod, and of the one that finds it running."""
        for kind, obj in job(f"lone-{number:04d}"):
            self._cache.upsert(kind, obj)
        placed, first = timed(self.unchanged)
        if len(first.decisions.binds) != 1:
            raise RuntimeError("the Pod was not placed")
        self.confirm(first)
        del first
        return placed, timed(self.unchanged)[0]


def timed(run: Callable[[], Outcome]) -> tuple[float, Outcome]:
    begun = time.process_time()
    outcome = run()
    return time.process_time() - begun, outcome


def measure(node_number: int, job_number: int, plugin: str, *, profile: bool = False) -> dict[str, float]:
    gc.set_threshold(*COLLECTION)
    sessions = Sessions(node_number, job_number, plugin)
    begun = time.process_time()
    sessions.unchanged()
    first = time.process_time() - begun
    for number in range(WARM_UP):
        sessions.lone(number)
    if profile:
        profiler = cProfile.Profile()
        profiler.enable()
    lone = [sessions.lone(WARM_UP + number) for number in range(ROUNDS)]
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    sessions.unchanged()
    quiet = [timed(sessions.unchanged)[0] for _ in range(ROUNDS)]
    return {
        "first": first,
        "lone": median(placed for placed, _ in lone),
        "after": median(after for _, after in lone),
        "quiet": median(quiet),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("NODES", "JOBS", "PLUGIN"), help="measure one size, print JSON")
    parser.add_argument("--profile", action="store_true", help="with --one: print a profile of the sessions")
    arguments = parser.parse_args()
    if arguments.one:
        node_number, job_number, plugin = arguments.one
        json.dump(measure(int(node_number), int(job_number), plugin, profile=arguments.profile), sys.stdout)
        return
    table = Table(title="One-Pod jobs: sessions in memory, processor time", title_justify="left")
    columns = ("nodes", "running jobs", "queues limited by", "lone Pod", "its confirmation", "unchanged", "peak memory")
    for column in columns:
        table.add_column(column, justify="right")
    for node_number, job_number in SIZES:
        for plugin in CONFIGURATIONS:
            command = [sys.executable, "-m", "benchmarks.lone_sessions", "--one", str(node_number), str(job_number)]
            output = subprocess.run([*command, plugin], check=True, capture_output=True, text=True).stdout
            result = json.loads(output)
            name = f"{node_number:,} nodes, {job_number:,} jobs, {plugin}"
            report_time(f"{name}: lone Pod", result["lone"])
            report_time(f"{name}: unchanged session", result["quiet"])
            report(f"{name}: peak memory in MiB", result["memory"])
            times = (f"{result[name] * 1000:,.1f} ms" for name in ("lone", "after", "quiet"))
            memory = f"{result['memory']:,.0f} MiB"
            table.add_row(f"{node_number:,}", f"{job_number:,}", plugin, *times, memory)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
