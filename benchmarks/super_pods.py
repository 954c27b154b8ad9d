"""The session in which a job of 4,096 chips is placed in A3 super pods, alone and while other jobs wait.

512 servers of sixteen chips are in super pods of 32. The job has 256 Pods, in blocks of 16 nodes. The other jobs have
waited for several sessions: each needs blocks of 48 nodes, more than a super pod has. The kinds run in turn several
times in this process, each time with a new cache; the best run of each counts. Prints a table of processor times;
asserts nothing.
"""

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from scheduler.api import objects, scheduling
from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import (
    ACCELERATOR_TYPE,
    ASCEND_910,
    BASE_DEVICE_INFOS,
    GROUP_NAME,
    SP_BLOCK,
    SUPER_POD_ID,
    TASK_INDEX,
)
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import Outcome, run_cycle

CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}, {name: ascend}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion},
            {name: nodeorder}, {name: binpack}]
configurations:
- name: init-params
  arguments: {super-pod-size: "48", reserve-nodes: "2"}
"""
START = "2026-01-01T00:00:00Z"
CHIPS, SIZE = 16, 32
"""The chips of a node, and the nodes of a super pod."""
BLOCK, TOO_LARGE = 16, 48
"""The nodes of a block of the job, and of the waiting jobs."""
SELECTOR = {ACCELERATOR_TYPE: "module-a3-16-super-pod"}
KINDS: dict[str, tuple[int, int]] = {
    "no other job": (0, 0),
    "50 jobs of 48 nodes wait": (50, 48),
    "50 jobs of 240 nodes wait": (50, 240),
}
"""Maps a name to the number of waiting jobs, and to the nodes of each."""


def nodes(number: int) -> Iterator[tuple[objects.Node, objects.ConfigMap]]:
    """The servers with the ConfigMaps of their device plugins."""
    names = [f"Ascend910-{chip}" for chip in range(CHIPS)]
    for i in range(number):
        name, super_pod = f"node-{i:04d}", i // SIZE
        devices = {
            each: {"IP": f"10.{i // 256}.{i % 256}.{chip}", "SuperDeviceID": i % SIZE * CHIPS + chip}
            for chip, each in enumerate(names)
        }
        metadata = {
            "name": name,
            "uid": name,
            "labels": {"kubernetes.io/hostname": name, **SELECTOR},
            "annotations": {BASE_DEVICE_INFOS: json.dumps(devices), "superPodID": str(super_pod)},
        }
        allocatable = {"cpu": "640", "memory": "2Ti", "pods": "110", ASCEND_910: str(CHIPS)}
        lists = {
            "DeviceInfo": {"DeviceList": {ASCEND_910: ",".join(names)}, "UpdateTime": 1},
            "SuperPodID": super_pod,
        }
        info = {
            "metadata": {"name": f"mindx-dl-deviceinfo-{name}", "namespace": "kube-system"},
            "data": {"DeviceInfoCfg": json.dumps(lists)},
        }
        node = {"metadata": metadata, "status": {"allocatable": allocatable}}
        yield msgspec.convert(node, objects.Node), msgspec.convert(info, objects.ConfigMap)


def job(name: str, pods: int, block: int) -> Iterator[tuple[Kind, objects.KubeObject]]:
    requests = {"cpu": "8", "memory": "64Gi", ASCEND_910: str(CHIPS)}
    group: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": START,
            "annotations": {SP_BLOCK: str(block * CHIPS)},
        },
        "spec": {"minMember": pods, "queue": "default", "minResources": {ASCEND_910: str(pods * CHIPS)}},
        "status": {"phase": "Inqueue"},
    }
    yield POD_GROUP, msgspec.convert(group, scheduling.PodGroup)
    for i in range(pods):
        metadata = {
            "name": f"{name}-{i}",
            "namespace": "default",
            "uid": f"{name}-{i}",
            "creationTimestamp": START,
            "labels": {TASK_INDEX: str(i)},
            "annotations": {GROUP_NAME: name},
        }
        spec = {
            "schedulerName": "volcano-py",
            "nodeSelector": SELECTOR,
            "containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}],
        }
        yield POD, msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, objects.Pod)


def filled(number: int, kind: str) -> ClusterCache:
    waiting, size = KINDS[kind]
    cache = ClusterCache(["volcano-py"])
    queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
    cache.upsert(QUEUE, msgspec.convert(queue, scheduling.Queue))
    for node, info in nodes(number):
        cache.upsert(NODE, node)
        cache.upsert(CONFIG_MAP, info)
    for i in range(waiting):
        for kind_of, obj in job(f"wait-{i:02d}", size, TOO_LARGE):
            cache.upsert(kind_of, obj)
    return cache


def measure(number: int, pods: int, kind: str, profile: cProfile.Profile | None = None) -> tuple[float, Outcome]:
    """The processor seconds of the snapshot and the session, and the decisions of the session."""
    configuration = parse_configuration(CONFIGURATION)
    cache = filled(number, kind)
    for _ in range(3):
        cache.assume(run_cycle(cache.snapshot(time.time()), configuration).decisions)
    for kind_of, obj in job("train", pods, BLOCK):
        cache.upsert(kind_of, obj)
    gc.collect()
    if profile is not None:
        profile.enable()
    begun = time.process_time()
    outcome = run_cycle(cache.snapshot(time.time()), configuration)
    seconds = time.process_time() - begun
    if profile is not None:
        profile.disable()
    return seconds, outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--pods", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    chips = arguments.pods * CHIPS
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    table = Table(title=f"{arguments.nodes:,} A3 nodes in super pods of {SIZE}, a job of {chips:,} chips")
    for column in ("", "bound", "super pods", "session", "of the first"):
        table.add_column(column, justify="right" if column else "left")
    profiles = {kind: cProfile.Profile() if arguments.profile else None for kind in KINDS}
    best: dict[str, tuple[float, Outcome]] = {}
    for _ in range(arguments.repeat):
        for kind, profile in profiles.items():
            result = measure(arguments.nodes, arguments.pods, kind, profile)
            best[kind] = min(best.get(kind, result), result, key=lambda result: result[0])
    alone = 0.0
    for kind, (seconds, outcome) in best.items():
        if (profile := profiles[kind]) is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        alone = alone or seconds
        binds = outcome.decisions.binds
        used = {bind.annotations[SUPER_POD_ID] for bind in binds}
        row = f"{len(binds)} of {arguments.pods}", f"{len(used)}", f"{seconds * 1000:.0f} ms", f"{seconds / alone:.2f}"
        report_time(kind, seconds)
        report(f"{kind}, of {next(iter(KINDS))}", seconds / alone)
        table.add_row(kind, *row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
