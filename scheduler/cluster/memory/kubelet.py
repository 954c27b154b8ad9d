"""What starts and ends Pods in a simulation between two cycles: kubelets, the taint eviction controller, and the
garbage collector of Pods.

The garbage collector makes the Pods whose Node does not exist fail, and deletes them, whether they run, terminate or
have ended; their owners create others. On a cluster that takes up to a minute after the deletion of the Node, and a
Node that is created again meanwhile keeps its Pods. Manifests that are written by hand have Pods without owners, and
leave out Nodes. So a Pod that was loaded without a uid is kept if its Node was never there. If its Node is deleted, it
is created again, as its owner would do.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.api.kinds import NODE, POD, Kind
from scheduler.api.names import TASK_ANNOTATIONS
from scheduler.api.node import not_ready_since
from scheduler.api.objects import ENDED_PHASES, KubeObject, Taint
from scheduler.api.pod_rules import NO_EXECUTE, tolerates
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.playground import is_simulated
from scheduler.cluster.memory.raw_objects import Json, format_time, keeps, owner_uids, set_condition
from scheduler.cluster.memory.server import Key, MemoryServer, key_of
from scheduler.controllers.evictions import BY_POD_GC, DISRUPTION_TARGET


class SimulatedKubelet:
    """Runs bound Pods, and removes a deleted Pod in the second run after its deletion. Does neither on a node that is
    not ready."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._terminating: list[Key] = []
        """Pods deleted before the last run, which the next run removes."""

    @property
    def has_terminating_pods(self) -> bool:
        """Whether deleted Pods still exist."""
        return bool(self._terminating or self._server.terminating)

    def end_terminating(self) -> None:
        """Lets Pods end that were terminating when they were loaded, or when their node was not ready."""
        self._server.terminating += self.stopped()

    def stopped(self) -> list[Key]:
        """The Pods that ``end_terminating`` lets end."""
        known = {*self._terminating, *self._server.terminating}
        terminating = self._server.by_index(POD, _is_terminating)
        keys = ((key_of(POD, raw["metadata"]["namespace"], raw["metadata"]["name"]), raw) for raw in terminating)
        return [key for key, raw in keys if key not in known and self._has_kubelet(raw)]

    def run(self) -> tuple[bool, list[Json]]:
        """Returns whether anything changed, and the Pods deleted for a NoExecute taint that they do not tolerate."""
        server = self._server
        changed = self.remove_deleted()
        for raw in server.by_index(POD, _is_starting):
            node = server.find(NODE, "", raw["spec"]["nodeName"])
            if (node is not None and is_simulated(node)) or not self._has_kubelet(raw):
                continue  # its node has a kubelet of its own, or none that answers
            meta = raw["metadata"]
            running = {**raw, "status": {**raw["status"], "phase": "Running"}}
            server.update(POD, meta["namespace"], meta["name"], running)
            changed = True
        taint_evicted = [
            raw
            for node, taints in self._tainted().items()
            for raw in server.by_index(POD, node_of, node)
            if _is_running(raw) and not self._tolerates_all(raw, taints)
        ]
        for raw in taint_evicted:
            server.delete(POD, raw["metadata"]["namespace"], raw["metadata"]["name"])
        return changed or bool(taint_evicted), taint_evicted

    def remove_deleted(self) -> bool:
        """Removes the Pods that were deleted before the last call. Returns whether there were any."""
        server = self._server
        due = self._terminating
        self._terminating, server.terminating = server.terminating, []
        for key in due:
            raw = server.find(POD, key[1], key[2])
            if raw is None or not self._has_kubelet(raw):
                continue
            if keeps(raw):
                server.patch(POD, key[1], key[2], {"status": {"phase": "Failed"}})  # its containers have ended
            server.end(key)
        return bool(due)

    def _has_kubelet(self, pod: Json) -> bool:
        """Whether the node of a Pod is ready, or unknown to the simulation."""
        node = self._server.decoded(NODE, "", pod["spec"].get("nodeName") or "")
        return node is None or not_ready_since(node) is None

    def _tainted(self) -> dict[str, list[Taint]]:
        """The NoExecute taints by node."""
        result = {}
        for node in self._server.by_index(NODE, _is_tainted):
            all_taints = [msgspec.convert(taint, Taint) for taint in node["spec"]["taints"]]
            no_execute = [taint for taint in all_taints if taint.effect == NO_EXECUTE]
            if no_execute:
                result[node["metadata"]["name"]] = no_execute
        return result

    def _tolerates_all(self, raw: Json, taints: list[Taint]) -> bool:
        pod = self._server.decoded(POD, raw["metadata"]["namespace"], raw["metadata"]["name"])
        tolerations = (pod.spec.tolerations if pod is not None else None) or ()
        return all(tolerates(tolerations, taint) for taint in taints)


def _is_starting(pod: Json) -> bool | None:
    """Whether a bound Pod is about to start."""
    is_pending = pod["status"].get("phase") in (None, "", "Pending")
    return (is_pending and bool(node_of(pod)) and not pod["metadata"].get("deletionTimestamp")) or None


def _is_terminating(pod: Json) -> bool | None:
    """Whether a Pod terminates on its node."""
    meta = pod["metadata"]
    ends = meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds") != 0
    return bool(ends and node_of(pod)) or None


def _is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def _is_tainted(node: Json) -> bool | None:
    return bool((node.get("spec") or {}).get("taints")) or None


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
