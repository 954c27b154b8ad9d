"""Measures the scheduler alone, in memory: one cold session on clusters of growing size, and one session in which
nothing changed.

The work is a mix of gangs of 100: cpu tasks, tasks of eight Ascend 910 chips, tasks of one card under a card quota.
Each size runs in a separate process, so that peak memory is measured for each size. Prints a table; asserts nothing.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from scheduler.api import objects, scheduling
from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import ASCEND_910, CARD_NAME, CARD_QUOTA, GROUP_NAME
from scheduler.cache import ClusterCache
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from scheduler.framework.cycle import run_cycle

GANG = 100
SIZES = ((1_000, 10_000), (5_000, 10_000), (10_000, 10_000), (5_000, 100_000), (10_000, 100_000))
CONFIGURATION = DEFAULT_CONFIGURATION.replace(
    "  - name: proportion\n", "  - name: capacity-card\n    arguments:\n      cardUnlimitedCpuMemory: true\n"
)
CARD = "NVIDIA-H200"
START = "2026-01-01T00:00:00Z"


def nodes(number: int) -> Iterator[objects.Node]:
    """A third each of cpu nodes, 910 nodes (eight chips) and card nodes (eight cards)."""
    for i in range(number):
        family = i % 3
        labels = {"kubernetes.io/hostname": f"node-{i:05d}", "topology.kubernetes.io/zone": f"zone-{i % 10}"}
        allocatable: dict[str, Any] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        if family == 1:
            labels["accelerator"] = "huawei-Ascend910"
            allocatable[ASCEND_910] = "8"
        elif family == 2:
            labels |= {
                "nvidia.com/gpu.product": CARD,
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "143771",
            }
            allocatable["nvidia.com/gpu"] = "8"
        yield msgspec.convert(
            {
                "metadata": {"name": f"node-{i:05d}", "uid": f"n{i}", "labels": labels, "creationTimestamp": START},
                "status": {"allocatable": allocatable},
            },
            objects.Node,
        )


def device_info(number: int) -> Iterator[objects.ConfigMap]:
    chips = ",".join(f"Ascend910-{chip}" for chip in range(8))
    devices = {"DeviceInfo": {"DeviceList": {ASCEND_910: chips}, "UpdateTime": 1}}
    for i in range(1, number, 3):
        yield msgspec.convert(
            {
                "metadata": {"name": f"mindx-dl-deviceinfo-node-{i:05d}", "namespace": "kube-system"},
                "data": {"DeviceInfoCfg": json.dumps(devices)},
            },
            objects.ConfigMap,
        )


@dataclass(frozen=True)
class Mix:
    """The number of gangs of each kind: gangs with chips, then with cards, then with cpu."""

    gangs: int
    chip_gangs: int
    card_gangs: int

    @classmethod
    def of(cls, node_number: int, pod_number: int) -> "Mix":
        gangs = pod_number // GANG
        chip_gangs = min(gangs // 4, int(node_number / 3 * 0.9) // GANG)
        card_gangs = min(gangs // 4, int(node_number / 3 * 8 * 0.75) // GANG)
        return cls(gangs, chip_gangs, card_gangs)

    def gang(self, i: int) -> tuple[str, dict[str, Any], dict[str, str]]:
        """The (queue, requests, annotations) of the i-th gang."""
        if i < self.chip_gangs:
            return "chips", {"cpu": "8", "memory": "32Gi", ASCEND_910: "8"}, {}
        if i < self.chip_gangs + self.card_gangs:
            return "cards", {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}, {CARD_NAME: CARD}
        return "cpu", {"cpu": "1", "memory": "4Gi"}, {}


def workload(node_number: int, pod_number: int) -> Iterator[tuple[Kind, objects.KubeObject]]:
    mix = Mix.of(node_number, pod_number)
    for i in range(mix.gangs):
        queue, requests, annotations = mix.gang(i)
        name = f"job-{i:04d}"
        group = {
            "metadata": {"name": name, "namespace": "default", "uid": f"g{i}", "creationTimestamp": START},
            "spec": {"minMember": GANG, "queue": queue},
        }
        yield POD_GROUP, msgspec.convert(group, scheduling.PodGroup)
        for j in range(GANG):
            pod = {
                "metadata": {
                    "name": f"{name}-worker-{j}",
                    "namespace": "default",
                    "uid": f"p{i}-{j}",
                    "creationTimestamp": START,
                    "labels": {"volcano.sh/job-name": name, "volcano.sh/task-index": str(j)},
                    "annotations": {GROUP_NAME: name, "volcano.sh/task-spec": "worker", **annotations},
                },
                "spec": {
                    "schedulerName": "volcano-py",
                    "containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Pending"},
            }
            yield POD, msgspec.convert(pod, objects.Pod)


def queues() -> Iterator[scheduling.Queue]:
    for name in ("cpu", "chips", "cards"):
        quota = json.dumps({CARD: 1_000_000})
        yield msgspec.convert(
            {"metadata": {"name": name, "annotations": {CARD_QUOTA: quota}}, "spec": {"weight": 1}}, scheduling.Queue
        )


def measure(node_number: int, pod_number: int) -> dict[str, float]:
    """Fills a cache, runs one cold session, confirms its bindings, and runs a session in which nothing changed."""
    configuration = parse_configuration(CONFIGURATION)
    cache = ClusterCache(["volcano-py"])
    begun = time.perf_counter()
    for queue in queues():
        cache.upsert(QUEUE, queue)
    for node in nodes(node_number):
        cache.upsert(NODE, node)
    for info in device_info(node_number):
        cache.upsert(CONFIG_MAP, info)
    pods: dict[str, objects.Pod] = {}
    for kind, obj in workload(node_number, pod_number):
        cache.upsert(kind, obj)
        if isinstance(obj, objects.Pod):
            pods[obj.metadata.name] = obj
    filled = time.perf_counter()
    outcome = run_cycle(cache.snapshot(time.time()), configuration)
    cold = time.perf_counter()
    cache.assume(outcome.decisions)
    assumed = time.perf_counter()
    bound = len(outcome.decisions.binds)
    for bind in outcome.decisions.binds:
        pod = pods[bind.task.name]
        pod.spec.node_name = bind.node
        pod.status.phase = "Running"
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **bind.annotations}
        cache.upsert(POD, pod)
    confirmed = time.perf_counter()
    del outcome
    for _ in range(3):
        outcome = run_cycle(cache.snapshot(time.time()), configuration)
        cache.assume(outcome.decisions)
    quiet = []
    for _ in range(5):
        start = time.perf_counter()
        outcome = run_cycle(cache.snapshot(time.time()), configuration)
        quiet.append(time.perf_counter() - start)
        if outcome.decisions:
            raise RuntimeError("a session in which nothing changed decided something")
    return {
        "nodes": node_number,
        "pods": pod_number,
        "bound": bound,
        "fill": filled - begun,
        "cold": cold - filled,
        "assume": assumed - cold,
        "confirm": confirmed - assumed,
        "quiet": min(quiet),
        "quiet_worst": max(quiet),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, type=int, metavar=("NODES", "PODS"), help="measure one size, print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        json.dump(measure(*arguments.one), sys.stdout)
        return
    table = Table(title="In memory, mixed gangs of 100", title_justify="left")
    columns = ("nodes", "pods", "bound", "cold session", "pods/s", "unchanged session", "cache fill", "peak memory")
    for column in columns:
        table.add_column(column, justify="right")
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.memory", "--one", *map(str, size)]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        name = f"{result['nodes']:,.0f} nodes, {result['pods']:,.0f} Pods"
        report_time(f"{name}: cold session", result["cold"])
        report_time(f"{name}: unchanged session", result["quiet"])
        report(f"{name}: peak memory in MiB", result["memory"])
        table.add_row(
            f"{result['nodes']:,}",
            f"{result['pods']:,}",
            f"{result['bound']:,}",
            f"{result['cold']:.2f} s",
            f"{result['bound'] / result['cold']:,.0f}",
            f"{result['quiet'] * 1000:.1f} ms",
            f"{result['fill']:.1f} s",
            f"{result['memory']:,.0f} MiB",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
