"""A cluster of all families of NPU servers: 2,000 nodes in equal parts, and 1,000 jobs that request about all
chips.

The benchmark runs five sessions, between which Pods terminate and are deleted. Raises an error if a chip is given twice
or a Pod is bound without its chips. Prints a table.
"""

import argparse
import gc
import resource
import time
from collections.abc import Iterator
from random import Random

import msgspec
from rich.console import Console
from rich.table import Table

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.figures import report, report_time
from scheduler.api import objects, scheduling
from scheduler.api.decisions import Bind
from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import ACCELERATOR_TYPE, GROUP_NAME, HUAWEI_PREFIX, PREDICATE_TIME, SCHEDULE_POLICY
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from scheduler.framework.cycle import run_cycle
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import ChipFamily
from scheduler.plugins.ascend.masks import parse_chips
from scheduler.plugins.ascend.npu_requests import ChipResource

POOL = "pool"
"""The label of the nodes of a family, which its jobs select."""
START = "2026-01-01T00:00:00Z"
SUPER_POD_NODES = 30
CHIPS = {family.name: min(family.chips, 16) for family in FAMILIES}
"""Maps each family to the number of chips of a node."""
ALONE = ("module_910_x8", "chip_310p_duo_distributed")
"""The families of which a job of several Pods may not request every number of chips: their jobs have one Pod."""


def traits(family: ChipFamily) -> dict[str, str]:
    """A value of each trait that chooses the family."""
    return {trait: values[0].replace("*", "") for trait, values in (family.traits or {}).items() if values[0]}


def nodes(number: int) -> Iterator[objects.Node]:
    for i in range(number):
        family = FAMILIES[i % len(FAMILIES)]
        name = f"node-{i:05d}"
        labels = {"kubernetes.io/hostname": name, POOL: family.name}
        labels |= {label: max(values) for label, values in family.node_labels.items()}
        labels |= {key: value for key, value in traits(family).items() if key == ACCELERATOR_TYPE}
        super_pod = str(i // len(FAMILIES) // SUPER_POD_NODES)
        metadata = {"name": name, "uid": name, "labels": labels, "annotations": {"superPodID": super_pod}}
        chips = str(CHIPS[family.name])
        allocatable = {"cpu": "640", "memory": "2Ti", "pods": "110", family.resources[0]: chips}
        yield msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, objects.Node)


def job(random: Random, number: int) -> Iterator[tuple[Kind, objects.KubeObject]]:
    """A gang of one to twelve Pods."""
    family = FAMILIES[number % len(FAMILIES)]
    whole = CHIPS[family.name]
    pods = 1 if family.name in ALONE else random.randint(1, 12)
    sizes = [size for size in sorted(family.sizes) if size <= whole and (size > 1 or not family.name.startswith("a3"))]
    chips = whole if family.super_pods and pods > 1 else random.choice(sizes)
    selector = {POOL: family.name, **{key: v for key, v in traits(family).items() if key == ACCELERATOR_TYPE}}
    labels = {key: value for key, value in traits(family).items() if key != ACCELERATOR_TYPE}
    policy = {} if family.traits is not None else {SCHEDULE_POLICY: min(family.policies)}
    name = f"job-{number:04d}"
    metadata = {"namespace": "default", "creationTimestamp": START}
    group = {
        "metadata": {**metadata, "name": name, "uid": name, "annotations": policy},
        "spec": {"minMember": pods, "queue": "default"},
    }
    yield POD_GROUP, msgspec.convert(group, scheduling.PodGroup)
    requests = {"cpu": "4", "memory": "16Gi", family.resources[0]: str(chips)}
    for i in range(pods):
        own = {"name": f"{name}-{i}", "uid": f"{name}-{i}", "labels": labels}
        pod = {
            "metadata": {**metadata, **own, "annotations": {GROUP_NAME: name, **policy}},
            "spec": {
                "schedulerName": "volcano-py",
                "nodeSelector": selector,
                "containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Pending"},
        }
        yield POD, msgspec.convert(pod, objects.Pod)


class Cluster:
    """A cache, its Pods, and the chips that these hold."""

    def __init__(self, node_number: int, job_number: int) -> None:
        random = Random(1)
        self._configuration = parse_configuration(DEFAULT_CONFIGURATION)
        self._cache = ClusterCache(["volcano-py"])
        queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
        self._cache.upsert(QUEUE, msgspec.convert(queue, scheduling.Queue))
        for node in nodes(node_number):
            self._cache.upsert(NODE, node)
        self.pods: dict[str, objects.Pod] = {}
        for kind, obj in (each for number in range(job_number) for each in job(random, number)):
            self._cache.upsert(kind, obj)
            if isinstance(obj, objects.Pod):
                self.pods[obj.metadata.name] = obj
        self.held: dict[str, int] = {}
        """Maps each node to the mask of the chips of its Pods."""
        self._chips: dict[str, int] = {}
        """Maps each Pod on a node to the mask of its chips."""

    def session(self) -> tuple[float, int]:
        """Runs a session and confirms its bindings. Returns its seconds of cpu, and the number of bindings. Raises
        RuntimeError."""
        gc.collect()
        begun = time.process_time()
        outcome = run_cycle(self._cache.snapshot(time.time()), self._configuration)
        seconds = time.process_time() - begun
        self._cache.assume(outcome.decisions)
        for bind in outcome.decisions.binds:
            self._take(bind)
            pod = self.pods[bind.task.name]
            pod.spec.node_name = bind.node
            pod.status.phase = "Running"
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **bind.annotations}
            self._cache.upsert(POD, pod)
        return seconds, len(outcome.decisions.binds)

    def _take(self, bind: Bind) -> None:
        ((resource, chips),) = _requested(self.pods[bind.task.name]).items()
        if not {resource, PREDICATE_TIME} <= bind.annotations.keys():
            raise RuntimeError(f"{bind.task.key} is bound without its annotations: {dict(bind.annotations)}")
        mask = parse_chips(bind.annotations[resource], ChipResource(resource).prefix)
        if mask.bit_count() != chips:
            raise RuntimeError(f"{bind.task.key} asks for {chips} chips, got {bind.annotations[resource]}")
        if self.held.get(bind.node, 0) & mask:
            raise RuntimeError(f"{bind.task.key} got chips of {bind.node} that are held: {bind.annotations[resource]}")
        self.held[bind.node] = self.held.get(bind.node, 0) | mask
        self._chips[bind.task.name] = mask

    def terminate(self, share: int) -> list[objects.Pod]:
        """Marks the Pods of one of ``share`` jobs as terminating, and returns the Pods on nodes."""
        found = [self.pods[name] for name in self._chips if int(name.split("-")[1]) % share == 0]
        for pod in found:
            pod.metadata.deletion_timestamp = START
            self._cache.upsert(POD, pod)
        return found

    def delete(self, pods: list[objects.Pod]) -> None:
        for pod in pods:
            self._cache.delete(POD, pod.metadata.namespace, pod.metadata.name)
            self.held[pod.spec.node_name or ""] ^= self._chips.pop(pod.metadata.name)


def _requested(pod: objects.Pod) -> dict[str, int]:
    resources = pod.spec.containers[0].resources
    requests = {} if resources is None else resources.requests or {}
    return {name: int(amount) for name, amount in requests.items() if name.startswith(HUAWEI_PREFIX)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    arguments = parser.parse_args()
    gc.set_threshold(*COLLECTION)  # as in the scheduler's own process
    cluster = Cluster(arguments.nodes, arguments.jobs)
    asked = sum(sum(_requested(pod).values()) for pod in cluster.pods.values())
    table = Table(title=f"{arguments.nodes:,} nodes of {len(FAMILIES)} NPU families, {arguments.jobs:,} jobs")
    for column in ("", "Pods bound", "chips in use", "cpu of the session"):
        table.add_column(column, justify="right" if column else "left")

    def session(text: str) -> None:
        seconds, bound = cluster.session()
        used = sum(mask.bit_count() for mask in cluster.held.values())
        report_time(text, seconds)
        table.add_row(text, f"{bound:,}", f"{used:,}", f"{seconds * 1000:.0f} ms")

    session(f"{len(cluster.pods):,} Pods ask for {asked:,} chips")
    session("those without a place wait")
    terminating = cluster.terminate(3)
    session(f"{len(terminating):,} Pods terminate")
    cluster.delete(terminating)
    session("they are gone")
    session("nothing changed")
    console = Console(width=120)
    console.print(table)
    report("peak memory in MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    console.print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()
