"""The device plugin of one node with a real kubelet, until it is cancelled.

All state is in the cluster (labels and annotations of the Node, annotations of its Pods), so the device plugin and the
kubelet can be stopped and started again at any time.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from pathlib import Path
from typing import Final

import msgspec

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import NAMESPACE
from scheduler.api.names import PREDICATE_TIME
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.playground.device_plugin.pod_resources import PodResourcesError, assigned_devices
from scheduler.cluster.kube.playground.device_plugin.registration import KUBELET_SOCKET, Registrations
from scheduler.cluster.kube.playground.device_plugin.service import DevicePluginService
from scheduler.cluster.kube.playground.nodes import NodeTasks, PlaygroundState
from scheduler.cluster.kube.playground.reporter import Reporter
from scheduler.cluster.kube.playground.watches import watched
from scheduler.cluster.kube.playground.writes import PlaygroundWriter, Progress
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.pages import pages_of_objects
from scheduler.playground.answers import container_environment, preferred_devices
from scheduler.playground.corrections import (
    Assigned,
    Mounted,
    answered_annotations,
    correct,
    lost_answers,
    mounted_by_annotations,
)
from scheduler.playground.device_plugin import (
    AdmissionError,
    PodDevices,
    mount,
    next_pod,
)
from scheduler.playground.families import NodeFamily
from scheduler.playground.faults import Faults
from scheduler.playground.kubelet import MALFORMED
from scheduler.playground.kubelet_devices import offered_devices
from scheduler.playground.node import Machine, faults_of, machine_of, read_holdings
from scheduler.playground.objects import CONSUMED, NODE, POD, Patch, SimulatedNode, SimulatedPod, Warn, annotations_of
from scheduler.playground.real_node import announcement
from scheduler.playground.reports import NODE_INFO_NAMESPACE

CORRECTION_SECONDS: Final = 5.0
"""Seconds between two corrections of the annotations of Pods; the real device plugin corrects as often."""

STORED_SECONDS: Final = 0.5
"""Seconds from an answer to the kubelet to the correction that follows it."""
KEPT: Final = 1024
"""Answers to the kubelet that are kept: more than a node has Pods."""


def socket_of(directory: Path, resource: str) -> Path:
    """The socket of the device plugin for a resource."""
    return directory / f"volcano-py-{resource.rpartition('/')[2]}.sock"


class NodeDevicePlugin:
    """Simulates the devices of one Node for its kubelet. Belongs to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        directory: Path,
        root: Path,
        progress: Progress = lambda kind, node, text: None,
        *,
        correction_seconds: float = CORRECTION_SECONDS,
    ) -> None:
        """``directory``: the kubelet's directory for device plugins; ``root``: its directory for everything else."""
        self.sources: Final = (WatchSource(NODE, name=node), WatchSource(POD, node=node))
        self._client = client
        self._name = node
        self._directory = directory
        self._pod_resources = root / "pod-resources" / KUBELET_SOCKET
        self._progress = progress
        self._correction_seconds = correction_seconds
        self._pause = min(correction_seconds, STORED_SECONDS)
        self._writer = PlaygroundWriter(client)
        self.state = PlaygroundState(self._changed)
        self._tasks = NodeTasks(self._handle, 1, progress)
        self._reporter = Reporter(self._writer, self.state, progress)
        self._family: NodeFamily
        self._division = ""
        self._machine: Machine
        self._faults = Faults()
        self._services: list[DevicePluginService] = []
        self._mounted: dict[frozenset[str], Sequence[str]] = {}
        """What was mounted for devices that the kubelet assigned, the newest last."""
        self._answered: dict[str, frozenset[str]] = {}
        """UIDs of Pods whose annotations were followed in answers that the kubelet is about to store, with the devices
        that it assigned."""
        self._allocating = asyncio.Lock()
        self._allocated = asyncio.Event()
        self._warned: set[str] = set()

    # --- the Node -----------------------------------------------------------------------------------------------------
    async def announce(self, family: NodeFamily, division: str) -> None:
        """Makes the Node one of a family. Only inside ``watching``. Raises RequestError, and ValueError if there is no
        such Node or it is a simulated one."""
        node = self.state.nodes.get(self._name)
        if node is None:
            raise ValueError(f"Node {self._name} does not exist: the kubelet registers it")
        self._family, self._division = family, division
        node = await self._announced(node)
        self._machine = machine_of(node)
        await self._follow_faults(node)
        if not family.gpus:
            await self._writer.create(NAMESPACE, "", {"metadata": {"name": NODE_INFO_NAMESPACE}})
        self._services = [
            DevicePluginService(resource, socket_of(self._directory, resource), self)
            for resource, amount in self._machine.amounts(set()).items()
            if amount
        ]

    async def _announced(self, node: SimulatedNode) -> SimulatedNode:
        """The Node with the labels and annotations of its family. Raises RequestError, ValueError."""
        patch = announcement(node, self._family, self._division)
        if patch is None:
            return node
        stored = await self._writer.carry_out(patch)
        if not isinstance(stored, SimulatedNode):
            raise ValueError(f"Node {self._name} was deleted")
        self.state.upsert(NODE, stored)
        return stored

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Watches the Node and its Pods; they are known from the beginning."""
        return watched(self._client, self.sources, self.state, self._set_aside)

    async def run(self) -> None:
        """Serves the kubelet until it is cancelled. Only inside ``watching``, after ``announce``."""
        self._tasks.add(self._name)
        registrations = Registrations(
            self._name, self._directory, self._services, self._progress, registered=self._answered.clear
        )
        work = [registrations.run(), self._tasks.run()]
        if not self._family.gpus:
            work += [self._reporter.run(), self._correct_periodically()]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel(*tasks)
            for service in self._services:
                await service.stop()

    @property
    def _pods(self) -> list[SimulatedPod]:
        return self.state.pods_of(self._name)

    def _changed(self, node: str) -> None:
        if node == self._name:
            self._tasks.add(node)

    async def _handle(self, name: str) -> None:
        """Follows a change of the Node or of its Pods."""
        node = self.state.nodes.get(name)
        if node is not None:
            try:
                node = await self._announced(node)  # a Node that was created again lacks all
                self._machine = machine_of(node)
            except ValueError as error:
                await self._warn(Warn(NODE, node.metadata, MALFORMED, str(error)))
            await self._follow_faults(node)
        for service in self._services:
            service.changed()
        if not self._family.gpus:
            self._reporter.add(name)

    async def _follow_faults(self, node: SimulatedNode) -> None:
        """Malformed faults are set aside with a Warning: the last ones stay."""
        try:
            self._faults = faults_of(node)
        except ValueError as error:
            await self._warn(Warn(NODE, node.metadata, MALFORMED, str(error)))

    # --- answers to the kubelet ---------------------------------------------------------------------------------------
    def offered(self, resource: str) -> dict[str, bool]:
        """The devices, and whether each is healthy."""
        holdings = read_holdings(self._machine.family, self._pods)
        return offered_devices(self._machine, self._faults, holdings, resource)

    async def preferred(
        self, resource: str, available: Sequence[str], required: Sequence[str], amount: int
    ) -> list[str]:
        """The devices that the kubelet should assign. Raises RequestError."""
        async with self._allocating:
            forgotten = await self._forgotten(amount)
            if not self._family.gpus and next_pod(self._machine, self._pods, resource, amount, forgotten) is None:
                await self._read_pods()
            return preferred_devices(self._machine, self._pods, resource, set(available), required, amount, forgotten)

    async def allocate(self, resource: str, devices: Sequence[str]) -> dict[str, str]:
        """The environment of a container to which the kubelet assigned devices. Raises AdmissionError, RequestError.

        The kubelet may know a Pod before the watch reports it, or that another one has ended: if the Pods that are
        known do not allow an answer, they are read again.
        """
        async with self._allocating:
            try:
                found = await self._mount(resource, devices)
            except AdmissionError:
                await self._read_pods()
                try:
                    found = await self._mount(resource, devices)
                except AdmissionError as error:
                    self._progress("error", self._name, f"{resource} was refused: {error}")
                    raise
            kubelet = frozenset(found.kubelet)
            self._mounted.pop(kubelet, None)
            self._mounted[kubelet] = found.mounted
            if len(self._mounted) > KEPT:
                del self._mounted[next(iter(self._mounted))]
        self._allocated.set()
        who = "a container" if found.chosen is None else f"Pod {found.chosen.key}"
        self._progress("pod", self._name, f"{who} gets {', '.join(found.mounted)}")
        return container_environment(self._machine, found)

    async def _mount(self, resource: str, devices: Sequence[str]) -> PodDevices:
        """Chooses the devices, and annotates the Pod whose annotation names them.

        Raises AdmissionError, RequestError.
        """
        while True:
            pods, forgotten = self._pods, await self._forgotten(len(devices))
            holding = (pod for pod in pods if not forgotten.get(pod.metadata.uid))
            holdings = read_holdings(self._machine.family, holding)
            found = mount(self._machine, self._faults, pods, holdings, resource, devices, forgotten)
            pod = found.chosen
            if pod is None:
                return found
            annotations = answered_annotations(self._machine, pod, found, again=forgotten.get(pod.metadata.uid, False))
            stored = await self._writer.carry_out(Patch(POD, pod.metadata, {"metadata": {"annotations": annotations}}))
            if stored is not None:
                self.state.upsert(POD, stored)
                self._answered[pod.metadata.uid] = frozenset(found.kubelet)
                return found
            self.state.delete(POD, pod.metadata.namespace, pod.metadata.name)  # the next one is chosen

    async def _forgotten(self, amount: int) -> dict[str, bool]:
        """``lost_answers`` about an amount of chips."""
        consumed = (pod for pod in self._pods if annotations_of(pod).get(PREDICATE_TIME) == CONSUMED)
        if self._family.gpus or all(pod.metadata.uid in self._answered for pod in consumed):
            return {}
        try:
            assigned = await self._assigned()
        except PodResourcesError:
            return {}
        return lost_answers(self._machine, self._pods, assigned, self._all_mounted(), self._answered, amount)

    def _all_mounted(self) -> Mounted:
        """What was mounted by this process and by earlier ones."""
        return {**mounted_by_annotations(self._machine, self._pods), **self._mounted}

    # --- what the kubelet has assigned --------------------------------------------------------------------------------
    async def _correct_periodically(self) -> None:
        """Corrects the annotations of Pods, which may name the devices of another one, also after each answer."""
        problem = ""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._allocated.wait(), self._correction_seconds)
            await asyncio.sleep(self._pause)  # the kubelet stores the answer
            self._allocated.clear()
            try:
                async with self._allocating:
                    await self._correct(await self._assigned())
                problem = ""
            except (PodResourcesError, *REQUEST_ERRORS) as error:
                if str(error) != problem:
                    problem = str(error)
                    self._progress("error", self._name, problem)

    async def _assigned(self) -> Assigned:
        """What the kubelet has stored. Raises PodResourcesError."""
        assigned = await assigned_devices(self._pod_resources)
        stored = {frozenset(names) for resources in assigned.values() for names in resources.values()}
        pods = {pod.metadata.uid for pod in self._pods}
        for uid in [uid for uid, kubelet in self._answered.items() if kubelet in stored or uid not in pods]:
            del self._answered[uid]
        return assigned

    async def _correct(self, assigned: Assigned) -> None:
        """Raises RequestError."""
        step = correct(self._machine, self._pods, assigned, self._all_mounted())
        for write in step.writes:
            stored = await self._writer.carry_out(write)
            if stored is not None:
                self.state.upsert(POD, stored)
        for text in step.news:
            self._progress("pod", self._name, text)

    async def _read_pods(self) -> None:
        """Reads the Pods of the node from the API server. Raises RequestError."""
        known = {(pod.metadata.namespace, pod.metadata.name) for pod in self._pods}
        source = WatchSource(POD, node=self._name)
        pages = pages_of_objects(self._client, source, 0, msgspec.json.Decoder(SimulatedPod))
        async with aclosing(pages):
            async for page in pages:
                for pod in (item.object for item in page.items or () if item.object is not None):
                    known.discard((pod.metadata.namespace, pod.metadata.name))
                    self.state.upsert(POD, pod)
        for namespace, name in known:
            self.state.delete(POD, namespace, name)

    async def _warn(self, warning: Warn) -> None:
        """Records a warning once."""
        if warning.message not in self._warned:
            self._warned.add(warning.message)
            self._progress("error", self._name, warning.message)
            await self._writer.carry_out(warning)

    def _set_aside(self, malformed: Malformed, _: ObjectRef) -> None:
        self._progress("error", malformed.name, malformed.message)
