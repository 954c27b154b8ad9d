"""What device plugins do on a real cluster, as far as the scheduler waits for it.

Once a Pod that was given devices runs, the lock of its node is taken away.
"""

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
from scheduler.cluster.memory.pods import node_of
from scheduler.cluster.memory.server import Json, MemoryServer

_LOCKS: Final = {GPU_NODE_LOCK: GPU_INDEX, VGPU_NODE_LOCK: VGPU_BIND_PHASE, HAMI_NODE_LOCK: HAMI_BIND_PHASE}
"""Lock -> the annotation of Pods that were given devices under it."""


def free_node_locks(server: MemoryServer) -> bool:
    """Whether a lock was taken away."""
    changed = False
    for node in server.by(NODE, _is_locked):
        name = node["metadata"]["name"]
        for lock in _LOCKS.keys() & node["metadata"]["annotations"].keys():
            if _served(server, name, _LOCKS[lock]):
                changed |= server.patch(NODE, "", name, {"metadata": {"annotations": {lock: None}}})
    return changed


def _is_locked(node: Json) -> bool | None:
    return not _LOCKS.keys().isdisjoint(node["metadata"].get("annotations") or ()) or None


def _served(server: MemoryServer, node: str, annotation: str) -> bool:
    """Whether a Pod that has the annotation runs on the node."""
    return any(
        pod["status"].get("phase") == "Running" and annotation in (pod["metadata"].get("annotations") or {})
        for pod in server.by(POD, node_of, node)
    )
