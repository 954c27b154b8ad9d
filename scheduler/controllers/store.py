"""The controllers' view of the cluster: the newest version of every object, and the owner of every Pod.

The store takes watch events and the answers to our own writes alike, so a controller reads what it wrote. An older
version never replaces a newer one. Of Pods the store keeps what controllers read: a cluster can have hundreds of
thousands, but of few shapes.
"""

from collections.abc import Iterable, Iterator, Mapping
from sys import intern
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api.kinds import Kind
from scheduler.api.names import GROUP_NAME
from scheduler.api.objects import Container, ContainerStatus, KubeObject, ObjectMeta, Pod, controller_of
from scheduler.api.task import without_variables
from scheduler.controllers.evictions import DISRUPTION_TARGET

MAX_KNOWN: Final = 16_384
"""Limit of the known lists of containers. Above it, all are forgotten: later Pods share with each other."""
_encode: Final = msgspec.json.Encoder().encode


class PodParts:
    """Reduces Pods to what controllers read, and keeps equal containers in memory once. One thread uses it."""

    def __init__(self) -> None:
        self._containers: dict[bytes, list[Container]] = {}
        """Containers as JSON -> the containers, which must not be changed."""

    def __len__(self) -> int:
        """Number of known lists of containers."""
        return len(self._containers)

    def of(self, pod: Pod) -> Pod:
        """Returns a Pod without the environment of containers, what only decides where it may run, what a resize has
        reached, and conditions but ``DisruptionTarget``: no controller reads them."""
        meta, spec, status = pod.metadata, without_variables(pod.spec), pod.status
        meta.namespace = intern(meta.namespace)
        for owner in meta.owner_references or ():
            owner.api_version, owner.kind = intern(owner.api_version), intern(owner.kind)
        spec = replace(
            spec,
            node_name=intern(spec.node_name),
            containers=self._shared(spec.containers),
            affinity=None,
            tolerations=None,
            topology_spread_constraints=None,
        )
        disruptions = [condition for condition in status.conditions or () if condition.type == DISRUPTION_TARGET]
        status = replace(
            status,
            conditions=disruptions or None,
            allocated_resources=None,
            resources=None,
            container_statuses=_without_amounts(status.container_statuses),
            init_container_statuses=_without_amounts(status.init_container_statuses),
        )
        return replace(pod, spec=spec, status=status)

    def _shared(self, containers: list[Container]) -> list[Container]:
        if len(self._containers) >= MAX_KNOWN:
            self._containers.clear()
        return self._containers.setdefault(_encode(containers), containers)


def _without_amounts(statuses: list[ContainerStatus] | None) -> list[ContainerStatus] | None:
    if statuses is None:
        return None
    return [
        each
        if each.resources is None and each.allocated_resources is None
        else replace(each, resources=None, allocated_resources=None)
        for each in statuses
    ]


Key = tuple[str, str]
"""Namespace ("" if cluster-wide) and name."""
T = TypeVar("T", bound=KubeObject)
REMEMBERED = 50_000
"""Deleted objects that are remembered, so that late versions of them are ignored."""
_NO_PODS: Mapping[str, Pod] = {}
_NO_OBJECTS: Final[dict[Key, Any]] = {}


def key_of(obj: KubeObject) -> Key:
    """The key of an object."""
    return obj.metadata.namespace, obj.metadata.name


class Store:
    """The objects of all kinds by name, and the Pods by owner and by PodGroup. One thread uses it."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Any]] = {}
        self._pods_of: dict[tuple[str, str], dict[str, Pod]] = {}
        """Namespace and uid of the managing owner -> name -> Pod. An owner is in the namespace of its Pods: a user who
        may create Pods may write the uid of any object into them."""
        self._grouped: dict[Key, dict[str, Pod]] = {}
        """PodGroup -> name -> Pod that names the PodGroup."""
        self._parts = PodParts()
        self._deleted: dict[str, None] = {}
        """Uids of deleted objects, the oldest first: late versions of them are ignored."""

    def get(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Returns an object, or None."""
        found: T | None = self._objects.get(kind, _NO_OBJECTS).get((namespace, name))
        return found

    def all(self, kind: Kind[T]) -> Iterable[T]:
        """All objects of a kind, in no order. The result must not be kept while the store changes."""
        found: Iterable[T] = self._objects.get(kind, _NO_OBJECTS).values()
        return found

    def count(self, kind: Kind) -> int:
        return len(self._objects.get(kind, ()))

    def pods_of(self, namespace: str, owner_uid: str) -> Mapping[str, Pod]:
        """The Pods that an object in a namespace manages, by name."""
        return self._pods_of.get((namespace, owner_uid), _NO_PODS)

    def pods_in_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        """The Pods that name a PodGroup, by name."""
        return self._grouped.get((namespace, name), _NO_PODS)

    def __iter__(self) -> Iterator[tuple[Kind, KubeObject]]:
        for kind, objects in self._objects.items():
            for obj in objects.values():
                yield kind, obj

    # --- updates ------------------------------------------------------------------------------------------------------
    def upsert(self, kind: Kind[T], obj: T) -> tuple[bool, T | None]:
        """Stores a version of an object, unless a newer one is known or the object was deleted. Returns whether it was
        stored, and the version before."""
        key = key_of(obj)
        objects = self._objects.setdefault(kind, {})
        old: T | None = objects.get(key)
        version = _version(obj)
        if old is not None and version <= _version(old) and version >= 0 and obj.metadata.uid == old.metadata.uid:
            return False, old
        if obj.metadata.uid in self._deleted:
            return False, old
        if isinstance(obj, Pod):
            if old is not None and old.metadata.uid == obj.metadata.uid:
                _keep_request(old.metadata, obj.metadata)
            pod = objects[key] = self._parts.of(obj)
            if isinstance(old, Pod):
                self._unlink(old)
            self._link(pod)
        else:
            objects[key] = obj
        return True, old

    def delete(self, kind: Kind[T], namespace: str, name: str, uid: str = "") -> T | None:
        """Removes a deleted object and returns its last version, or None if it was not there. ``uid``: that of the
        object that was deleted; "": the one with the name."""
        self._mark_deleted(uid)
        objects = self._objects.get(kind, {})
        old: T | None = objects.get((namespace, name))
        if old is None or uid not in ("", old.metadata.uid):
            return None
        del objects[namespace, name]
        self._mark_deleted(old.metadata.uid)
        if isinstance(old, Pod):
            self._unlink(old)
        return old

    def _mark_deleted(self, uid: str) -> None:
        if uid:
            self._deleted[uid] = None
            if len(self._deleted) > REMEMBERED:
                del self._deleted[next(iter(self._deleted))]

    def _link(self, pod: Pod) -> None:
        owner = controller_of(pod)
        if owner is not None:
            self._pods_of.setdefault((pod.metadata.namespace, owner.uid), {})[pod.metadata.name] = pod
        group = (pod.metadata.annotations or {}).get(GROUP_NAME)
        if group:
            self._grouped.setdefault((pod.metadata.namespace, group), {})[pod.metadata.name] = pod

    def _unlink(self, pod: Pod) -> None:
        owner = controller_of(pod)
        if owner is not None:
            _drop(self._pods_of, (pod.metadata.namespace, owner.uid), pod.metadata.name)
        group = (pod.metadata.annotations or {}).get(GROUP_NAME)
        if group:
            _drop(self._grouped, (pod.metadata.namespace, group), pod.metadata.name)


K = TypeVar("K")


def _drop(index: dict[K, dict[str, Pod]], key: K, name: str) -> None:
    pods = index.get(key)
    if pods is not None:
        pods.pop(name, None)
        if not pods:
            del index[key]


def _keep_request(old: ObjectMeta, new: ObjectMeta) -> None:
    """Keeps when the deletion of a Pod was requested. When the kubelet confirms that it has stopped the Pod, the API
    server sets another deletionTimestamp, without a grace period."""
    if old.deletion_timestamp is not None and (new.deletion_grace_period_seconds or 0) < (
        old.deletion_grace_period_seconds or 0
    ):
        new.deletion_timestamp = old.deletion_timestamp
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds


def _version(obj: KubeObject) -> int:
    """The resource version as a number, which it is since Kubernetes 1.35; -1 if it is none."""
    text = obj.metadata.resource_version
    return int(text) if text.isdecimal() else -1
