"""Many vcjobs at once, or (``--acjob``) one AscendJob, on a real API server: the time until all their Pods exist,
compared with a loop that only creates Pods.

Each contender gets a new kube-apiserver and etcd. "controllers" runs the controllers alone, and opens every PodGroup as
soon as it is seen, as a scheduler with room for all would; "controllers and scheduler" runs both, so that Pods are also
bound. The result is the time from the creation of the first vcjob to the moment the last Pod is seen. Afterwards the
controllers are left alone for a while, and what they use in that time is measured. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import PODS, node_bodies
from benchmarks.contest import IN_FLIGHT, PATIENCE, Api, cpu_seconds, peak_memory, running
from benchmarks.figures import report
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
ACJOBS = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
CONTROLLERS = "controllers"
SCHEDULER = "scheduler"
CONTENDERS: dict[str, Sequence[str]] = {
    "bare loop": (),
    "controllers": (CONTROLLERS,),
    "controllers and scheduler": (CONTROLLERS, SCHEDULER),
}


@dataclass
class Result:
    """The result of one contender; seconds, and MiB of memory."""

    name: str
    pods: int = 0
    jobs_created: float = 0.0
    all_exist: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    idle_share: float = -1.0
    """Of one core, once nothing happens any more; negative: not measured."""


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


async def watch_pods(api: Api, expected: int, ready: asyncio.Event) -> None:
    """Return when so many Pods have been seen."""
    seen: set[str] = set()
    async with aclosing(api.watch(PODS, ready)) as pods:
        async for pod in pods:
            seen.add(pod.metadata.name)
            if len(seen) >= expected:
                return


async def open_groups(api: Api) -> None:
    """Set every PodGroup to Inqueue as soon as it is seen."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    body = msgspec.json.encode({"status": {"phase": "Inqueue"}})

    async def enqueue(name: str) -> None:
        async with slots:
            await api.patch(f"{GROUPS}/{name}", body)

    async with asyncio.TaskGroup() as tasks:
        async for group in api.watch(GROUPS):
            if group.status.phase in ("", "Pending"):
                tasks.create_task(enqueue(group.metadata.name))


async def run(name: str, arguments: argparse.Namespace) -> Result:
    result = Result(name, arguments.jobs * arguments.replicas)
    roles = CONTENDERS[name]
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(logs=Path(temporary)) as plane:
        folder = Path(temporary)
        plane.apply_crds()
        for queue in ("root", "default"):
            plane.admin.create(
                "/apis/scheduling.volcano.sh/v1beta1/queues",
                {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}},
            )
        async with Api.of(plane) as api:
            await api.post_all(node_bodies(arguments.nodes))
            ready = asyncio.Event()
            watcher = asyncio.create_task(watch_pods(api, result.pods, ready))
            opener = asyncio.create_task(open_groups(api)) if roles and SCHEDULER not in roles else None
            with ExitStack() as processes:
                pids = [
                    processes.enter_context(running(role, plane, folder, "--leader-elect=false", "-v=1"))
                    for role in roles
                ]
                await ready.wait()
                await asyncio.sleep(4)
                begun = time.perf_counter()
                if roles:
                    bodies = acjob_bodies if arguments.acjob else job_bodies
                    await api.post_all(bodies(arguments.jobs, arguments.replicas))
                    result.jobs_created = time.perf_counter() - begun
                else:
                    await api.post_all(pod_bodies(arguments.jobs, arguments.replicas))
                await asyncio.wait_for(watcher, PATIENCE)
                result.all_exist = time.perf_counter() - begun
                if pids:
                    result.cpu, result.memory = cpu_seconds(pids[0]), peak_memory(pids[0])
                    await asyncio.sleep(arguments.rest)
                    before, moment = cpu_seconds(pids[0]), time.perf_counter()
                    await asyncio.sleep(arguments.idle)
                    spent = cpu_seconds(pids[0]) - before
                    result.idle_share = spent / (time.perf_counter() - moment)
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
    parser.add_argument("--only", nargs="*", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--acjob", action="store_true", help="one AscendJob with all the Pods")
    arguments = parser.parse_args()
    what = "an AscendJob for" if arguments.acjob else "vcjobs for"
    console = Console(width=120)
    results = []
    for name in arguments.only:
        console.print(f"{name}: {what} {arguments.jobs:,} × {arguments.replicas} Pods ...")
        results.append(uvloop.run(run(name, arguments)))
        console.print(f"  {results[-1].all_exist:.1f} s")
    bare = next((result.all_exist for result in results if result.name == "bare loop"), 0.0)
    table = Table(title=f"{what} {arguments.jobs:,} × {arguments.replicas} Pods, {arguments.nodes:,} nodes")
    for column in ("", "Pods", "jobs created", "all Pods exist", "of bare loop", "cpu", "peak memory", "cpu at rest"):
        table.add_column(column, justify="right" if column else "left")
    for result in results:
        if bare and result.all_exist != bare:
            report(f"{result.name}: all Pods exist, of bare loop", result.all_exist / bare)
            report(f"{result.name}: peak memory in MiB", result.memory)
        table.add_row(
            result.name,
            f"{result.pods:,}",
            f"{result.jobs_created:.1f} s" if result.jobs_created else "",
            f"{result.all_exist:.1f} s",
            f"{result.all_exist / bare:.2f} ×" if bare else "",
            f"{result.cpu:.1f} s" if result.cpu else "",
            f"{result.memory:.0f} MiB" if result.memory else "",
            f"{100 * result.idle_share:.1f} %" if result.idle_share >= 0 else "",
        )
    console.print(table)


if __name__ == "__main__":
    main()
