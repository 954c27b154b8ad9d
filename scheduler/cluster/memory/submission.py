"""Submits objects to a cluster in memory as a client of an API server does: admission completes and checks them,
ResourceQuotas count their Pods, and an object that exists is changed as ``kubectl apply`` changes it."""

from typing import Final

from scheduler.api.kinds import POD
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cluster.manifests import Manifest, ManifestError, decode
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.raw_objects import Json, merged
from scheduler.cluster.memory.server import ForbiddenError, MemoryServer

_KEPT: Final = ("name", "namespace", "labels", "annotations")
"""The metadata that a client sets. An API server sets the others, or gives them no meaning in a new object."""


def submit(cluster: MemoryCluster, manifest: Manifest) -> None:
    """Creates an object, or changes the existing one. Raises ForbiddenError if admission refuses it, with the words of
    the API server, and ManifestError if it is malformed."""
    kind = manifest.kind
    if kind is None:
        raise ManifestError(f"{manifest.where}: {manifest.raw['kind']} of {manifest.raw['apiVersion']} is not known")
    raw, server = as_submitted(manifest).raw, cluster.server
    if kind.struct is not None:
        decode(kind, raw, manifest.where)
    meta = raw["metadata"]
    namespace, name = meta.get("namespace") or "", meta["name"]
    stored = server.find(kind, namespace, name)
    if stored is not None and kind is POD:
        raise ForbiddenError(f'pods "{name}" already exists')
    if stored is None:
        server.create(kind, cluster.admitted(kind, raw))
    else:
        server.update(kind, namespace, name, cluster.admitted(kind, merged(stored, raw), stored))
    cluster.refuse_malformed(manifest.where)


def exists(server: MemoryServer, manifest: Manifest) -> bool:
    """Whether there is an object of the kind and name of a manifest."""
    kind, meta = manifest.kind, as_submitted(manifest).raw["metadata"]
    return kind is not None and server.find(kind, meta.get("namespace") or "", meta["name"]) is not None


def as_submitted(manifest: Manifest) -> Manifest:
    """The object without what an API server sets or ignores."""
    raw, kind = manifest.raw, manifest.kind
    meta = {key: raw["metadata"][key] for key in _KEPT if key in raw["metadata"]}
    if kind is not None and kind.namespaced:
        meta.setdefault("namespace", DEFAULT_NAMESPACE)
    else:
        meta.pop("namespace", None)
    rest: Json = {key: value for key, value in raw.items() if key != "status"}
    return Manifest(manifest.where, kind, {**rest, "metadata": meta})
