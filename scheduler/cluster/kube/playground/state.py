"""The simulated Nodes and the Pods on them, from watches and from the answers to the playground's own writes."""

from collections.abc import Callable

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.playground.objects import NODE, Remove, SimulatedNode, SimulatedPod

Key = tuple[str, str]


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
