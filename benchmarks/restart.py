"""Measures the start of a scheduler on a full cluster: from the start of its process to its first binding.

A real API server is filled with nodes and running Pods of many jobs, and one Pod waits. Each contender starts cold, is
measured until the Pod is bound, and ends; then the next one starts on the same API server. Before, our scheduler runs
once until it is idle, so that all statuses are as it writes them. One row is a takeover: the leader is killed with
SIGKILL, then a Pod arrives, and the time counts from the expiry of the lease. In the last rows, the API server restarts
immediately before, so that it has no objects in memory; these rows are measured once. Prints tables; asserts nothing.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import KUBE, OURS, SCHEDULER_NAMES
from benchmarks.contest import TIMEOUT, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from benchmarks.live_cluster import fill
from benchmarks.live_objects import cluster
from benchmarks.replicas import Replica, wait
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME, SCHEDULING_API_VERSION

NAMESPACE: Final = "waiting"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS: Final = f"/apis/{SCHEDULING_API_VERSION}/namespaces/{NAMESPACE}/podgroups"
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases/volcano-py"
TAKEOVER: Final = f"{OURS}, takeover"
RESTARTED: Final[Mapping[str, str]] = {f"{name}, API server restarted": name for name in (KUBE, OURS)}
"""Maps a row to the contender that starts right after the API server."""
STEPS: Final[Mapping[str, str]] = {"imports": "starting", "lists": "synced", "first session": "Open Session"}
"""Maps a step to the beginning of the line of our log that ends it."""
REST: Final = 3.0
"""The seconds in which a process uses almost no processor time before it counts as idle."""


@dataclass
class Start:
    """One start. Times are seconds since the start of the process, or since the expiry of the lease."""

    bound: float
    cpu: float
    """The processor time until the first binding."""
    memory: float
    """The peak memory until the first binding, in MiB."""
    steps: dict[str, float] = field(default_factory=dict)


@contextmanager
def waiting_pod(plane: ControlPlane, scheduler: str) -> Iterator[None]:
    """A Pod with a PodGroup of its own, which exists within the context."""
    meta = {"name": "waiting"}
    group = {"apiVersion": SCHEDULING_API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1}}
    requests = {"memory": "10Mi"}  # the running Pods may request all CPUs
    container = {"name": "main", "image": "registry.example.com/train:1", "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta | {"annotations": {GROUP_NAME: "waiting"}}, "spec": spec}
    plane.admin.create(GROUPS, group)
    plane.admin.create(PODS, pod)
    try:
        yield
    finally:
        plane.admin.delete(f"{PODS}/waiting")
        plane.admin.delete(f"{GROUPS}/waiting")


def binding_time(plane: ControlPlane) -> float:
    """Waits until the Pod is bound, and returns the Unix time of the binding. The function watches the Pod, because
    repeated reads would take processor time from the measured processes."""

    async def bound() -> float:
        async with asyncio.timeout(TIMEOUT), Api.of(plane) as api, aclosing(api.watch(PODS)) as pods:
            while not (await anext(pods)).spec.node_name:
                pass
            return time.time()

    return uvloop.run(bound())


def cold(name: str, plane: ControlPlane, *, until_idle: bool = False) -> Start:
    """Starts a contender and measures it until it has bound the Pod; ``until_idle``: then it runs until it is idle."""
    with waiting_pod(plane, SCHEDULER_NAMES[name]), tempfile.TemporaryDirectory() as folder:
        if name == KUBE:
            began = time.time()
            process = plane.start_kube_scheduler()
            bound = binding_time(plane)
            start = Start(bound - began, cpu_seconds(process.pid), peak_memory(process.pid))
            process.stop()
            return start
        began = time.time()
        with running("scheduler", plane, Path(folder), "--leader-elect=false") as pid:
            bound = binding_time(plane)
            start = Start(bound - began, cpu_seconds(pid), peak_memory(pid))
            if until_idle:
                rest(pid)
        start.steps = steps(Path(folder) / "scheduler.log", began)
        return start


def rest(pid: int) -> None:
    """Waits until a process is idle."""
    used = -REST
    while (now := cpu_seconds(pid)) - used > REST / 20:
        used = now
        time.sleep(REST)


def steps(log: Path, began: float) -> dict[str, float]:
    """The times of ``STEPS``."""
    found: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        for step, text in STEPS.items():
            if str(entry.get("event", "")).startswith(text):
                found.setdefault(step, _unix(entry["timestamp"]) - began)
    return found


def takeover(plane: ControlPlane) -> Start:
    """Kills the leader of two replicas."""
    with tempfile.TemporaryDirectory() as name:
        replicas = [Replica("scheduler", plane, Path(name))]
        try:
            wait(lambda: replicas[0].said("Open Session"))
            replicas.append(Replica("scheduler", plane, Path(name)))
            wait(lambda: replicas[1].ready)
            leader, standby = (replica.process for replica in replicas)
            rest(leader.pid)
            rest(standby.pid)
            used = cpu_seconds(standby.pid)
            leader.kill()
            leader.wait()
            spec = plane.admin.get(LEASE)["spec"]
            with waiting_pod(plane, SCHEDULER_NAMES[OURS]):
                bound = binding_time(plane)
                expiry = _unix(spec["renewTime"]) + spec["leaseDurationSeconds"]
                return Start(bound - expiry, cpu_seconds(standby.pid) - used, peak_memory(standby.pid))
        finally:
            for replica in replicas:
                replica.process.terminate()
            for replica in replicas:
                replica.process.wait(30)


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def fill_cluster(plane: ControlPlane, nodes: int, pods: int, jobs: int) -> None:
    plane.apply_crds()
    for namespace in ("jobs", NAMESPACE):
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    uvloop.run(fill(plane, cluster(nodes, pods, size=pods // jobs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=3)
    contenders = [KUBE, OURS, TAKEOVER, *RESTARTED]
    parser.add_argument("--only", nargs="*", choices=contenders, default=contenders)
    arguments = parser.parse_args()
    console = Console(width=140)
    title = f"{arguments.nodes:,} nodes, {arguments.pods:,} running Pods, {arguments.jobs:,} jobs"
    found: dict[str, list[Start]] = {name: [] for name in arguments.only}
    with ControlPlane() as plane:
        console.print(f"{title}: filling ...")
        fill_cluster(plane, arguments.nodes, arguments.pods, arguments.jobs)
        cold(OURS, plane, until_idle=True)
        repeated = [name for name in found if name not in RESTARTED]
        for number in range(arguments.rounds):
            for name in repeated:
                found[name].append(takeover(plane) if name == TAKEOVER else cold(name, plane))
                console.print(f"  round {number + 1}, {name}: {found[name][-1].bound:.2f} s")
        for name, contender in RESTARTED.items():
            if name in found:
                plane.restart_apiserver()
                found[name].append(cold(contender, plane))
                console.print(f"  {name}: {found[name][-1].bound:.2f} s")
    table = Table(title=f"{title}: median of {arguments.rounds}, fastest")
    for column in ("", *STEPS, "first binding", "fastest", "cpu", "peak memory"):
        table.add_column(column, justify="right" if column else "left")
    fastest = {name: min(start.bound for start in starts) for name, starts in found.items()}
    if OURS in found:
        report(f"{OURS}: peak memory in MiB", median(start.memory for start in found[OURS]))
    if OURS in found and KUBE in found:
        report(f"first binding, of {KUBE}", fastest[OURS] / fastest[KUBE])
    for name, starts in found.items():
        found_steps = (_seconds([start.steps[step] for start in starts if step in start.steps]) for step in STEPS)
        bound = [start.bound for start in starts]
        cpu, memory = (median(getattr(start, what) for start in starts) for what in ("cpu", "memory"))
        table.add_row(
            name, *found_steps, _seconds(bound), f"{fastest[name]:.2f} s", f"{cpu:.1f} s", f"{memory:.0f} MiB"
        )
    console.print(table)


def _seconds(times: list[float]) -> str:
    return f"{median(times):.2f} s" if times else ""


if __name__ == "__main__":
    main()
