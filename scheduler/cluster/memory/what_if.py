"""Changes to a cluster in memory, written as manifests: objects to add, change or delete.

An object is added, or replaces the one with its kind and name; status fields that the manifest omits stay. With the
annotation ``volcano-py/what-if: merge`` the manifest is a JSON merge patch, with ``delete`` only its name counts.
Deleting a PodGroup deletes its Pods. The Pods of a deleted Node are deleted, too (``lost_pods``). A Pod on a node whose
requests change is resized in place at once, unless the patch has a status.
"""

import copy
from collections.abc import Sequence
from typing import Final

from scheduler.api.kinds import POD, POD_GROUP, Kind
from scheduler.api.messages import value_of
from scheduler.api.names import DEFAULT_NAMESPACE, WHAT_IF
from scheduler.api.pod_resize import RESIZE_CONDITIONS
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.defaults import set_defaults
from scheduler.cluster.memory.index import group_of
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import key_of

DELETE: Final = "delete"
MERGE: Final = "merge"
_REQUESTING: Final = ("containers", "initContainers", "resources")
"""Fields of the spec of a Pod."""
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_RESIZE: Final = ("allocatedResources", "resources", "resize")
"""Fields of the status of a Pod or container that say how far a resize is."""


def apply_changes(cluster: MemoryCluster, manifests: Sequence[Manifest]) -> None:
    """Applies the manifests in order; new objects are added last. Raises ManifestError."""
    new = [manifest for manifest in manifests if not _change(cluster, manifest)]
    cluster.load(new)


def _change(cluster: MemoryCluster, manifest: Manifest) -> bool:
    """Applies a manifest. Returns False if it is a new object, which the caller creates."""
    kind, where, raw = manifest.kind, manifest.where, manifest.raw
    if kind is None:
        raise ManifestError(f"{where}: {raw['kind']} of {raw['apiVersion']} is no kind that could make a difference")
    meta = raw["metadata"]
    annotations = meta.get("annotations")
    intent = annotations.get(WHAT_IF) if isinstance(annotations, dict) else None
    namespace, name = (meta.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else "", meta["name"]
    stored = cluster.server.find(kind, namespace, name)
    if intent not in (None, DELETE, MERGE):
        raise ManifestError(
            f"{where}: {kind.name} {name}: metadata.annotations[{WHAT_IF}]: expected {DELETE} or {MERGE}, "
            f"got {value_of(intent)}"
        )
    if stored is None:
        if intent is not None:
            raise ManifestError(f"{where}: {kind.name} {name} is not there, so there is nothing to {intent}")
        return False
    raw = copy.deepcopy(raw)
    meta = raw["metadata"]
    if intent is not None:
        del meta["annotations"][WHAT_IF]
    if intent == DELETE:
        _delete(cluster, kind, namespace, name)
    elif intent == MERGE:
        cluster.server.patch(kind, namespace, name, raw)
        if kind is POD and "status" not in raw:
            _finish_resize(cluster, stored, namespace, name)
    elif kind is POD:
        cluster.server.remove(
            key_of(kind, namespace, name)
        )  # the spec of a Pod is immutable: a replaced Pod is a new one
        return False
    else:
        for field in ("uid", "creationTimestamp", "namespace"):
            if field in stored["metadata"]:
                meta[field] = stored["metadata"][field]
        if "status" in stored:
            raw.setdefault("status", dict(stored["status"]))
        raw = cluster.with_defaults(kind, raw)
        set_defaults(kind, raw, cluster.server)
        cluster.server.update(kind, namespace, name, raw)
    cluster.refuse_malformed(where)
    return True


def _finish_resize(cluster: MemoryCluster, before: Json, namespace: str, name: str) -> None:
    """Lets a Pod whose requests have changed hold what its spec requests, as when the kubelet has resized it."""
    pod = cluster.server.find(POD, namespace, name)
    if pod is None or all(before["spec"].get(field) == pod["spec"].get(field) for field in _REQUESTING):
        return
    status = {field: value for field, value in pod["status"].items() if field not in _RESIZE}
    for field in _STATUSES:
        if field in status:
            status[field] = [{k: v for k, v in each.items() if k not in _RESIZE} for each in status[field] or ()]
    conditions = [each for each in status.get("conditions") or () if each.get("type") not in RESIZE_CONDITIONS]
    cluster.server.update(POD, namespace, name, {**pod, "status": {**status, "conditions": conditions}})


def _delete(cluster: MemoryCluster, kind: Kind, namespace: str, name: str) -> None:
    server = cluster.server
    if kind is POD_GROUP:
        for pod in server.by_index(POD, group_of, f"{namespace}/{name}"):
            server.delete(POD, namespace, pod["metadata"]["name"])
    server.delete(kind, namespace, name)
