"""The garbage collector of Pods in a simulation: Pods whose Node does not exist fail and are deleted.

It does so whether they run, terminate or have ended; their owners create others. On a cluster that takes up to a minute
after the deletion of the Node, and a Node that is created again meanwhile keeps its Pods.

Manifests that are written by hand have Pods without owners, and leave out Nodes. So a Pod that was loaded without a uid
is kept if its Node was never there. If its Node is deleted, it is created again, as its owner would do.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.api.kinds import NODE, POD, Kind
from scheduler.api.names import TASK_ANNOTATIONS
from scheduler.api.objects import ENDED_PHASES, KubeObject
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.raw_objects import Json, format_time, owner_uids, set_condition
from scheduler.cluster.memory.server import MemoryServer
from scheduler.controllers.evictions import BY_POD_GC, DISRUPTION_TARGET

_OMITTED: Final = frozenset(
    {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"}
)


class LostPods:
    """Deletes the Pods of Nodes that do not exist."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._lost: dict[tuple[str, str], None] = {}
        """Namespace and name of Pods whose Node was missing when they were loaded, or has been deleted."""
        server.watch(self._observe)

    def observe_loaded(self, pods: Iterable[Json]) -> None:
        """Takes Pods as they were loaded. Without any Node, Nodes were left out."""
        nodes = {None, *(node["metadata"]["name"] for node in self._server.of(NODE))}
        if len(nodes) > 1:
            for raw in pods:
                if node_of(raw) not in nodes and not self._server.has_generated_uid(POD, raw):
                    self._add(raw)

    def is_lost(self, pod: Json) -> bool:
        """Whether the Pod is to be deleted because its Node does not exist."""
        meta = pod["metadata"]
        return (meta["namespace"], meta["name"]) in self._lost and self._is_lost(pod)

    def run(self) -> bool:
        """Deletes the Pods. Returns whether there were any."""
        lost, self._lost = self._lost, {}
        found = [self._server.find(POD, *key) for key in lost]
        gone = [raw for raw in found if raw is not None and self._is_lost(raw)]
        for raw in gone:
            self._delete(raw)
        return bool(gone)

    def _observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if kind is NODE and old is not None and new is None:
            for raw in self._server.by_index(POD, node_of, old.metadata.name):
                self._add(raw)

    def _add(self, pod: Json) -> None:
        self._lost[pod["metadata"]["namespace"], pod["metadata"]["name"]] = None

    def _is_lost(self, pod: Json) -> bool:
        node = node_of(pod)
        return node is not None and self._server.find(NODE, "", node) is None

    def _delete(self, pod: Json) -> None:
        server, meta = self._server, pod["metadata"]
        ended = (pod["status"].get("phase") or "") in ENDED_PHASES
        if not ended:
            status = {**pod["status"], "phase": "Failed"}
            now = format_time(server.clock)
            set_condition(status, DISRUPTION_TARGET, "True", BY_POD_GC, "PodGC: node no longer exists", now)
            server.update(POD, meta["namespace"], meta["name"], {**pod, "status": status})
        server.delete(POD, meta["namespace"], meta["name"], force=True)
        if not ended and not meta.get("deletionTimestamp") and self._is_created_again(pod):
            server.create(POD, _copy(pod))

    def _is_created_again(self, pod: Json) -> bool:
        """Whether the simulation creates the Pod in place of its owner."""
        owners = owner_uids(pod)
        if any(self._server.exists(owner) for owner in owners):
            return False
        return bool(owners) or self._server.has_generated_uid(POD, pod)


def _copy(pod: Json) -> Json:
    """A new Pod like this one."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OMITTED}
    metadata["annotations"] = {
        k: v for k, v in (metadata.get("annotations") or {}).items() if k not in TASK_ANNOTATIONS
    }
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": metadata, "spec": spec}
