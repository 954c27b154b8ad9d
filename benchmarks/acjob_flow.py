"""One AscendJob of many Pods from its creation to its complete hccl.json, with all programs, on a real API server.

Scheduler, controllers and the nodes of ``playground`` run, each as a process. Two loops run beside them, each contender
on a new API server: "one by one" creates the same Pods one after the other; "same requests" decides nothing and sends
only the requests that each Pod needs: it is created, bound with its annotations, gets its chips, and runs. Prints
when the last object of each kind is seen, and the requests that the API server has answered. Asserts nothing.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import PODS
from benchmarks.contest import IN_FLIGHT, TIMEOUT, Api, Seen, answered_requests, command, cpu_seconds, running
from benchmarks.figures import report
from benchmarks.lone_pods import quiet
from benchmarks.rank_tables import CHIPS, ONE_BY_ONE, QUEUE, new_table, note_tables, pod_bodies, with_chips
from benchmarks.replicas import wait
from benchmarks.vcjobs import CONTROLLERS, GROUPS, SCHEDULER, acjob_bodies, new_queues
from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, PREDICATE_TIME

SERVICES = "/api/v1/namespaces/default/services"
FAMILY = f"910-{CHIPS}"
SAME_REQUESTS, PROGRAMS = "same requests", "our programs"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: ascend}, {name: priority}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@dataclass
class Result:
    """The result of one contender; seconds since the creation of the job, or of the first Pod."""

    name: str
    seen: dict[str, float] = field(default_factory=dict)
    """Maps each step to the time when the last object was seen."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Maps each process to its processor time."""
    requests: Counter[str] = field(default_factory=Counter)


class Progress:
    """Records the time when all objects of a kind have been seen."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.moments: dict[str, float] = {}
        self._names: dict[str, set[str]] = {}
        self.exist, self.run = asyncio.Event(), asyncio.Event()

    def _note(self, what: str, name: str, expected: int) -> bool:
        """Returns whether that was the last one."""
        names = self._names.setdefault(what, set())
        names.add(name)
        if len(names) < expected or what in self.moments:
            return False
        self.moments[what] = time.perf_counter()
        return True

    async def pods(self, api: Api, ready: asyncio.Event) -> None:
        async with aclosing(api.watch(PODS, ready)) as pods:
            async for pod in pods:
                name = pod.metadata.name
                if self._note("Pods exist", name, self._expected):
                    self.exist.set()
                if pod.spec.node_name:
                    self._note("bound", name, self._expected)
                if pod.status.phase == "Running" and self._note("run", name, self._expected):
                    self.run.set()

    async def others(self, api: Api, path: str, what: str, ready: asyncio.Event) -> None:
        """``path``: the collection of the single object of another kind."""
        async with aclosing(api.watch(path, ready)) as objects:
            async for each in objects:
                if each.metadata.name != "kubernetes":  # the Service of the API server
                    self._note(what, each.metadata.name, 1)


async def same_requests(api: Api, pods: int) -> None:
    """Sends the requests that each Pod of the job needs at least."""
    numbers = count()

    async def whole(path: str, body: bytes) -> None:
        await api.post(path, body)
        name = msgspec.json.decode(body, type=Seen).metadata.name
        number = next(numbers)
        chips = ",".join(f"Ascend910-{chip}" for chip in range(CHIPS))
        annotations = {ASCEND_910: chips, PREDICATE_TIME: str(time.time_ns())}
        target = {"apiVersion": "v1", "kind": "Node", "name": f"npu-{FAMILY}-{number}"}
        binding = {"metadata": {"name": name, "annotations": annotations}, "target": target}
        await api.post(f"{PODS}/{name}/binding", msgspec.json.encode(binding))
        patch = msgspec.json.decode(with_chips(number, number))
        await api.patch(f"{PODS}/{name}", msgspec.json.encode({"metadata": patch["metadata"]}))
        await api.patch(f"{PODS}/{name}/status", msgspec.json.encode({"status": patch["status"]}))

    await api.do_all(whole, pod_bodies(pods))


async def run(name: str, number: int) -> Result:
    """``number``: the number of Pods and of nodes."""
    result = Result(name)
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(logs=Path(temporary)) as plane, ExitStack() as stack:
        folder = Path(temporary)
        plane.apply_crds()
        new_queues(plane)
        new_table(plane)
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": "mindx-dl"}})
        pids: dict[str, int] = {}
        if name == PROGRAMS:
            options = (f"--nodes={number}", f"--family={FAMILY}", "--keep")
            pids = {"playground": stack.enter_context(command("playground", plane, folder, *options))}
            log = folder / "playground.log"
            wait(lambda: log.read_text(encoding="utf-8").count(f"{CHIPS} free") >= number)
            configuration = folder / "scheduler.conf"
            configuration.write_text(CONFIGURATION, encoding="utf-8")
            for role, *own in ((SCHEDULER, f"--scheduler-conf={configuration}"), (CONTROLLERS,)):
                flags = ("--leader-elect=false", "-v=1", *own)
                pids[role] = stack.enter_context(running(role, plane, folder, *flags))
        async with Api.of(plane) as api:
            await measure(result, api, plane, pids, number)
    return result


async def measure(result: Result, api: Api, plane: ControlPlane, pids: dict[str, int], number: int) -> None:
    progress, completed = Progress(number), asyncio.Event()
    times: list[tuple[float, str]] = []
    ready = [asyncio.Event() for _ in range(3)]
    tasks = [
        asyncio.create_task(each)
        for each in (
            progress.pods(api, ready[0]),
            progress.others(api, GROUPS, "PodGroup", ready[1]),
            progress.others(api, SERVICES, "Service", ready[2]),
            note_tables(api, times, completed),
        )
    ]
    for each in ready:
        await each.wait()
    await asyncio.sleep(4)
    await quiet(pids.values())
    await api.patch_all((QUEUE, b"{}") for _ in range(10 * IN_FLIGHT))
    before = answered_requests(plane.admin.get("/metrics"))
    used = {each: cpu_seconds(pid) for each, pid in pids.items()}
    begun = time.perf_counter()
    if result.name == PROGRAMS:
        await api.post_all(acjob_bodies(1, number))
        await asyncio.wait_for(completed.wait(), TIMEOUT)
        progress.moments["hccl.json complete"] = next(moment for moment, status in times if status == "completed")
    elif result.name == SAME_REQUESTS:
        await same_requests(api, number)
        await asyncio.wait_for(progress.run.wait(), TIMEOUT)
    else:
        for path, body in pod_bodies(number):
            await api.post(path, body)
        await asyncio.wait_for(progress.exist.wait(), TIMEOUT)
    result.cpu = {each: cpu_seconds(pid) - used[each] for each, pid in pids.items()}
    result.requests = answered_requests(plane.admin.get("/metrics")) - before
    result.seen = {what: moment - begun for what, moment in progress.moments.items()}
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3, help="the contenders run in turn, so many times")
    arguments = parser.parse_args()
    console = Console(width=150)
    table = Table(title=f"an AscendJob of {arguments.pods:,} Pods with {CHIPS} chips each: when the last one is seen")
    steps = ("PodGroup", "Pods exist", "Service", "bound", "run", "hccl.json complete")
    loops = (ONE_BY_ONE, SAME_REQUESTS)
    for column in ("", *steps, *(f"of {loop}" for loop in loops)):
        table.add_column(column, justify="right" if column else "left")
    ratios: dict[str, list[float]] = {loop: [] for loop in loops}
    for _ in range(arguments.rounds):
        results = {name: uvloop.run(run(name, arguments.pods)) for name in (*loops, PROGRAMS)}
        ours = results[PROGRAMS]
        for loop in loops:
            ratios[loop].append(ours.seen["hccl.json complete"] / max(results[loop].seen.values()))
        for result in results.values():
            seen = (f"{result.seen[step]:.2f} s" if step in result.seen else "" for step in steps)
            table.add_row(result.name, *seen, *(f"{ratios[loop][-1]:.2f} x" for loop in loops if result is ours))
    console.print(table)
    console.print(", ".join(f"{each} {seconds:.2f} s" for each, seconds in ours.cpu.items()))
    console.print(", ".join(f"{request}: {times:,}" for request, times in ours.requests.most_common() if times > 9))
    for loop in loops:
        report(f"complete, of {loop}", min(ratios[loop]))


if __name__ == "__main__":
    main()
