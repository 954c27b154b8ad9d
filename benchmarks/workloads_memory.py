"""kube-scheduler's performance workloads without an API server: only the decisions are measured, so profile this
benchmark.

A cache holds the objects that exist at the start, then the measured Pods are added, and sessions run until all of them
are bound: each session's decisions are assumed, and evicted Pods are deleted before the next one. The result is the
processor time of the sessions and their snapshots. Prints a table; asserts nothing.
"""

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Iterable
from dataclasses import replace

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report_time
from benchmarks.scheduler_perf import CHURN_INTERVAL, CONFIGURATION, WORKLOADS, Manifest, Workload
from scheduler.api.kinds import POD, SCHEDULER_KINDS
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import run_cycle

START = "2026-01-01T00:00:00Z"
NAME = "volcano-py"
KINDS = {kind.name: kind for kind in SCHEDULER_KINDS}


class Memory:
    """A cache fed with manifests."""

    def __init__(self) -> None:
        self.cache = ClusterCache([NAME])

    def put(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            kind, meta = KINDS[manifest["kind"]], manifest["metadata"]
            uid = f"{kind.name}/{meta.get('namespace', '')}/{meta['name']}"
            full = {**manifest, "metadata": {**meta, "uid": uid, "creationTimestamp": START}}
            self.cache.upsert(kind, msgspec.convert(full, kind.struct))


def _with_status(manifests: Iterable[Manifest], phase: str) -> Iterable[Manifest]:
    return ({**manifest, "status": {"phase": phase}} for manifest in manifests)


def filled(workload: Workload) -> Memory:
    """A cache with everything that is there beforehand."""
    memory = Memory()
    memory.put([{"kind": "Queue", "metadata": {"name": "default"}, "spec": {}, "status": {"state": "Open"}}])
    memory.put(workload.surroundings())
    memory.put(workload.node_bodies())
    for number, pods in enumerate(workload.initial):
        if workload.preempts:
            memory.put(_with_status(pods.groups(f"init{number}", 1), "Running"))
        memory.put(_with_status(pods.bodies(f"init{number}", NAME, 1, workload.nodes), "Running"))
    return memory


def measure(workload: Workload, gang: int, profile: cProfile.Profile | None = None) -> tuple[int, float, int]:
    """The (Pods bound, seconds of deciding, sessions)."""
    memory = filled(workload)
    cache = memory.cache
    configuration = parse_configuration(CONFIGURATION)
    cache.assume(run_cycle(cache.snapshot(time.time()), configuration).decisions)
    coming = {"pod": (workload.measured, gang)}
    if workload.churn is not None:  # as many as come in a second
        coming["churn"] = replace(workload.churn, number=round(1 / CHURN_INTERVAL)), 1
    for prefix, (pods, together) in coming.items():
        memory.put(pods.groups(prefix, together))
        memory.put(_with_status(pods.bodies(prefix, NAME, together), "Pending"))
    gc.collect()
    gc.freeze()  # as in the scheduler's own process once its lists are complete
    bound, seconds, sessions = 0, 0.0, 0
    while bound < workload.measured.number:
        if profile is not None:
            profile.enable()
        begun = time.process_time()
        decisions = run_cycle(cache.snapshot(time.time()), configuration).decisions
        seconds += time.process_time() - begun
        if profile is not None:
            profile.disable()
        sessions += 1
        cache.assume(decisions)
        for eviction in decisions.evictions:
            cache.delete(POD, eviction.task.namespace, eviction.task.name)
        bound += sum(bind.task.name.startswith("pod-") for bind in decisions.binds)
        if not (decisions.binds or decisions.evictions):
            break
    gc.unfreeze()
    return bound, seconds, sessions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}; all if none is named")
    parser.add_argument("--nodes", type=int, help="scale every workload to so many nodes")
    parser.add_argument("--gang", type=int, default=100, help="Pods per PodGroup")
    parser.add_argument("--repeat", type=int, default=1, help="the best of so many runs counts")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    table = Table(title=f"In memory, PodGroups of {arguments.gang}")
    for column in ("", "nodes", "Pods bound", "sessions", "seconds", "Pods/s"):
        table.add_column(column, justify="right" if column else "left")
    for name in arguments.names or WORKLOADS:
        workload = WORKLOADS[name]
        if arguments.nodes:
            workload = workload.scaled(arguments.nodes)
        profile = cProfile.Profile() if arguments.profile else None
        results = [measure(workload, arguments.gang, profile) for _ in range(arguments.repeat)]
        bound, seconds, sessions = min(results, key=lambda result: result[1])
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        report_time(name, seconds)
        table.add_row(
            name,
            f"{workload.nodes:,}",
            f"{bound:,} of {workload.measured.number:,}",
            f"{sessions}",
            f"{seconds:.2f}",
            f"{bound / seconds:,.0f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
