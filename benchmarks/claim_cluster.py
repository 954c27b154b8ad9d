"""A control plane with one scheduler for the experiments of ``benchmarks.claims``: creates nodes and jobs, and records
what happens to their Pods."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from benchmarks.contest import Api, collection_of, running
from controlplane import prepared
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME, TASK_SPEC

KUBE, OURS = "kube-scheduler", "volcano-py"
SCHEDULER_NAMES = {KUBE: "default-scheduler", OURS: "volcano-py"}
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
    arguments: {binpack.weight: 10, binpack.cpu: 5, binpack.memory: 1}
  - name: task-topology
    arguments: {task-topology.weight: 10}
"""
"""The built-in configuration, with the weights of the published experiment about binpack, and task-topology."""
PATIENCE = 120.0
"""The seconds after which an experiment fails."""
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Pace:
    """How long and how often things happen in the experiments."""

    training: int = 3
    """The seconds for which a job trains once all its Pods run."""
    pod: int = 3
    """The seconds for which each Pod of the experiments about fair shares runs."""
    settle: float = 2.0
    """The seconds in which a scheduler reads what was created before."""
    rounds: int = 5
    """How often the experiment about task-topology is repeated."""


@dataclass(frozen=True)
class BatchJob:
    """A job of Pods with one CPU or less, which belong to one PodGroup."""

    name: str
    roles: Mapping[str, int]
    """Maps each role to its number of Pods."""
    cpu: str = "1"
    minimum: int = 0
    """The number of Pods that must start together; 0: all."""
    namespace: str = "default"
    queue: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the PodGroup."""
    runs_for: str = ""
    """Pods succeed so long after their start; if empty, they run until `ClaimCluster.end`."""
    affinity: Mapping[str, Manifest] = field(default_factory=dict)
    """Maps a role to the affinity of its Pods, for schedulers without PodGroups."""

    @property
    def size(self) -> int:
        return sum(self.roles.values())

    def group(self) -> Manifest:
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": self.name, "namespace": self.namespace, "annotations": dict(self.annotations)},
            "spec": {"minMember": self.minimum or self.size, "queue": self.queue},
        }

    def pods(self, contender: str) -> Iterator[Manifest]:
        ends = {"volcano-py.test/outcome": "succeed", "volcano-py.test/runs-for": self.runs_for}
        for role, replicas in self.roles.items():
            for i in range(replicas):
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{self.name}-{role}-{i}",
                        "namespace": self.namespace,
                        "labels": {"job": self.name, "role": role},
                        "annotations": {GROUP_NAME: self.name, TASK_SPEC: role, **(ends if self.runs_for else {})},
                    },
                    "spec": {
                        "schedulerName": SCHEDULER_NAMES[contender],
                        "terminationGracePeriodSeconds": 0,
                        "restartPolicy": "Never",
                        "affinity": self.affinity.get(role, {}),
                        "containers": [
                            {
                                "name": "main",
                                "image": "registry.example/train:1",
                                "resources": {"requests": {"cpu": self.cpu, "memory": "128Mi"}},
                            }
                        ],
                    },
                }


class Step(NamedTuple):
    """A new node or phase of a Pod, and when a watch showed it."""

    time: float
    job: str
    role: str
    pod: str
    node: str
    phase: str

    @property
    def holds(self) -> bool:
        """Whether the Pod holds the resources of its node."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")


class ClaimCluster:
    """A cluster in which one scheduler runs. Names of jobs and nodes must not be used twice."""

    def __init__(self, api: Api, contender: str, pace: Pace) -> None:
        self.contender = contender
        self.pace = pace
        self.steps: list[Step] = []
        """The steps of all Pods, since the last `clear`."""
        self.pods: dict[str, Step] = {}
        """The last step of each Pod."""
        self._api = api
        self._changed = asyncio.Event()

    async def create(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            await self._api.post(collection_of(manifest), msgspec.json.encode(manifest))

    async def nodes(self, prefix: str, number: int, cpu: int) -> None:
        """Creates nodes with ``cpu`` CPUs and as many GiB of memory as twice that number, as in the published
        experiments."""
        amounts = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": "110"}
        for name in (f"{prefix}-{i}" for i in range(number)):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            labels = {"kubernetes.io/hostname": name}
            status = {"allocatable": amounts, "capacity": amounts, **ready}
            meta = {"name": name, "labels": labels}
            await self.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})

    async def submit(self, jobs: Sequence[BatchJob], order: Random | None = None) -> None:
        """Creates jobs at the same time: their Pods in turn, or in a random order."""
        if self.contender == OURS:
            await self.create(*(job.group() for job in jobs))
        pods = [pod for row in zip_longest(*(job.pods(self.contender) for job in jobs)) for pod in row if pod]
        if order is None:
            await self.create(*pods)
        else:
            order.shuffle(pods)
            await self._api.post_all((collection_of(pod), msgspec.json.encode(pod)) for pod in pods)

    async def end(self, job: BatchJob, runs_for: str) -> None:
        """Makes the Pods of a job succeed after some time."""
        annotations = {"volcano-py.test/outcome": "succeed", "volcano-py.test/runs-for": runs_for}
        body = msgspec.json.encode({"metadata": {"annotations": annotations}})
        for pod in job.pods(self.contender):
            meta = pod["metadata"]
            await self._api.patch(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", body)

    def phases(self, job: BatchJob) -> list[str]:
        """The phases of the Pods of a job that a watch has shown."""
        return [step.phase for step in self.pods.values() if step.job == job.name]

    def on_nodes(self, *jobs: BatchJob) -> list[Step]:
        """The Pods of jobs that hold resources."""
        names = {job.name for job in jobs}
        return [step for step in self.pods.values() if step.job in names and step.holds]

    async def change(self, seconds: float) -> bool:
        """Waits for the next step of any Pod; returns False if there is none within some seconds."""
        self._changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        return self._changed.is_set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds. Raises TimeoutError after `PATIENCE`."""
        deadline = time.perf_counter() + PATIENCE
        while not condition():
            if not await self.change(deadline - time.perf_counter()):
                raise TimeoutError(f"{self.contender}: {self._summary()}")

    async def clear(self, namespaces: Collection[str] = ("default",)) -> None:
        """Deletes all nodes, Pods and PodGroups."""
        for namespace in namespaces:
            await self._api.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
            await self._api.delete(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
        await self._api.delete("/api/v1/nodes")
        await self.settle()
        self.steps.clear()
        self.pods.clear()

    async def settle(self) -> None:
        await asyncio.sleep(self.pace.settle)

    async def record(self, ready: asyncio.Event) -> None:
        """Records the steps of all Pods until it is cancelled."""
        async with aclosing(self._api.watch("/api/v1/pods", ready)) as pods:
            async for pod in pods:
                name, node, phase = pod.metadata.name, pod.spec.node_name, pod.status.phase
                before = self.pods.get(name)
                if before is None or (before.node, before.phase) != (node, phase):
                    job, role, _ = name.rsplit("-", 2)
                    self.pods[name] = Step(time.perf_counter(), job, role, name, node, phase)
                    self.steps.append(self.pods[name])
                    self._changed.set()

    def _summary(self) -> str:
        bound = sum(step.holds for step in self.pods.values())
        return f"{bound} of {len(self.pods)} Pods hold a node, and nothing happens any more"


@asynccontextmanager
async def claim_cluster(contender: str, pace: Pace) -> AsyncIterator[ClaimCluster]:
    """A control plane with fake kubelets, and one scheduler that runs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(logs=Path(folder), data=prepared.with_definitions()) as plane,
    ):
        plane.start_kwok()
        with _started(contender, plane, Path(folder)):
            async with Api.of(plane) as api:
                cluster = ClaimCluster(api, contender, pace)
                ready = asyncio.Event()
                recorder = asyncio.create_task(cluster.record(ready))
                await ready.wait()
                await cluster.settle()
                try:
                    yield cluster
                finally:
                    recorder.cancel()
                    with suppress(asyncio.CancelledError):
                        await recorder


@contextmanager
def _started(contender: str, plane: ControlPlane, folder: Path) -> Iterator[None]:
    if contender == KUBE:
        plane.start_kube_scheduler()
        yield
        return
    configuration = folder / "volcano-scheduler.conf"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    with running("scheduler", plane, folder, "--leader-elect=false", f"--scheduler-conf={configuration}"):
        yield
