"""The simulated Nodes and the Pods on them, as watches and answers to writes show them, and the work on each node."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.cluster.kube.playground.writes import Progress
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS
from scheduler.playground.objects import NODE, Remove, SimulatedNode, SimulatedPod

Key = tuple[str, str]
RETRY_SECONDS = 2.0
log = structlog.get_logger(__name__)


class PlaygroundState:
    """A ``Sink`` of informers. ``changed`` is called with the name of each node of which something changed."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self.nodes: dict[str, SimulatedNode] = {}
        self._changed = changed
        self._pods: dict[Key, SimulatedPod] = {}
        self._by_node: dict[str, dict[Key, None]] = {}
        """Pods in the order in which they were bound."""
        self._removed: dict[Key, str] = {}
        """UIDs of removed Pods whose older states the watch may still report."""

    def pods_of(self, node: str) -> list[SimulatedPod]:
        """The Pods of a node, in the order in which its kubelet learned of them."""
        return [self._pods[key] for key in self._by_node.get(node, ())]

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        if isinstance(obj, SimulatedNode):
            if _newer(obj, self.nodes.get(obj.metadata.name)):
                self.nodes[obj.metadata.name] = obj
                self._changed(obj.metadata.name)
        elif isinstance(obj, SimulatedPod) and obj.spec.node_name:
            key = (obj.metadata.namespace, obj.metadata.name)
            if self._removed.get(key) != obj.metadata.uid and _newer(obj, self._pods.get(key)):
                before = self._pods.get(key)
                if before is not None and before.metadata.uid != obj.metadata.uid:
                    self._forget(key)
                self._pods[key] = obj
                self._by_node.setdefault(obj.spec.node_name, {})[key] = None
                self._changed(obj.spec.node_name)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        if kind is NODE:
            if self.nodes.pop(name, None) is not None:
                self._changed(name)
        else:
            self._removed.pop((namespace, name), None)
            self._forget((namespace, name))

    def delete_removed(self, write: Remove) -> None:
        """Forgets a Pod that was just removed."""
        key = (write.namespace, write.name)
        current = self._pods.get(key)
        if current is not None and current.metadata.uid == write.uid:
            self._removed[key] = write.uid
            self._forget(key)

    def _forget(self, key: Key) -> None:
        pod = self._pods.pop(key, None)
        if pod is not None and pod.spec.node_name:
            self._by_node[pod.spec.node_name].pop(key, None)
            self._changed(pod.spec.node_name)


def _newer(obj: KubeObject, known: KubeObject | None) -> bool:
    if known is None or known.metadata.uid != obj.metadata.uid:
        return True
    ours, theirs = known.metadata.resource_version, obj.metadata.resource_version
    return not (ours.isdecimal() and theirs.isdecimal()) or int(theirs) > int(ours)


class NodeTasks:
    """Runs ``work`` for each node that was added; again if it was added in the meantime. A failure is reported to
    ``progress`` and retried after ``RETRY_SECONDS``. Belongs to one event loop."""

    def __init__(self, work: Callable[[str], Awaitable[None]], at_once: int, progress: Progress) -> None:
        self._work = work
        self._progress = progress
        self._slots = asyncio.Semaphore(at_once)
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, node: str) -> None:
        """Queues the node to be handled after the nodes that were added before."""
        self._due[node] = None
        self._wake.set()

    def add_after(self, node: str, seconds: float) -> None:
        """Adds the node later. An earlier time that is set already stays."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(node)
        if timer is not None and not timer.cancelled() and loop.time() < timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[node] = loop.call_later(seconds, self.add, node)

    async def run(self) -> None:
        """Handles nodes until it is cancelled."""
        try:
            while True:
                self._wake.clear()
                for node in [node for node in self._due if node not in self._tasks]:
                    del self._due[node]
                    self._tasks[node] = asyncio.create_task(self._handle(node))
                await self._wake.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await cancel(*self._tasks.values())

    async def _handle(self, node: str) -> None:
        try:
            async with self._slots:
                await self._work(node)
        except REQUEST_ERRORS as error:
            self._progress("error", node, str(error))
            self.add_after(node, RETRY_SECONDS)
        except Exception as error:  # one node must not stop the others
            log.exception("simulated node failed", node=node)
            self._progress("error", node, f"{type(error).__name__}: {error}")
            self.add_after(node, RETRY_SECONDS)
        finally:
            del self._tasks[node]
            self._wake.set()
