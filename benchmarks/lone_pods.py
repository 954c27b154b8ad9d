"""Measures how long a single Pod waits on a cluster with room: from its creation to its binding, as a client sees both.

Each contender gets a new kube-apiserver and etcd with the same nodes and running Pods. Then Pods that belong to no
workload are created one by one at a fixed rate; for our scheduler, our controllers create their PodGroups. In the last
line, as many Pods come from Deployments of a few replicas each; they count from the moment at which a watch shows them.
Prints the median and the 99th percentile, and the processor time that the contender's processes use; asserts nothing.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import KUBE, OURS, PODS, SCHEDULER_NAMES, node_bodies
from benchmarks.contest import TIMEOUT, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from controlplane.run import ControlPlane

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
OF_DEPLOYMENTS = f"{OURS}, Deployments"
REST = 1.0
"""The seconds in which the processes use almost no processor time before the first Pod is created."""
WARM_UP = 10
"""The number of Pods that are created before the measured Pods."""


@dataclass
class Result:
    """The result of one contender; times in seconds."""

    name: str
    waits: list[float]
    """The seconds from the creation of a Pod to its binding; empty if another program creates the Pods."""
    seen_waits: list[float]
    """The seconds from the first event of a Pod to its binding, as a watch shows both."""
    cpu: dict[str, float]
    """Maps each process to its processor time per second of real time, while Pods are created."""
    at_rest: dict[str, float]
    """The same before the first Pod."""
    memory: float
    """The peak memory of all processes, in MiB."""


def running_pods(number: int, nodes: int) -> Iterable[tuple[str, bytes]]:
    """The Pods of another scheduler that are on nodes."""
    for i in range(number):
        yield (
            PODS,
            msgspec.json.encode(_pod(f"there-{i:06d}", "none") | {"spec": _spec("none", f"node-{i % nodes:05d}")}),
        )


def _pod(name: str, scheduler: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _spec(scheduler)}


def _deployment(name: str, scheduler: str, replicas: int) -> dict[str, object]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _spec(scheduler)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _spec(scheduler: str, node: str = "") -> dict[str, object]:
    requests = {"cpu": "10m", "memory": "10Mi"}
    container = {"name": "main", "image": "registry.example/train:1", "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return spec | ({"nodeName": node} if node else {})


@contextmanager
def started(name: str, plane: ControlPlane, folder: Path) -> Iterator[dict[str, int]]:
    """Runs a contender; yields its process ids."""
    if name == KUBE:
        yield {"scheduler": plane.start_kube_scheduler().pid}
        return
    with ExitStack() as stack:
        yield {
            role: stack.enter_context(running(role, plane, folder, "--leader-elect=false"))
            for role in ("scheduler", "controllers")
        }


async def quiet(pids: Iterable[int]) -> None:
    """Waits until the processes are idle."""
    while True:
        before = {pid: cpu_seconds(pid) for pid in pids}
        await asyncio.sleep(REST)
        if all(cpu_seconds(pid) - used < REST / 20 for pid, used in before.items()):
            return


async def usage(
    pids: dict[str, int], begun: tuple[float, dict[str, float]] | None = None
) -> tuple[float, dict[str, float]]:
    """The time and the processor time of each process; ``begun``: the values to subtract."""
    now, used = time.perf_counter(), {role: cpu_seconds(pid) for role, pid in pids.items()}
    if begun is None:
        return now, used
    return now - begun[0], {role: seconds - begun[1][role] for role, seconds in used.items()}


async def run(name: str, arguments: argparse.Namespace) -> Result:
    created: dict[str, float] = {}
    seen: dict[str, float] = {}
    bound: dict[str, float] = {}
    replicas = arguments.replicas if name == OF_DEPLOYMENTS else 1
    warm_up = -(-WARM_UP // replicas)
    posts = warm_up + -(-arguments.pods // replicas)
    scheduler = SCHEDULER_NAMES.get(name, SCHEDULER_NAMES[OURS])
    with tempfile.TemporaryDirectory() as folder, ControlPlane(logs=Path(folder)) as plane:
        plane.apply_crds()
        if name == OF_DEPLOYMENTS:
            plane.start_controller_manager()
        async with Api.of(plane) as api:
            await api.post_all(node_bodies(arguments.nodes))
            await api.post_all(running_pods(arguments.running, arguments.nodes))

            async def watch(ready: asyncio.Event) -> None:
                async with aclosing(api.watch(PODS, ready)) as pods:
                    async for pod in pods:
                        key = pod.metadata.name
                        if not key.startswith("lone-"):
                            continue
                        seen.setdefault(key, time.perf_counter())
                        if pod.spec.node_name:
                            bound.setdefault(key, time.perf_counter())
                            if len(bound) == posts * replicas:
                                return

            async def create(number: int) -> None:
                key = f"lone-{number:05d}"
                path, manifest = PODS, _pod(key, scheduler)
                if name == OF_DEPLOYMENTS:
                    path, manifest = DEPLOYMENTS, _deployment(key, scheduler, replicas)
                created[key] = time.perf_counter()
                await api.post(path, msgspec.json.encode(manifest))

            ready = asyncio.Event()
            watcher = asyncio.create_task(watch(ready))
            await ready.wait()
            with started(name, plane, Path(folder)) as pids:
                await asyncio.sleep(2)
                await quiet(pids.values())
                before = await usage(pids)
                await asyncio.sleep(arguments.rest)
                rest_time, at_rest = await usage(pids, before)
                before = await usage(pids)
                tasks = []
                for number in range(posts):
                    due = before[0] + number * replicas / arguments.rate
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                    tasks.append(asyncio.create_task(create(number)))
                await asyncio.gather(*tasks)
                async with asyncio.timeout(TIMEOUT):
                    await watcher
                seconds, cpu = await usage(pids, before)
                memory = sum(map(peak_memory, pids.values()))
    counted = f"lone-{warm_up:05d}"
    waits = [bound[key] - at for key, at in created.items() if key >= counted and key in bound]
    seen_waits = [bound[key] - at for key, at in seen.items() if key >= counted]
    shares = {role: used / seconds for role, used in cpu.items()}
    return Result(name, waits, seen_waits, shares, {role: used / rest_time for role, used in at_rest.items()}, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--running", type=int, default=0, help="Pods that are on the nodes before")
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10.0, help="Pods per second")
    parser.add_argument(
        "--rest", type=float, default=10.0, help="seconds for which the processor time at rest is measured"
    )
    parser.add_argument("--replicas", type=int, default=5, help="of each Deployment")
    names = [KUBE, OURS, OF_DEPLOYMENTS]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    arguments = parser.parse_args()
    console = Console(width=140)
    title = f"{arguments.nodes:,} nodes, {arguments.running:,} Pods, {arguments.rate:g} Pods/s: created to bound"
    table = Table(title=title)
    for column in ("", "p50", "p99", "longest", "p50 from first event", "cores used", "cores at rest", "peak memory"):
        table.add_column(column, justify="right" if column else "left")
    waits: dict[str, list[float]] = {}
    seen_waits: dict[str, float] = {}
    for name in arguments.only:
        result = uvloop.run(run(name, arguments))
        seen_waits[name] = median(result.seen_waits)
        times = ["", "", ""]
        if result.waits:
            cuts = quantiles(result.waits, n=100, method="inclusive")
            waits[name] = [cuts[49], cuts[98], max(result.waits)]
            times = list(map(_milliseconds, waits[name]))
        shares = (_shares(result.cpu), _shares(result.at_rest))
        table.add_row(name, *times, _milliseconds(seen_waits[name]), *shares, f"{result.memory:.0f} MiB")
        if name == OURS:
            report("peak memory in MiB", result.memory)
            report("processor time per second", sum(result.cpu.values()))
    if KUBE in waits and OURS in waits:
        report(f"p50, of {KUBE}", waits[OURS][0] / waits[KUBE][0])
        report(f"p99, of {KUBE}", waits[OURS][1] / waits[KUBE][1])
    if OURS in waits and OF_DEPLOYMENTS in seen_waits:
        report(
            "Pods of Deployments: p50 from first event, of single Pods", seen_waits[OF_DEPLOYMENTS] / seen_waits[OURS]
        )
    console.print(table)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms"


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{role} {share:.3f}" for role, share in shares.items())


if __name__ == "__main__":
    main()
