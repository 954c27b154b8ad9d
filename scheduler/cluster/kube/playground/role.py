"""Simulated NPU nodes on a real cluster, until it is cancelled.

All state is in the cluster (labels and annotations of Nodes, annotations of Pods), so the playground can be stopped and
started again at any time. Each node is handled by one task at a time, which carries out one step after the other.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import CONFIG_MAP, NAMESPACE
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from scheduler.api.reasons import Malformed
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.playground.state import PlaygroundState
from scheduler.cluster.kube.playground.writes import LEASE_NAMESPACE, Progress, Writer
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.sources import Source
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.pages import pages_of_heads
from scheduler.observability.role_metrics import RoleMetrics
from scheduler.playground.faults import Kubelet
from scheduler.playground.holdings import read_holdings
from scheduler.playground.kubelet import MALFORMED, next_step, pod_problem, ready_conditions
from scheduler.playground.names import CREATED, FAMILY, NODE_INFO_PREFIX
from scheduler.playground.node import Machine, faults_of, machine_of, node_manifest
from scheduler.playground.objects import LEASE, NODE, POD, Patch, Remove, SimulatedNode, Warn
from scheduler.playground.reports import NODE_INFO_NAMESPACE, Report, cluster_writes, report_of, report_writes

REFRESH_SECONDS: Final = 300.0
"""Seconds after which a device plugin reports again though nothing has changed."""
LEASE_RENEWAL: Final = 10.0
CLUSTER_SECONDS: Final = 1.0
"""Seconds between two reports of ClusterD."""
RETRY_SECONDS: Final = 2.0
CONCURRENT: Final = 32
"""Nodes that write at once."""
log = structlog.get_logger(__name__)


class Playground:
    """Runs the simulated nodes of a cluster. Belongs to one event loop."""

    sources: Final = (Source(NODE, labels=FAMILY), Source(POD))
    """The watched kinds."""

    def __init__(self, client: ApiClient, progress: Progress = lambda kind, node, text: None) -> None:
        self._client = client
        self._progress = progress
        self._writer = Writer(client)
        self.state = PlaygroundState(self._changed)
        self._dirty: dict[str, None] = {}
        """Nodes with changes."""
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reports: dict[str, tuple[Machine, Report, float]] = {}
        """The last report of each node, and when it was written."""
        self._reported = asyncio.Event()
        self._warned: set[tuple[str, str]] = set()
        self._slots = asyncio.Semaphore(CONCURRENT)

    # --- Nodes --------------------------------------------------------------------------------------------------------
    async def create(self, machines: Sequence[Machine], *, taint: bool = False) -> list[str]:
        """Creates Nodes. Returns the names of those that exist already, which are left alone. Raises ApiError,
        TransportError."""
        await self._writer.create(NAMESPACE, "", {"metadata": {"name": NODE_INFO_NAMESPACE}})

        async def create(machine: Machine) -> bool:
            async with self._slots:
                manifest = node_manifest(machine, ready_conditions(time.time()), taint=taint)
                return await self._writer.create(NODE, "", manifest)

        created = await asyncio.gather(*(create(machine) for machine in machines))
        return [machine.name for machine, new in zip(machines, created, strict=True) if not new]

    async def clean_up(self) -> tuple[int, int]:
        """Removes all simulated Nodes, the Pods on them, and all that was reported about them. Returns the numbers of
        Nodes and Pods. Only inside ``watching``, and not while ``run`` runs. Raises ApiError, TransportError."""
        nodes = list(self.state.nodes)
        pods = [pod.metadata for node in nodes for pod in self.state.pods_of(node)]
        remove = self._writer.remove
        await self._all(remove(NODE, "", node) for node in nodes)
        await self._all(remove(POD, pod.namespace, pod.name, pod.uid) for pod in pods)
        for kind, namespace, prefix in (
            (CONFIG_MAP, DEVICE_INFO_NAMESPACE, DEVICE_INFO_CONFIGMAP_PREFIX),
            (CONFIG_MAP, NODE_INFO_NAMESPACE, NODE_INFO_PREFIX),
            (LEASE, LEASE_NAMESPACE, ""),
        ):
            await self._all(remove(kind, namespace, f"{prefix}{node}") for node in nodes)
        listed = Source(CONFIG_MAP, NODE_INFO_NAMESPACE, labels=f"{CREATED}=true")
        names = [
            item.metadata.name async for page in pages_of_heads(self._client, listed, 500) for item in page.items or ()
        ]
        await self._all(remove(CONFIG_MAP, NODE_INFO_NAMESPACE, name) for name in names)
        return len(nodes), len(pods)

    async def _all(self, requests: Iterable[Awaitable[object]]) -> None:
        """Awaits requests, a limited number at once. Raises the first error."""

        async def limited(request: Awaitable[object]) -> None:
            async with self._slots:
                await request

        await asyncio.gather(*(limited(request) for request in requests))

    # --- running ------------------------------------------------------------------------------------------------------
    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watches the simulated Nodes and all Pods; both are known from the beginning."""
        metrics = RoleMetrics()
        informers = [Informer(self._client, source, self.state, self._set_aside, metrics) for source in self.sources]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            await asyncio.gather(*(informer.synced.wait() for informer in informers))
            yield
        finally:
            await _cancel(tasks)

    async def run(self) -> None:
        """Runs the nodes until it is cancelled. Only inside ``watching``."""
        helpers = [asyncio.create_task(self._renew_leases()), asyncio.create_task(self._report_cluster())]
        try:
            while True:
                self._wake.clear()
                for name in [name for name in self._dirty if name not in self._tasks]:
                    del self._dirty[name]
                    self._tasks[name] = asyncio.create_task(self._handle(name))
                await self._wake.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await _cancel([*helpers, *self._tasks.values()])

    def _changed(self, node: str) -> None:
        if node in self.state.nodes or node in self._reports:
            self._dirty[node] = None
            self._wake.set()

    async def _handle(self, name: str) -> None:
        """Carries out the steps of a node until nothing is left to do."""
        try:
            async with self._slots:
                while name in self.state.nodes and await self._step(name):
                    pass
            if name not in self.state.nodes and name in self._reports:
                del self._reports[name]
                self._reported.set()
        except (ApiError, TransportError, *DECODE_ERRORS) as error:
            self._progress("error", name, str(error))
            self._again_after(name, RETRY_SECONDS)
        except Exception as error:  # one node must not stop the others
            log.exception("simulated node failed", node=name)
            self._progress("error", name, f"{type(error).__name__}: {error}")
            self._again_after(name, RETRY_SECONDS)
        finally:
            del self._tasks[name]
            self._wake.set()

    async def _step(self, name: str) -> bool:
        """Carries out the next step of a node. Returns whether there was one."""
        node, pods, now = self.state.nodes[name], self.state.pods_of(name), time.time()
        try:
            machine, faults = machine_of(node), faults_of(node)
        except ValueError as error:
            await self._warn(Warn(NODE, node.metadata, MALFORMED, str(error)))
            return False
        for pod in pods:
            if problem := pod_problem(pod):
                message = f"metadata.annotations[{problem[0]}] is ignored: {problem[1]}"
                await self._warn(Warn(POD, pod.metadata, MALFORMED, message))
        step = next_step(machine, node, faults, pods, now)
        for write in step.writes:
            stored = await self._writer.carry_out(write)
            if stored is not None:
                self.state.upsert(write.kind.name, stored)
            elif isinstance(write, Remove):
                self.state.delete_removed(write)
            elif isinstance(write, Patch):  # the object is gone: the watch will say so
                self._again_after(name, RETRY_SECONDS)
                return False
        for text in step.news:
            self._progress("pod", name, text)
        if not step.writes and faults.kubelet is Kubelet.RUNNING:
            await self._report(machine, report_of(machine, faults, read_holdings(machine.family, pods)), now)
        if step.after is not None:
            self._again_after(name, step.after)
        return bool(step.writes)

    async def _report(self, machine: Machine, report: Report, now: float) -> None:
        """Writes the ConfigMaps of a node if they changed, or are old."""
        last = self._reports.get(machine.name)
        if last is not None and last[:2] == (machine, report) and now - last[2] < REFRESH_SECONDS:
            return
        for write in report_writes(machine, report, now):
            await self._writer.carry_out(write)
        self._reports[machine.name] = (machine, report, now)
        self._again_after(machine.name, REFRESH_SECONDS)
        self._reported.set()
        if last is None or last[1] != report:
            self._progress("node", machine.name, summary(machine, report))

    def _again_after(self, name: str, seconds: float) -> None:
        """Handles a node again later; an earlier time that is set already stays."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(name)
        if timer is not None and not timer.cancelled() and loop.time() < timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[name] = loop.call_later(seconds, self._changed, name)

    async def _warn(self, warning: Warn) -> None:
        """Records a warning once."""
        if (warning.metadata.uid, warning.message) not in self._warned:
            self._warned.add((warning.metadata.uid, warning.message))
            self._progress("error", warning.metadata.name, warning.message)
            await self._writer.carry_out(warning)

    def _set_aside(self, malformed: Malformed, _: ObjectRef) -> None:
        self._progress("error", malformed.name, malformed.message)

    # --- periodic work ------------------------------------------------------------------------------------------------
    async def _renew_leases(self) -> None:
        """Renews the Leases of nodes whose kubelet runs, for the node lifecycle controller."""
        while True:
            try:
                await self._all(
                    self._writer.renew_lease(name, node.metadata.uid)
                    for name, node in list(self.state.nodes.items())
                    if _kubelet_runs(node)
                )
            except (ApiError, TransportError) as error:
                self._progress("error", "", f"Leases were not renewed: {error}")
            await asyncio.sleep(LEASE_RENEWAL)

    async def _report_cluster(self) -> None:
        """Writes ClusterD's ConfigMaps when a report changed, unless another ClusterD does so."""
        written: set[str] = set()
        while True:
            await self._reported.wait()
            self._reported.clear()
            try:
                if not written and await self._writer.is_foreign(
                    CONFIG_MAP, NODE_INFO_NAMESPACE, "cluster-info-device-0"
                ):
                    self._progress("node", "", "another ClusterD writes cluster-info-device-0: none is simulated")
                    return
                writes = cluster_writes(
                    ((machine, report) for machine, report, _ in self._reports.values()), time.time()
                )
                for write in writes:
                    await self._writer.carry_out(write)
                names = {write.manifest["metadata"]["name"] for write in writes}
                for name in written - names:
                    await self._writer.remove(CONFIG_MAP, NODE_INFO_NAMESPACE, name)
                written = names
            except (ApiError, TransportError) as error:
                self._progress("error", "", f"ClusterD: {error}")
                self._reported.set()
            await asyncio.sleep(CLUSTER_SECONDS)


def summary(machine: Machine, report: Report) -> str:
    """The report of a node in one line."""
    resource = machine.family.resource
    counts = {key.removeprefix(resource).lstrip("-") or "free": text for key, text in report.devices.items()}
    del counts["Fault"]
    parts = [f"{text.count(',') + 1 if text else 0} {key}" for key, text in counts.items() if text or key == "free"]
    if report.node is not None:
        parts.append(f"node {report.node['NodeStatus']}")
    if report.switch is not None and report.switch["NodeStatus"] != "Healthy":
        parts.append(f"switch {report.switch['NodeStatus']}")
    return f"{resource}: {', '.join(parts)}"


def _kubelet_runs(node: SimulatedNode) -> bool:
    try:
        return faults_of(node).kubelet is Kubelet.RUNNING
    except ValueError:
        return True


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
