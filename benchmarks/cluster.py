"""The whole path on a real API server: bindings per second, compared with kube-scheduler and with a loop that only
binds.

Each contender gets a new kube-apiserver and etcd with the same nodes and Pods, all created before it starts. The result
is the time from its first binding to its last, as a watch receives them. The bare loop posts bindings that were decided
before: it measures the upper limit of the API server. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.contest import TIMEOUT, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, GROUP_NAME

PODS = "/api/v1/namespaces/default/pods"
BARE, KUBE, OURS = "bare loop", "kube-scheduler", "volcano-py"
SCHEDULER_NAMES = {BARE: "none", KUBE: "default-scheduler", OURS: "volcano-py"}


@dataclass
class Result:
    """The result of one contender."""

    name: str
    bound: int = 0
    first: float = 0.0
    last: float = 0.0
    started: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    """The peak memory, in MiB."""
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return (self.bound - 1) / (self.last - self.first) if self.bound > 1 else 0.0

    @property
    def longest_pause(self) -> float:
        """The longest time between two bindings, in seconds."""
        return max((later - earlier for earlier, later in pairwise(self.times)), default=0.0)


def node_bodies(number: int) -> Iterable[tuple[str, bytes]]:
    for i in range(number):
        amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{i:05d}", "labels": {"kubernetes.io/hostname": f"node-{i:05d}"}},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        yield "/api/v1/nodes", msgspec.json.encode(node)


def group_bodies(pods: int, gang: int) -> Iterable[tuple[str, bytes]]:
    for i in range(pods // gang):
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": f"job-{i:04d}"},
            "spec": {"minMember": gang, "queue": "default"},
        }
        yield "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", msgspec.json.encode(group)


def pod_bodies(pods: int, gang: int, scheduler_name: str) -> Iterable[tuple[str, bytes]]:
    for i in range(pods):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"job-{i // gang:04d}-{i % gang}",
                "annotations": {GROUP_NAME: f"job-{i // gang:04d}"},
                "labels": {"app": f"job-{i // gang:04d}"},
            },
            "spec": {
                "schedulerName": scheduler_name,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/train:1",
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    }
                ],
            },
        }
        yield PODS, msgspec.json.encode(pod)


def binding_bodies(pods: int, gang: int, nodes: int) -> Iterable[tuple[str, bytes]]:
    for i in range(pods):
        name = f"job-{i // gang:04d}-{i % gang}"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "default", "annotations": {ASCEND_910: "Ascend910-0"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": f"node-{i % nodes:05d}"},
        }
        yield f"{PODS}/{name}/binding", msgspec.json.encode(binding)


@contextmanager
def started(name: str, plane: ControlPlane, folder: Path) -> Iterator[int | None]:
    """Runs a contender; yields its process id, or None for the bare loop, which has no process of its own."""
    if name == OURS:
        with running("scheduler", plane, folder, "--leader-elect=false") as pid:
            yield pid
    else:
        yield plane.start_kube_scheduler().pid if name == KUBE else None


async def run(name: str, arguments: argparse.Namespace) -> Result:
    result = Result(name)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(logs=Path(folder)) as plane:
        plane.apply_crds()
        async with Api.of(plane) as api:
            await api.post_all(node_bodies(arguments.nodes))
            await api.post_all(group_bodies(arguments.pods, arguments.gang))
            await api.post_all(pod_bodies(arguments.pods, arguments.gang, SCHEDULER_NAMES[name]))
            ready = asyncio.Event()
            watcher = asyncio.create_task(
                api.watch_bindings(PODS, lambda name: True, arguments.pods, result.times, ready)
            )
            await ready.wait()
            await asyncio.sleep(2)
            result.started = time.perf_counter()
            with started(name, plane, Path(folder)) as pid:
                if pid is None:
                    await api.post_all(binding_bodies(arguments.pods, arguments.gang, arguments.nodes))
                await asyncio.wait_for(watcher, TIMEOUT)
                if pid is not None:
                    result.cpu, result.memory = cpu_seconds(pid), peak_memory(pid)
    result.bound, result.first, result.last = len(result.times), result.times[0], result.times[-1]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--gang", type=int, default=100)
    parser.add_argument("--only", nargs="*", choices=list(SCHEDULER_NAMES), default=list(SCHEDULER_NAMES))
    arguments = parser.parse_args()
    console = Console(width=120)
    results = []
    for name in arguments.only:
        console.print(f"{name}: {arguments.nodes:,} nodes, {arguments.pods:,} Pods ...")
        results.append(uvloop.run(run(name, arguments)))
        console.print(f"  {results[-1].rate:,.0f} bindings/s")
    table = Table(title=f"{arguments.nodes:,} nodes, {arguments.pods:,} Pods in gangs of {arguments.gang}")
    for column in ("", "bound", "bindings/s", "longest pause", "start to last binding", "cpu", "peak memory"):
        table.add_column(column, justify="right" if column else "left")
    for result in results:
        table.add_row(
            result.name,
            f"{result.bound:,}",
            f"{result.rate:,.0f}",
            f"{result.longest_pause:.2f} s",
            f"{result.last - result.started:.1f} s",
            f"{result.cpu:.1f} s" if result.cpu else "",
            f"{result.memory:.0f} MiB" if result.memory else "",
        )
        if result.name == OURS:
            report("peak memory in MiB", result.memory)
            for other in results[:-1]:
                report(f"bindings per second, of {other.name}", result.rate / other.rate, higher_is_better=True)
    console.print(table)


if __name__ == "__main__":
    main()
