"""Measures the commands ``explain``, ``can-run`` and ``simulate``, from the start of the process to its end.

``explain`` explains jobs that wait on 2,000 nodes with 20,000 Pods, read from a file as ``kubectl get -o json`` prints
it and from manifests, with the built-in configuration and with a configuration that has preempt and reclaim.
``can-run`` answers about jobs that are not submitted to this cluster: one that runs, one that waits, and one that never
runs. ``simulate -o json`` places 100,000 Pods on 10,000 nodes, and prints all objects. With ``--live``, ``explain`` and
``can-run`` read a real API server, which takes minutes to fill, and the process that answers for the scheduler gets the
questions of ``can-run``: the first one, for which it reads the cluster, and others. Prints a table; asserts nothing.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.contest import installed
from benchmarks.figures import report, report_time
from benchmarks.live_cluster import fill
from benchmarks.live_objects import Raw, cluster, gang
from controlplane.run import ControlPlane
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.cli.visibility_worker import COMMAND
from scheduler.cluster.kube.scheduler.visibility.answers import MAX_PAUSE, Worker, WorkerAnswers

EVICTING = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: ascend},
            {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
LIMITS = {"default": 5, "preempt and reclaim": 15, "simulate": 20, "can-run": 2}
"""The time limit of a command in seconds, on two cores that are otherwise idle."""


def waiting(shape: str, plain: bool) -> tuple[str, Iterator[Raw]]:
    """The name of a job that waits, and its objects."""
    if shape == "too big for any node":
        return "big", gang("big", "research", 1, "500", plain=plain)
    if shape == "over its queue's quota":
        return "over", gang("over", "narrow", 8, "4", plain=plain)
    first = (raw for i in range(100) for raw in gang(f"first-{i:03d}", "research", 10, "6", plain=plain))
    return "last", (raw for part in (first, gang("last", "research", 10, "6", plain=plain)) for raw in part)


NAMESPACES = "/api/v1/namespaces"
SHAPES = ("too big for any node", "over its queue's quota", "behind 100 gangs")
SUBMITTED = {"runs": (0, "research", 1, "0"), "waits": (3, "research", 40, "6"), "never": (4, "narrow", 8, "4")}
"""Verdict -> its exit code, and queue, Pods and cpu of a job that gets it."""


def submitted(name: str, queue: str, replicas: int, cpu: str) -> Raw:
    """A vcjob that is not in the cluster."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "8Gi"}}}
    task = {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    spec = {"queue": queue, "minAvailable": replicas, "tasks": [task]}
    meta = {"name": name, "namespace": "jobs"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def write(path: Path, objects: Iterator[Raw]) -> None:
    """Writes a List, indented as by kubectl, object by object: memory that this process uses would count as that of the
    processes it starts."""
    with path.open("w") as file:
        file.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for number, raw in enumerate(objects):
            file.write(",\n" * bool(number) + json.dumps(raw, indent=4))
        file.write("]}\n")


def run(arguments: list[str], code: int = 0) -> tuple[float, float, float]:
    """The elapsed seconds, processor seconds and peak memory in MiB of one command. ``code``: its exit code."""
    command = [sys.executable, "-m", "scheduler.cli.main", *arguments]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=installed()) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


async def asked_of_scheduler(kubeconfig: Path) -> list[tuple[str, float]]:
    """What is asked, and the seconds for the answer of the process that answers for the scheduler. It reads the cluster
    for the first question."""
    settings = {"kubeconfig": str(kubeconfig), "scheduler_names": [DEFAULT_SCHEDULER_NAME]}
    answers, found = WorkerAnswers(Worker(COMMAND, settings)), []
    try:
        for name, verdict in (("first question", "runs"), *((verdict, verdict) for verdict in SUBMITTED)):
            _, queue, replicas, cpu = SUBMITTED[verdict]
            begun = time.perf_counter()
            answer = await answers.review("jobs", json.dumps(submitted(verdict, queue, replicas, cpu)))
            seconds = time.perf_counter() - begun
            if answer.status != 200 or json.loads(bytes(answer.body))["verdict"] != verdict:
                raise RuntimeError(f"{name}: {answer.status} {answer.message}")
            found.append((f"can-run: {name}", seconds))
            await asyncio.sleep(min(seconds, MAX_PAUSE))  # before that, no further question is answered
        return found
    finally:
        await answers.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000, help="of the cluster of explain")
    parser.add_argument("--pods", type=int, default=20_000, help="of the cluster of explain")
    parser.add_argument("--simulated-nodes", type=int, default=10_000)
    parser.add_argument("--simulated-pods", type=int, default=100_000)
    parser.add_argument("--live", action="store_true", help="explain on a real API server, and nothing else")
    arguments = parser.parse_args()
    table = Table(title="Whole commands", title_justify="left")
    for column in ("command", "input", "configuration", "time", "cpu", "peak memory", "at most"):
        table.add_column(column, justify="left" if column in ("command", "input", "configuration") else "right")

    def row(command: str, source: str, configuration: str, line: list[str], code: int = 0) -> None:
        seconds, cpu, memory = run(line, code)
        report_time(f"{command}, {source}, {configuration}: processor time", cpu)
        report(f"{command}, {source}, {configuration}: peak memory in MiB", memory)
        name = command.partition(" ")[0].rstrip(":")
        most = LIMITS.get(name, LIMITS.get(configuration))
        table.add_row(
            command, source, configuration, f"{seconds:.1f} s", f"{cpu:.1f} s", f"{memory:,.0f} MiB", f"{most} s"
        )

    def explained(shape: str, source: str, name: str, options: list[str]) -> None:
        line = ["explain", "podgroup", name, "-n", "jobs", *options]
        row(f"explain: {shape}", source, "default", line)
        row(f"explain: {shape}", source, "preempt and reclaim", [*line, "--scheduler-conf", str(conf)])

    def answered(source: str, options: list[str]) -> None:
        for verdict, (code, queue, replicas, cpu) in SUBMITTED.items():
            asked.write_text(json.dumps(submitted(verdict, queue, replicas, cpu)))
            row(f"can-run: {verdict}", source, "default", ["can-run", "-f", str(asked), *options], code)

    with tempfile.TemporaryDirectory() as folder:
        path, conf, asked = (Path(folder) / name for name in ("cluster.json", "evicting.conf", "job.json"))
        conf.write_text(EVICTING)
        if arguments.live:
            with ControlPlane() as plane:
                plane.apply_crds()
                plane.admin.create(NAMESPACES, {"metadata": {"name": "jobs"}})
                asyncio.run(fill(plane, cluster(arguments.nodes, arguments.pods)))
                answered("API server", ["--kubeconfig", str(plane.kubeconfig)])
                for name, seconds in asyncio.run(asked_of_scheduler(plane.kubeconfig)):
                    table.add_row(name, "scheduler", "default", f"{seconds:.2f} s", "", "", f"{LIMITS['can-run']} s")
                    report_time(f"{name}, asked of the scheduler", seconds)
                for shape in SHAPES:
                    name, more = waiting(shape, plain=False)
                    asyncio.run(fill(plane, more))
                    explained(shape, "API server", name, ["--kubeconfig", str(plane.kubeconfig)])
        else:
            for shape in SHAPES:
                for source, plain in (("kubectl get", False), ("manifests", True)):
                    name, more = waiting(shape, plain)
                    base = cluster(arguments.nodes, arguments.pods, plain=plain)
                    write(path, (raw for part in (base, more) for raw in part))
                    explained(shape, source, name, ["-f", str(path)])
            for source, plain in (("kubectl get", False), ("manifests", True)):
                write(path, cluster(arguments.nodes, arguments.pods, plain=plain))
                answered(source, ["--cluster-from", str(path)])
            write(path, cluster(arguments.simulated_nodes, arguments.simulated_pods, plain=True, bound=False))
            row("simulate -o json", "manifests", "default", ["simulate", "-f", str(path), "-o", "json"])
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
