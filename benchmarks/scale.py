"""Measures the cost of a Pod as clusters grow: the scheduler alone, in memory, with 10,000 to 1,000,000 Pods.

There is one node for every 20 Pods, and the work is the same as in ``benchmarks.memory``: gangs of 100 of cpu tasks, of
tasks with eight Ascend 910 chips, and of tasks with one card under a card quota. Nodes, Pods and the watch events that
confirm bindings are decoded from JSON, as an API server sends them, by the decoders of the watch. The JSON itself is
not kept. Each size runs in a separate process, so that peak memory is measured for each size. Asserts nothing.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from benchmarks.memory import CONFIGURATION, GANG, Mix, device_info, nodes, queues
from benchmarks.scale_plot import draw
from scheduler.api import objects, scheduling
from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import GROUP_NAME
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import run_cycle

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
PODS_PER_NODE = 20
CREATED, STARTED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
LONE_PODS = 11


class Measured(msgspec.Struct):
    """The costs of one size, in seconds of real time unless stated otherwise."""

    pods: int
    nodes: int
    bound: int
    store: float
    """The processor time to decode and store all PodGroups and pending Pods."""
    cold: float
    """The snapshot and the first session, which places all Pods."""
    cold_cpu: float
    """The processor time of the first session."""
    confirm: float
    """The processor time to assume all bindings, and to decode and store the events that confirm them."""
    unchanged: float
    """The snapshot and the session when nothing has changed (median)."""
    lone: float
    """The snapshot and the session that places one more Pod (median)."""
    memory: float
    """The peak memory of the process, in MiB."""
    empty: float
    """The peak memory before the first object is stored, in MiB."""


class Work:
    """The Pods and PodGroups of a size as JSON."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix

    def group(self, i: int) -> bytes:
        """The i-th PodGroup."""
        queue, _, _ = self._mix.gang(i)
        metadata = {"name": f"job-{i:05d}", "namespace": "default", "uid": _uid(i, -1), "creationTimestamp": CREATED}
        return json.dumps({"metadata": metadata, "spec": {"minMember": GANG, "queue": queue}}).encode()

    def pods(self, i: int) -> Iterator[bytes]:
        """The pending Pods of the i-th gang."""
        form = self._form(i, "", [], {"phase": "Pending"})
        for j in range(GANG):
            yield _filled(form, i, j)

    def running_pod(self, name: str, node: str, annotations: dict[str, str]) -> bytes:
        """A Pod after it was started on a node."""
        _, i, _, j = name.split("-")
        form = self._form(
            int(i),
            node,
            list(annotations.items()),
            {
                "phase": "Running",
                "startTime": STARTED,
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": STARTED}],
            },
        )
        return _filled(form, int(i), int(j))

    def _form(self, i: int, node: str, annotations: Sequence[tuple[str, str]], status: dict[str, object]) -> bytes:
        """A Pod of the i-th gang with ``@UID@`` and ``@INDEX@`` in place of the values that differ within the gang."""
        queue, requests, gang_annotations = self._mix.gang(i)
        name = f"job-{i:05d}"
        metadata = {
            "name": f"{name}-worker-@INDEX@",
            "namespace": "default",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "labels": {
                "volcano.sh/job-name": name,
                "volcano.sh/job-namespace": "default",
                "volcano.sh/queue-name": queue,
                "volcano.sh/task-index": "@INDEX@",
                "volcano.sh/task-spec": "worker",
            },
            "annotations": {
                GROUP_NAME: name,
                "volcano.sh/job-name": name,
                "volcano.sh/job-version": "0",
                "volcano.sh/queue-name": queue,
                "volcano.sh/task-index": "@INDEX@",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/template-uid": f"{name}-worker",
                **gang_annotations,
                **dict(annotations),
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": name,
                    "uid": _uid(i, -2),
                    "controller": True,
                }
            ],
        }
        container = {"name": "main", "image": "train", "resources": {"requests": requests}}
        token = {"name": "kube-api-access", "projected": {"sources": []}}
        spec = {"schedulerName": "volcano-py", "nodeName": node, "containers": [container], "volumes": [token]}
        return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def _filled(form: bytes, i: int, j: int) -> bytes:
    values = {"UID": _uid(i, j), "INDEX": str(j), "VERSION": str(1000 + i * GANG + j)}
    for name, value in values.items():
        form = form.replace(f"@{name}@".encode(), value.encode())
    return form


def _uid(i: int, j: int) -> str:
    return f"{i:08x}-{j & 0xFFFF:04x}-4000-8000-000000000000"


def measure(pod_number: int) -> Measured:
    """Fills a cache, runs the first session, confirms its bindings, and runs sessions with no Pod and one Pod to
    place."""
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    configuration = parse_configuration(CONFIGURATION)
    cache = ClusterCache(["volcano-py"])
    decode_pod = msgspec.json.Decoder(objects.Pod).decode
    decode_group = msgspec.json.Decoder(scheduling.PodGroup).decode
    node_number = pod_number // PODS_PER_NODE
    mix = Mix.of(node_number, pod_number)
    work = Work(mix)
    empty = _peak_memory()
    for queue in queues():
        cache.upsert(QUEUE, queue)
    for node in nodes(node_number):
        cache.upsert(NODE, node)
    for info in device_info(node_number):
        cache.upsert(CONFIG_MAP, info)
    store = 0.0
    for i in range(mix.gangs):
        group, pods = work.group(i), list(work.pods(i))
        begun = time.process_time()
        cache.upsert(POD_GROUP, decode_group(group))
        for text in pods:
            cache.upsert(POD, decode_pod(text))
        store += time.process_time() - begun

    begun, begun_cpu = time.perf_counter(), time.process_time()
    outcome = run_cycle(cache.snapshot(time.time()), configuration)
    cold, cold_cpu = time.perf_counter() - begun, time.process_time() - begun_cpu

    begun = time.process_time()
    cache.assume(outcome.decisions)
    binds = [(bind.task.name, bind.node, bind.annotations) for bind in outcome.decisions.binds]
    outcome.session.release()
    del outcome
    confirm = time.process_time() - begun
    for start in range(0, len(binds), GANG):
        pods = [work.running_pod(*bind) for bind in binds[start : start + GANG]]
        begun = time.process_time()
        for text in pods:
            cache.upsert(POD, decode_pod(text))
        confirm += time.process_time() - begun

    def session() -> tuple[float, int]:
        """The seconds of a snapshot and a session, and the number of its bindings."""
        begun = time.perf_counter()
        outcome = run_cycle(cache.snapshot(time.time()), configuration)
        seconds = time.perf_counter() - begun
        cache.assume(outcome.decisions)
        number = len(outcome.decisions.binds)
        outcome.session.release()
        return seconds, number

    for _ in range(3):  # the first ones write what has changed in statuses
        session()
    unchanged = [session() for _ in range(LONE_PODS)]
    if any(number for _, number in unchanged):
        raise RuntimeError("a session in which nothing changed has placed something")
    lone = []
    for i in range(LONE_PODS):
        for kind, obj in lone_pod(i):
            cache.upsert(kind, obj)
        seconds, number = session()
        if number != 1:
            raise RuntimeError("the lone Pod was not placed")
        lone.append(seconds)
    return Measured(
        pods=pod_number,
        nodes=node_number,
        bound=len(binds),
        store=store,
        cold=cold,
        cold_cpu=cold_cpu,
        confirm=confirm,
        unchanged=median(seconds for seconds, _ in unchanged),
        lone=median(lone),
        memory=_peak_memory(),
        empty=empty,
    )


def lone_pod(i: int) -> Iterator[tuple[Kind, objects.KubeObject]]:
    """A PodGroup with one Pod."""
    metadata: dict[str, Any] = {
        "name": f"lone-{i}",
        "namespace": "default",
        "uid": f"lone-{i}",
        "creationTimestamp": STARTED,
    }
    spec = {"minMember": 1, "queue": "cpu"}
    yield POD_GROUP, msgspec.convert({"metadata": metadata, "spec": spec}, scheduling.PodGroup)
    metadata |= {"uid": f"lone-pod-{i}", "annotations": {GROUP_NAME: f"lone-{i}"}}
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = {"metadata": metadata, "spec": {"schedulerName": "volcano-py", "containers": [container]}}
    yield POD, msgspec.convert(pod | {"status": {"phase": "Pending"}}, objects.Pod)


def _peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


COLUMNS = (
    "Pods",
    "nodes",
    "cold session",
    "processor time",
    "per Pod",
    "decode and store, per Pod",
    "confirm, per Pod",
    "unchanged session",
    "one more Pod",
    "peak memory",
    "per Pod",
)


def row(it: Measured) -> list[str]:
    """The cells of a line of the table."""
    return [
        f"{it.pods:,}",
        f"{it.nodes:,}",
        f"{it.cold:.2f} s",
        f"{it.cold_cpu:.2f} s",
        f"{it.cold_cpu / it.pods * 1e6:.1f} µs",
        f"{it.store / it.pods * 1e6:.1f} µs",
        f"{it.confirm / it.pods * 1e6:.1f} µs",
        f"{it.unchanged * 1000:.1f} ms",
        f"{it.lone * 1000:.1f} ms",
        f"{it.memory:,.0f} MiB",
        f"{(it.memory - it.empty) * 1024 / it.pods:.2f} KiB",
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [COLUMNS, ["---:"] * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=int, metavar="PODS", help="measure one size, print JSON")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="PODS", help="numbers of Pods")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--plot", type=Path, help="write the plot here, as SVG")
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.buffer.write(msgspec.json.encode(measure(arguments.one)))
        return
    table = Table(title="In memory, mixed gangs of 100", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    measured = []
    for size in arguments.sizes:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", str(size)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        measured.append(msgspec.json.decode(output, type=Measured))
    for it in measured:
        table.add_row(*row(it))
        report_time(f"first session, {it.pods} Pods", it.cold_cpu)
        report_time(f"store, {it.pods} Pods", it.store)
        report_time(f"confirm, {it.pods} Pods", it.confirm)
        report(f"memory, {it.pods} Pods", it.memory)
    Console(width=140).print(table)
    if arguments.markdown:
        arguments.markdown.write_text(markdown([row(it) for it in measured]), encoding="utf-8")
    if arguments.plot:
        times = {
            "first session": [it.cold_cpu / it.pods * 1e6 for it in measured],
            "decode and store": [it.store / it.pods * 1e6 for it in measured],
            "assume and confirm": [it.confirm / it.pods * 1e6 for it in measured],
        }
        memory = {"peak memory": [(it.memory - it.empty) * 1024 / it.pods for it in measured]}
        pods = [it.pods for it in measured]
        panels = [("Processor time per Pod, in µs", times), ("Memory per Pod, in KiB", memory)]
        arguments.plot.write_text(draw("The cost of a Pod as clusters grow", pods, panels), encoding="utf-8")


if __name__ == "__main__":
    main()
