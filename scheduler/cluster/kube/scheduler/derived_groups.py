"""Derives the PodGroup of a plain Pod, so that the Pod is scheduled while the controllers create its PodGroup.

A Pod that names no PodGroup gets one from the PodGroup controller, which takes two writes. What that PodGroup will be
follows from the Pod alone, unless annotations of the Pod, its owner or its namespace say more. So the cache receives it
at once, without a uid, and the Pod with its name. A PodGroup without a uid is never written: the controller creates the
real one, which replaces it in the cache.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from scheduler.api.kinds import NAMESPACE, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind, find_kind
from scheduler.api.names import DEFAULT_QUEUE, GROUP_NAME, QUEUE_NAME_ANNOTATION
from scheduler.api.objects import ENDED_PHASES, KubeObject, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.cluster.kube.watch.informer import Sink
from scheduler.controllers.podgroup.manifest import OWNERS, inherited, manifest, wanted

KINDS: Final = (POD, POD_GROUP, NAMESPACE, REPLICA_SET, STATEFUL_SET)
"""The kinds whose objects ``DerivedGroups`` needs."""
_WATCHED_OWNERS: Final = (REPLICA_SET, STATEFUL_SET)
Key = tuple[str, str]
"""Namespace and name."""


class DerivedGroups:
    """Passes watched objects on to the cache, and adds the PodGroups of plain Pods. Belongs to one thread."""

    def __init__(self, sink: Sink, scheduler_names: Collection[str], is_real: Callable[[str], bool]) -> None:
        """``scheduler_names``: the schedulers whose Pods are handled. ``is_real``: whether the cache has a PodGroup
        that exists, by ``namespace/name``."""
        self._sink = sink
        self._schedulers = frozenset(scheduler_names)
        self._is_real = is_real
        self._plain_namespaces: set[str] = set()
        """Namespaces that choose no queue for their PodGroups."""
        self._plain_owners: set[tuple[str, str]] = set()
        """Uids of workloads without annotations that their PodGroups inherit."""
        self._owners: dict[tuple[Kind, str, str], str] = {}
        """Kind, namespace and name of those workloads -> uid."""
        self._pods: dict[Key, str] = {}
        """Pod -> the derived PodGroup that it is in."""
        self._derived: dict[Key, set[str]] = {}
        """Derived PodGroup -> the names of its Pods."""

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        """Passes an object on, and the PodGroup of a plain Pod before it."""
        meta = obj.metadata
        if isinstance(obj, Pod):
            obj = self._with_group(obj)
        elif kind is POD_GROUP:
            for name in self._derived.pop((meta.namespace, meta.name), ()):
                del self._pods[meta.namespace, name]
        elif kind is NAMESPACE:
            if (meta.annotations or {}).get(QUEUE_NAME_ANNOTATION):
                self._plain_namespaces.discard(meta.name)
            else:
                self._plain_namespaces.add(meta.name)
        elif kind in _WATCHED_OWNERS:
            self._forget_owner(kind, meta.namespace, meta.name)
            if not inherited(obj):
                self._owners[kind, meta.namespace, meta.name] = meta.uid
                self._plain_owners.add((meta.namespace, meta.uid))
        self._sink.upsert(kind, obj)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Passes a deletion on. Deletes a derived PodGroup after its last Pod."""
        self._sink.delete(kind, namespace, name)
        if kind is POD:
            self._leave(namespace, name)
        elif kind is NAMESPACE:
            self._plain_namespaces.discard(name)
        elif kind in _WATCHED_OWNERS:
            self._forget_owner(kind, namespace, name)

    def _forget_owner(self, kind: Kind, namespace: str, name: str) -> None:
        self._plain_owners.discard((namespace, self._owners.pop((kind, namespace, name), "")))

    def _with_group(self, pod: Pod) -> Pod:
        """Returns the Pod with the name of its PodGroup, if that is known to be what the controller will write.
        Derives the PodGroup if it does not exist."""
        meta = pod.metadata
        annotations = meta.annotations or {}
        name = annotations.get(GROUP_NAME) or ""
        if name and not self._pods:
            return pod
        group = None
        if not name and pod.spec.scheduler_name in self._schedulers and pod.status.phase not in ENDED_PHASES:
            group = self._derive(pod)
        if self._pods.get((meta.namespace, meta.name)) not in (None, name if group is None else group.metadata.name):
            self._leave(meta.namespace, meta.name)
        if group is None:
            return pod
        name = group.metadata.name
        if not self._is_real(f"{meta.namespace}/{name}"):
            self._pods[meta.namespace, meta.name] = name
            self._derived.setdefault((meta.namespace, name), set()).add(meta.name)
            self._sink.upsert(POD_GROUP, group)
        named = msgspec.structs.replace(meta, annotations={**annotations, GROUP_NAME: name})
        return msgspec.structs.replace(pod, metadata=named)

    def _derive(self, pod: Pod) -> PodGroup | None:
        """The PodGroup that the controller creates for a Pod; None: more than the Pod decides about it."""
        meta = pod.metadata
        if meta.namespace not in self._plain_namespaces:
            return None
        for owner in meta.owner_references or ():
            known = (meta.namespace, owner.uid) in self._plain_owners
            if find_kind(owner.api_version, owner.kind) in OWNERS and not known:
                return None
        want = wanted(pod, ())
        if not want.plain:
            return None
        want.spec["queue"] = DEFAULT_QUEUE
        group = msgspec.convert(manifest(pod, want), PodGroup)
        group.metadata.creation_timestamp = meta.creation_timestamp
        return group

    def _leave(self, namespace: str, pod: str) -> None:
        """Takes a Pod out of its derived PodGroup."""
        name = self._pods.pop((namespace, pod), None)
        if name is None:
            return
        pods = self._derived[namespace, name]
        pods.discard(pod)
        if not pods:
            del self._derived[namespace, name]
            self._sink.delete(POD_GROUP, namespace, name)
