"""Changes to a cluster in memory, written as manifests: what is to be there, changed or gone.

An object is added, or takes the place of the one of its kind and name; what was not said of its status stays. With the
annotation ``volcano-py/what-if: merge`` it holds only what changes (a JSON merge patch), with ``delete`` only the name
of what goes. With a PodGroup go its Pods. Pods on a Node that goes are placed anew, as their owners would make them
again.
"""

import copy
from collections.abc import Sequence
from typing import Final

from scheduler.api.kinds import NODE, POD, POD_GROUP, Kind
from scheduler.api.names import DEFAULT_NAMESPACE, TASK_ANNOTATIONS, WHAT_IF
from scheduler.api.objects import ENDED_PHASES
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.pods import group_of, node_of
from scheduler.cluster.memory.server import Json, fill_in, key_of

DELETE: Final = "delete"
MERGE: Final = "merge"


def apply_changes(cluster: MemoryCluster, manifests: Sequence[Manifest]) -> None:
    """Change the cluster, manifest by manifest; what is new comes last. Raises ManifestError."""
    fresh = [manifest for manifest in manifests if not _change(cluster, manifest)]
    cluster.load(fresh)


def _change(cluster: MemoryCluster, manifest: Manifest) -> bool:
    """Do what a manifest says; False if it is a new object, which is left to be created."""
    kind, where, raw = manifest.kind, manifest.where, copy.deepcopy(manifest.raw)
    if kind is None:
        raise ManifestError(f"{where}: {raw['kind']} of {raw['apiVersion']} is no kind that could make a difference")
    meta = raw["metadata"]
    annotations = meta.get("annotations") or {}
    intent = annotations.pop(WHAT_IF, None) if isinstance(annotations, dict) else None
    namespace, name = (meta.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else "", meta["name"]
    there = cluster.server.find(kind, namespace, name)
    if intent not in (None, DELETE, MERGE):
        raise ManifestError(
            f"{where}: {kind.name} {name}: metadata.annotations[{WHAT_IF}]: expected {DELETE} or {MERGE}, "
            f"got {str(intent)[:64]!r}"
        )
    if there is None:
        if intent is not None:
            raise ManifestError(f"{where}: {kind.name} {name} is not there, so there is nothing to {intent}")
        return False
    if intent == DELETE:
        _delete(cluster, kind, namespace, name)
    elif intent == MERGE:
        cluster.server.patch(kind, namespace, name, raw)
    elif kind is POD:
        cluster.server.remove(key_of(kind, namespace, name))  # the spec of a Pod does not change: it is another one
        return False
    else:
        for field in ("uid", "creationTimestamp", "namespace"):
            if field in there["metadata"]:
                meta[field] = there["metadata"][field]
        if "status" in there:
            raw.setdefault("status", dict(there["status"]))
        fill_in(kind, raw, cluster.server)
        cluster.server.update(kind, namespace, name, raw)
    cluster.refuse_malformed(where)
    return True


def _delete(cluster: MemoryCluster, kind: Kind, namespace: str, name: str) -> None:
    server = cluster.server
    if kind is POD_GROUP:
        for pod in server.by(POD, group_of, f"{namespace}/{name}"):
            server.delete(POD, namespace, pod["metadata"]["name"])
    server.delete(kind, namespace, name)
    if kind is NODE:
        for pod in server.by(POD, node_of, name):
            if pod["status"].get("phase") not in ENDED_PHASES:
                _place_anew(cluster, pod)


def _place_anew(cluster: MemoryCluster, pod: Json) -> None:
    """The Pod is gone with its node; where nobody here would make it again, it is made again."""
    server, meta = cluster.server, pod["metadata"]
    server.remove(key_of(POD, meta["namespace"], meta["name"]))
    if any(server.exists(owner.get("uid", "")) for owner in meta.get("ownerReferences") or ()):
        return
    left_out = ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion")
    again = {key: value for key, value in meta.items() if key not in left_out}
    again["annotations"] = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in TASK_ANNOTATIONS}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    server.create(POD, {"apiVersion": POD.api_version, "kind": POD.name, "metadata": again, "spec": spec})
