"""Simulated NPU nodes on a real cluster, until it is cancelled.

All state is in the cluster (labels and annotations of Nodes, annotations of Pods), so the playground can be stopped and
started again at any time. Each node is handled by one task at a time, which carries out one step after the other.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import CONFIG_MAP, NAMESPACE
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.playground.nodes import RETRY_SECONDS, NodeTasks, PlaygroundState
from scheduler.cluster.kube.playground.reporter import Reporter
from scheduler.cluster.kube.playground.watches import watched
from scheduler.cluster.kube.playground.writes import LEASE_NAMESPACE, PlaygroundWriter, Progress
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.pages import pages_of_heads
from scheduler.playground.kubelet import MALFORMED, next_step, pod_problem, ready_conditions
from scheduler.playground.node import Machine, faults_of, machine_of, node_manifest
from scheduler.playground.objects import CREATED, FAMILY, LEASE, NODE, NODE_INFO_PREFIX, POD, Patch, Remove, Warn
from scheduler.playground.reports import NODE_INFO_NAMESPACE

CONCURRENT: Final = 32
"""Nodes that write at once."""


class Playground:
    """Runs the simulated nodes of a cluster. Belongs to one event loop."""

    sources: Final = (WatchSource(NODE, labels=FAMILY), WatchSource(POD))
    """The watched kinds."""

    def __init__(self, client: ApiClient, progress: Progress = lambda kind, node, text: None) -> None:
        self._client = client
        self._progress = progress
        self._writer = PlaygroundWriter(client)
        self.state = PlaygroundState(self._changed)
        self._nodes = NodeTasks(self._handle, CONCURRENT, progress)
        self._reporter = Reporter(self._writer, self.state, progress)
        self._warned: set[tuple[str, str]] = set()
        self._slots = asyncio.Semaphore(CONCURRENT)

    # --- Nodes --------------------------------------------------------------------------------------------------------
    async def create(self, machines: Sequence[Machine], *, taint: bool = False) -> list[str]:
        """Creates Nodes. Returns the names of those that exist already, which are left alone. Raises RequestError."""
        await self._writer.create(NAMESPACE, "", {"metadata": {"name": NODE_INFO_NAMESPACE}})

        async def create(machine: Machine) -> bool:
            async with self._slots:
                manifest = node_manifest(machine, ready_conditions(time.time()), taint=taint)
                return await self._writer.create(NODE, "", manifest)

        created = await asyncio.gather(*(create(machine) for machine in machines))
        return [machine.name for machine, new in zip(machines, created, strict=True) if not new]

    async def clean_up(self) -> tuple[int, int]:
        """Removes all simulated Nodes, the Pods on them, and all that was reported about them. Returns the numbers of
        Nodes and Pods. Only inside ``watching``, and not while ``run`` runs. Raises RequestError."""
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
        listed = WatchSource(CONFIG_MAP, NODE_INFO_NAMESPACE, labels=f"{CREATED}=true")
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
    def watching(self) -> AbstractAsyncContextManager[None]:
        """Watches the simulated Nodes and all Pods; both are known from the beginning."""
        return watched(self._client, self.sources, self.state, self._set_aside)

    async def run(self) -> None:
        """Runs the nodes until it is cancelled. Only inside ``watching``."""
        reporter = self._reporter
        work = (reporter.run(), reporter.renew_leases(self._all), reporter.report_cluster())
        reporting = [asyncio.create_task(each) for each in work]
        try:
            await self._nodes.run()
        finally:
            await cancel(*reporting)

    def _changed(self, node: str) -> None:
        if node in self.state.nodes or node in self._reporter.reports:
            self._nodes.add(node)

    async def _handle(self, name: str) -> None:
        """Carries out the steps of a node until nothing is left to do."""
        while name in self.state.nodes and await self._step(name):
            pass
        self._reporter.add(name)

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
                self.state.upsert(write.kind, stored)
            elif isinstance(write, Remove):
                self.state.delete_removed(write)
            elif isinstance(write, Patch):  # the object is gone: the watch will say so
                self._nodes.add_after(name, RETRY_SECONDS)
                return False
        for text in step.news:
            self._progress("pod", name, text)
        if step.after is not None:
            self._nodes.add_after(name, step.after)
        return bool(step.writes)

    async def _warn(self, warning: Warn) -> None:
        """Records a warning once."""
        if (warning.metadata.uid, warning.message) not in self._warned:
            self._warned.add((warning.metadata.uid, warning.message))
            self._progress("error", warning.metadata.name, warning.message)
            await self._writer.carry_out(warning)

    def _set_aside(self, malformed: Malformed, _: ObjectRef) -> None:
        self._progress("error", malformed.name, malformed.message)
