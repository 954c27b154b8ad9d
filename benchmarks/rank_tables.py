"""The complete hccl.json of one AscendJob of many Pods, on a real API server, and loops that only create Pods.

Each contender gets a new kube-apiserver and etcd. "one by one" creates the same Pods one after the other, over one
connection; "64 at once" has 64 requests in flight. "job" runs the controllers with one AscendJob; its PodGroup is
opened as soon as it is seen, and each Pod gets its chips, an address and the phase Running as soon as it is seen, by
one request per Pod, while scheduler, device plugin and kubelet would send several. During "64 at once, chips",
Pods get their chips in the same way, since these requests delay the requests that create Pods.

The results: the time from the creation of the job until its Pods exist, until the last one has its chips, and until
hccl.json is complete; the number of writes of hccl.json, and the shortest time between two. Then one Pod after the
other gets another address for a while, which changes the table each time. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from itertools import count, islice, pairwise
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import PODS
from benchmarks.contest import IN_FLIGHT, TIMEOUT, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from benchmarks.vcjobs import CONTROLLERS, acjob_bodies, new_queues, open_groups
from controlplane.run import ControlPlane
from scheduler.api.acjob import AscendJob, roles_of
from scheduler.api.names import ASCEND_910_CONFIGURATION
from scheduler.controllers.acjob.environment import CLUSTERD_DOMAIN, Addresses
from scheduler.controllers.acjob.manifests import RolePod, members, pod

QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = "rings-config-train"
CHIPS = 8
ONE_BY_ONE, AT_ONCE, WITH_CHIPS, JOB = "one by one", f"{IN_FLIGHT} at once", f"{IN_FLIGHT} at once, chips", "job"


@dataclass
class Result:
    """The result of one contender, in seconds since the start, and MiB of memory."""

    name: str
    pods_exist: float = 0.0
    last_chips: float = 0.0
    completed: float = 0.0
    writes: list[float] = field(default_factory=list)
    """The time when hccl.json was written."""
    later_writes: list[float] = field(default_factory=list)
    """The same while addresses change."""
    changed: int = 0
    """The number of addresses that changed."""
    cpu: float = 0.0
    memory: float = 0.0


def with_chips(number: int, address: int) -> bytes:
    """The request that represents scheduler, device plugin and kubelet. ``address``: the last parts of the Pod's
    address."""
    chips = [
        {"device_id": str(chip), "device_ip": f"10.{number // 250}.{number % 250}.{chip + 1}", "super_device_id": "0"}
        for chip in range(CHIPS)
    ]
    host = f"192.168.{number // 250}.{number % 250 + 1}"
    configuration = {"server_id": str(number), "host_ip": host, "server_ip": host, "devices": chips}
    ip = f"10.9.{address // 250}.{address % 250 + 1}"
    body = {
        "metadata": {"annotations": {ASCEND_910_CONFIGURATION: json.dumps(configuration)}},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": host},
    }
    return msgspec.json.encode(body)


def pod_bodies(number: int) -> Iterator[tuple[str, bytes]]:
    """The Pods that the controllers create for the job."""
    ((_, body),) = acjob_bodies(1, number)
    job = msgspec.json.decode(body, type=AscendJob)
    job.metadata.namespace, job.metadata.uid = "default", "00000000-0000-0000-0000-000000000000"
    roles = roles_of(job)
    context = RolePod(job, roles, Addresses("10.0.0.1", CLUSTERD_DOMAIN), 0, "volcano-py")
    for _, role, index in members(job, roles):
        yield PODS, msgspec.json.encode(pod(context, role, index))


class Devices:
    """Gives chips to each Pod that is seen."""

    def __init__(self, api: Api, expected: int) -> None:
        self._api = api
        self._expected = expected
        self.pods: list[str] = []
        self.done = asyncio.Event()
        self.seen_last = 0.0
        self.gave_last = 0.0

    async def run(self, ready: asyncio.Event, gives: bool) -> None:
        """Handles Pods as they are seen, with as many requests in flight as the loop that creates them. ``gives``:
        whether Pods get chips; otherwise they are only counted."""
        numbers: asyncio.Queue[int] = asyncio.Queue()
        workers = [asyncio.create_task(self._give(numbers)) for _ in range(IN_FLIGHT)]
        seen: set[str] = set()
        async with aclosing(self._api.watch(PODS, ready)) as pods:
            async for pod in pods:
                if pod.metadata.name in seen:
                    continue
                seen.add(pod.metadata.name)
                self.pods.append(pod.metadata.name)
                if gives:
                    numbers.put_nowait(len(self.pods) - 1)
                if len(seen) >= self._expected:
                    break
        self.seen_last = time.perf_counter()
        await numbers.join()
        self.gave_last = time.perf_counter()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self.done.set()

    async def _give(self, numbers: asyncio.Queue[int]) -> None:
        while True:
            number = await numbers.get()
            await self._api.patch(f"{PODS}/{self.pods[number]}/status", with_chips(number, number))
            numbers.task_done()

    def changes(self) -> Iterator[tuple[str, bytes]]:
        """Yields other addresses for one Pod after the other, without end."""
        for i in count():
            pod = i % len(self.pods)
            yield f"{PODS}/{self.pods[pod]}/status", with_chips(pod, len(self.pods) + i % 50_000)


async def note_tables(api: Api, times: list[tuple[float, str]], completed: asyncio.Event) -> None:
    """Records the time when hccl.json is written, and its status."""
    known = ""
    async with aclosing(api.watch_maps(MAPS)) as maps:
        async for each in maps:
            text = each.data.get("hccl.json", "")
            if each.metadata.name == CONFIG_MAP and text != known:
                if known:
                    status = json.loads(text)["status"]
                    times.append((time.perf_counter(), status))
                    if status == "completed":
                        completed.set()
                known = text


def new_table(plane: ControlPlane) -> None:
    """Creates the ConfigMap for the hccl.json of the job."""
    labels = {"ring-controller.atlas": "ascend-910"}
    initializing = {"hccl.json": '{"status":"initializing"}'}
    plane.admin.create(MAPS, {"metadata": {"name": CONFIG_MAP, "labels": labels}, "data": initializing})


async def run(name: str, arguments: argparse.Namespace) -> Result:
    result = Result(name)
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(logs=Path(temporary)) as plane:
        folder = Path(temporary)
        plane.apply_crds()
        new_queues(plane)
        new_table(plane)
        async with Api.of(plane) as creator, Api.of(plane) as others:
            await measure(result, creator, others, plane, folder, arguments)
    return result


async def measure(
    result: Result, creator: Api, api: Api, plane: ControlPlane, folder: Path, arguments: argparse.Namespace
) -> None:
    """``creator``: a loop that opens its connections when it begins, as the controllers do; ``api``: has open
    connections."""
    devices, ready, completed = Devices(api, arguments.pods), asyncio.Event(), asyncio.Event()
    times: list[tuple[float, str]] = []
    with ExitStack() as processes:
        pid = 0
        others = [asyncio.create_task(devices.run(ready, result.name in (WITH_CHIPS, JOB)))]
        if result.name == JOB:
            pid = processes.enter_context(running(CONTROLLERS, plane, folder, "--leader-elect=false", "-v=1"))
            others += [asyncio.create_task(open_groups(api)), asyncio.create_task(note_tables(api, times, completed))]
        await ready.wait()
        await asyncio.sleep(4)
        await api.patch_all((QUEUE, b"{}") for _ in range(10 * IN_FLIGHT))
        bodies = list(acjob_bodies(1, arguments.pods) if result.name == JOB else pod_bodies(arguments.pods))
        begun, spent = time.perf_counter(), cpu_seconds(pid) if pid else 0.0
        if result.name == ONE_BY_ONE:
            for path, body in bodies:
                await creator.post(path, body)
        else:
            await creator.post_all(bodies)
        await asyncio.wait_for(devices.done.wait(), TIMEOUT)
        result.pods_exist, result.last_chips = devices.seen_last - begun, devices.gave_last - begun
        if pid:
            await asyncio.wait_for(completed.wait(), TIMEOUT)
            result.completed = next(moment for moment, status in times if status == "completed") - begun
            result.cpu, result.memory = cpu_seconds(pid) - spent, peak_memory(pid)
            result.writes = [moment - begun for moment, _ in times]
            times.clear()
            await change(result, api, devices, arguments.changes)
            await asyncio.sleep(3)
            result.later_writes = [moment - begun for moment, _ in times]
        for each in others:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each


async def change(result: Result, api: Api, devices: Devices, seconds: float) -> None:
    """Changes addresses for a time."""
    end, changes = time.perf_counter() + seconds, devices.changes()
    while time.perf_counter() < end:
        await api.patch_all(islice(changes, 50))
        result.changed += 50


def shortest(times: list[float]) -> str:
    """The shortest time between two of the moments."""
    return f"{min(b - a for a, b in pairwise(times)):.2f} s" if len(times) > 1 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3, help="the contenders run in turn, so many times")
    parser.add_argument("--changes", type=float, default=10.0, help="seconds during which addresses change")
    arguments = parser.parse_args()
    console = Console(width=180)
    table = Table(title=f"hccl.json of an AscendJob with {arguments.pods:,} Pods of {CHIPS} chips")
    loops = (ONE_BY_ONE, AT_ONCE, WITH_CHIPS)
    columns = ("", "Pods exist", "last chips", "completed", *(f"of {name}" for name in loops))
    for column in (*columns, "writes", "changes", "writes then", "apart", "cpu", "peak memory"):
        table.add_column(column, justify="right" if column else "left")
    ratios: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(arguments.rounds):
        results = {name: uvloop.run(run(name, arguments)) for name in (*loops, JOB)}
        job = results[JOB]
        for name in loops:
            ratios[name].append(job.completed / max(results[name].pods_exist, results[name].last_chips))
        for result in results.values():
            of_job = (
                f"{job.completed:.2f} s",
                *(f"{ratios[name][-1]:.2f} x" for name in loops),
                str(len(job.writes)),
                f"{job.changed:,}",
                str(len(job.later_writes)),
                shortest(job.later_writes),
                f"{job.cpu:.2f} s",
                f"{job.memory:.0f} MiB",
            )
            chips = f"{result.last_chips:.2f} s" if result.name in (WITH_CHIPS, JOB) else ""
            table.add_row(result.name, f"{result.pods_exist:.2f} s", chips, *(of_job if result is job else ()))
    for name in loops:
        report(f"completed, of {name}", min(ratios[name]))
    console.print(table)


if __name__ == "__main__":
    main()
