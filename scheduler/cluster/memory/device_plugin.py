"""Simulated device plugins: remove the lock of a node once a Pod with allocated devices runs on it."""

from typing import Final

from scheduler.api.kinds import NODE, POD
from scheduler.api.names import (
    GPU_INDEX,
    GPU_NODE_LOCK,
    HAMI_BIND_PHASE,
    HAMI_NODE_LOCK,
    VGPU_BIND_PHASE,
    VGPU_NODE_LOCK,
)
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer

_LOCKS: Final = {GPU_NODE_LOCK: GPU_INDEX, VGPU_NODE_LOCK: VGPU_BIND_PHASE, HAMI_NODE_LOCK: HAMI_BIND_PHASE}
"""Lock annotation of nodes -> annotation of the Pods with devices that were allocated under the lock."""


def release_node_locks(server: MemoryServer) -> bool:
    """Removes node locks. Returns whether there were any to remove."""
    changed = False
    for node in server.by_index(NODE, _is_locked):
        name = node["metadata"]["name"]
        for lock in _LOCKS.keys() & node["metadata"]["annotations"].keys():
            if _has_running_pod(server, name, _LOCKS[lock]):
                changed |= server.patch(NODE, "", name, {"metadata": {"annotations": {lock: None}}})
    return changed


def _is_locked(node: Json) -> bool | None:
    return not _LOCKS.keys().isdisjoint(node["metadata"].get("annotations") or ()) or None


def _has_running_pod(server: MemoryServer, node: str, annotation: str) -> bool:
    """Whether a Pod with the annotation runs on the node."""
    return any(
        pod["status"].get("phase") == "Running" and annotation in (pod["metadata"].get("annotations") or {})
        for pod in server.by_index(POD, node_of, node)
    )
