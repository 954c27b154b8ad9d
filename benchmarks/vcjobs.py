"""Many vcjobs at once, or (``--acjob``) one AscendJob, on a real API server: the time until all their Pods exist and
until all are bound, compared with loops that only create Pods, or create and bind them.

Each contender gets a new kube-apiserver and etcd. "controllers" runs the controllers alone, and admits every PodGroup
as soon as it is seen, as a scheduler with room for all would do; "controllers and scheduler" runs both, so that Pods
are also bound. Times are from the creation of the first vcjob to the moment a watch shows the Pod. Afterwards, the
processor time of the idle controllers is measured for a while. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import PODS, node_bodies
from benchmarks.contest import IN_FLIGHT, TIMEOUT, Api, Seen, cpu_seconds, peak_memory, running
from benchmarks.figures import report, report_time
from benchmarks.lone_pods import quiet
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
ACJOBS = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
CONTROLLERS = "controllers"
SCHEDULER = "scheduler"
CREATES, BINDS = "bare loop", "bare loop that binds"
CONTENDERS: dict[str, Sequence[str]] = {
    CREATES: (),
    BINDS: (),
    "controllers": (CONTROLLERS,),
    "controllers and scheduler": (CONTROLLERS, SCHEDULER),
}


@dataclass
class Result:
    """The result of one contender; seconds, and MiB of memory. Negative: not measured."""

    name: str
    pods: int = 0
    jobs_created: float = -1.0
    all_exist: float = 0.0
    first_bound: float = -1.0
    all_bound: float = -1.0
    cpu: dict[str, float] = field(default_factory=dict)
    """Maps each role to its processor time from the first vcjob to the last Pod."""
    memory: float = -1.0
    """The peak memory of the controllers."""
    idle_share: float = -1.0
    """The share of one core that the controllers use once nothing happens any more."""


def template() -> dict[str, object]:
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}


def job_bodies(jobs: int, replicas: int) -> Iterable[tuple[str, bytes]]:
    for i in range(jobs):
        job = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": f"job-{i:04d}"},
            "spec": {
                "schedulerName": "volcano-py",
                "queue": "default",
                "minAvailable": replicas,
                "tasks": [{"name": "worker", "replicas": replicas, "template": template()}],
            },
        }
        yield JOBS, msgspec.json.encode(job)


def acjob_bodies(jobs: int, replicas: int) -> Iterable[tuple[str, bytes]]:
    """One AscendJob with as many Pods of eight chips."""
    container = {
        "name": "ascend",
        "image": "registry.example/train:1",
        "resources": {"requests": {"huawei.com/Ascend910": "8"}, "limits": {"huawei.com/Ascend910": "8"}},
    }
    role: dict[str, object] = {"template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}
    job = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": "train", "labels": {"framework": "pytorch"}},
        "spec": {
            "schedulerName": "volcano-py",
            "replicaSpecs": {"Master": role, "Worker": {"replicas": jobs * replicas - 1, **role}},
        },
    }
    yield ACJOBS, msgspec.json.encode(job)


def pod_bodies(jobs: int, replicas: int) -> Iterable[tuple[str, bytes]]:
    """The Pods a controller would make of the jobs."""
    for i in range(jobs):
        for j in range(replicas):
            name = f"job-{i:04d}"
            own = {"volcano.sh/job-name": name, "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(j)}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-worker-{j}",
                    "labels": {**own, "volcano.sh/job-namespace": "default", "volcano.sh/queue-name": "default"},
                    "annotations": {**own, GROUP_NAME: name, "volcano.sh/job-version": "0"},
                },
                "spec": {"schedulerName": "volcano-py", **template()["spec"]},  # type: ignore[dict-item]
            }
            yield PODS, msgspec.json.encode(pod)


async def create_and_bind(api: Api, arguments: argparse.Namespace) -> None:
    """Creates the Pods and binds each as soon as it exists."""
    nodes = cycle(f"node-{i:05d}" for i in range(arguments.nodes))

    async def both(path: str, body: bytes) -> None:
        await api.post(path, body)
        name = msgspec.json.decode(body, type=Seen).metadata.name
        target = {"apiVersion": "v1", "kind": "Node", "name": next(nodes)}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await api.post(f"{PODS}/{name}/binding", msgspec.json.encode(binding))

    await api.do_all(both, pod_bodies(arguments.jobs, arguments.replicas))


@dataclass
class Times:
    """The times of the clock at which a watch showed Pods for the first time."""

    exist: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)

    async def watch(self, api: Api, expected: int, binds: bool, ready: asyncio.Event) -> None:
        """Returns when so many Pods have been seen, on nodes if ``binds``."""
        async with aclosing(api.watch(PODS, ready)) as pods:
            async for pod in pods:
                now = time.perf_counter()
                self.exist.setdefault(pod.metadata.name, now)
                if pod.spec.node_name:
                    self.bound.setdefault(pod.metadata.name, now)
                if len(self.bound if binds else self.exist) >= expected:
                    return


async def open_groups(api: Api) -> None:
    """Sets every PodGroup to Inqueue as soon as it is seen."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    body = msgspec.json.encode({"status": {"phase": "Inqueue"}})

    async def enqueue(name: str) -> None:
        async with slots:
            await api.patch(f"{GROUPS}/{name}", body)

    async with asyncio.TaskGroup() as tasks:
        async for group in api.watch(GROUPS):
            if group.status.phase in ("", "Pending"):
                tasks.create_task(enqueue(group.metadata.name))


def new_queues(plane: ControlPlane) -> None:
    """Creates the queues that every cluster has."""
    for queue in ("root", "default"):
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
        plane.admin.create("/apis/scheduling.volcano.sh/v1beta1/queues", body)


async def run(name: str, arguments: argparse.Namespace) -> Result:
    result = Result(name, arguments.jobs * arguments.replicas)
    roles = CONTENDERS[name]
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(logs=Path(temporary)) as plane:
        folder = Path(temporary)
        plane.apply_crds()
        new_queues(plane)
        async with Api.of(plane) as api:
            await api.post_all(node_bodies(arguments.nodes))
            ready = asyncio.Event()
            times, binds = Times(), name == BINDS or SCHEDULER in roles
            watcher = asyncio.create_task(times.watch(api, result.pods, binds, ready))
            opener = asyncio.create_task(open_groups(api)) if roles and SCHEDULER not in roles else None
            with ExitStack() as processes:
                pids = {
                    role: processes.enter_context(running(role, plane, folder, "--leader-elect=false", "-v=1"))
                    for role in roles
                }
                await ready.wait()
                await asyncio.sleep(2)
                await quiet(pids.values())
                before = {role: cpu_seconds(pid) for role, pid in pids.items()}
                begun = time.perf_counter()
                if roles:
                    bodies = acjob_bodies if arguments.acjob else job_bodies
                    await api.post_all(bodies(arguments.jobs, arguments.replicas))
                    result.jobs_created = time.perf_counter() - begun
                elif binds:
                    await create_and_bind(api, arguments)
                else:
                    await api.post_all(pod_bodies(arguments.jobs, arguments.replicas))
                await asyncio.wait_for(watcher, TIMEOUT)
                result.all_exist = max(times.exist.values()) - begun
                if binds:
                    result.first_bound = min(times.bound.values()) - begun
                    result.all_bound = max(times.bound.values()) - begun
                if roles:
                    result.cpu = {role: cpu_seconds(pid) - before[role] for role, pid in pids.items()}
                    pid = pids[CONTROLLERS]
                    result.memory = peak_memory(pid)
                    await asyncio.sleep(arguments.rest)
                    used, moment = cpu_seconds(pid), time.perf_counter()
                    await asyncio.sleep(arguments.idle)
                    result.idle_share = (cpu_seconds(pid) - used) / (time.perf_counter() - moment)
                if opener is not None:
                    opener.cancel()
                    with suppress(asyncio.CancelledError):
                        await opener
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rest", type=float, default=15.0, help="seconds to let things settle afterwards")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds over which the cost at rest is measured")
    parser.add_argument("--only", nargs="*", choices=list(CONTENDERS))
    parser.add_argument("--acjob", action="store_true", help="one AscendJob with all the Pods, without the scheduler")
    arguments = parser.parse_args()
    what = "an AscendJob for" if arguments.acjob else "vcjobs for"
    # The nodes have no chips: the scheduler would never admit the AscendJob.
    possible = [name for name, roles in CONTENDERS.items() if not (arguments.acjob and SCHEDULER in roles)]
    console = Console(width=170)
    results = []
    for name in arguments.only or possible:
        console.print(f"{name}: {what} {arguments.jobs:,} × {arguments.replicas} Pods ...")
        results.append(uvloop.run(run(name, arguments)))
        console.print(f"  {max(results[-1].all_exist, results[-1].all_bound):.1f} s")
    bare = {result.name: result for result in results}
    created = bare[CREATES].all_exist if CREATES in bare else 0.0
    bound = bare[BINDS].all_bound if BINDS in bare else 0.0
    table = Table(title=f"{what} {arguments.jobs:,} × {arguments.replicas} Pods, {arguments.nodes:,} nodes")
    columns = ("", "jobs created", "all Pods exist", "of bare loop", "first Pod bound", "all Pods bound")
    for column in (*columns, "of loop that binds", "cpu per Pod", "peak memory", "cpu at rest"):
        table.add_column(column, justify="right" if column else "left")
    for result in results:
        if created and result.name != CREATES:
            report(f"{result.name}: all Pods exist, of bare loop", result.all_exist / created)
        if bound and result.all_bound >= 0 and result.name != BINDS:
            report(f"{result.name}: all Pods bound, of {BINDS}", result.all_bound / bound)
        if result.cpu:
            report(f"{result.name}: peak memory in MiB", result.memory)
            for role, seconds in result.cpu.items():
                report_time(f"{result.name}: processor time of {role}", seconds)
        table.add_row(
            result.name,
            _measured(result.jobs_created, "{:.1f} s"),
            f"{result.all_exist:.1f} s",
            f"{result.all_exist / created:.2f} ×" if created else "",
            _measured(result.first_bound, "{:.2f} s"),
            _measured(result.all_bound, "{:.1f} s"),
            f"{result.all_bound / bound:.2f} ×" if bound and result.all_bound >= 0 else "",
            ", ".join(f"{role} {1e6 * cpu / result.pods:.0f} µs" for role, cpu in result.cpu.items()),
            _measured(result.memory, "{:.0f} MiB"),
            _measured(100 * result.idle_share, "{:.1f} %"),
        )
    console.print(table)


def _measured(value: float, text: str) -> str:
    return text.format(value) if value >= 0 else ""


if __name__ == "__main__":
    main()
