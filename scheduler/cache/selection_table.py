"""The selectors of Services and workloads, and the replicas of ReplicaSets. Their other fields change often and are not
kept."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from scheduler.api.batch import Workload
from scheduler.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, Kind
from scheduler.api.objects import KubeObject, LabelSelector, OwnerReference, Service
from scheduler.api.selectors import NOTHING_SELECTED, Label, Selections
from scheduler.cache.versioning import SnapshotDict, Version

SELECTING: Final = (SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
_WORKLOADS = {(kind.name, kind.api_version) for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)}


class SelectionTable:
    """The selectors by namespace. Snapshots share the namespaces that have not changed."""

    def __init__(self, may_have: Callable[[str, Collection[Label]], bool], version: Version) -> None:
        """``may_have``: whether there may be a Pod in a namespace that has all of these labels."""
        self._may_have = may_have
        self._version = version
        self._selectors: dict[str, dict[tuple[str, str], LabelSelector]] = {}
        """Namespace -> (kind, name) -> selector."""
        self._read: SnapshotDict[Selections] = SnapshotDict()
        self._changed: dict[str, set[Label] | None] = {}
        self._replicas: SnapshotDict[int] = SnapshotDict()
        """``namespace/name`` -> spec.replicas of ReplicaSets with more than one."""

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        """Stores what is kept of an object."""
        resized = kind is REPLICA_SET and isinstance(obj, Workload) and self._resize(obj)
        if self._select(kind.name, obj) or resized:
            self._version.changed()

    def _resize(self, replica_set: Workload) -> bool:
        """Stores the replicas of a ReplicaSet. Returns whether they have changed."""
        key = f"{replica_set.metadata.namespace}/{replica_set.metadata.name}"
        replicas = replica_set.spec.replicas or 0
        if replicas < 2:
            return self._replicas.pop(key) is not None
        if self._replicas.get(key) == replicas:
            return False
        self._replicas[key] = replicas
        return True

    def _select(self, kind: str, obj: KubeObject) -> bool:
        """Stores the selector of an object. Returns whether it has changed."""
        namespace, name = obj.metadata.namespace, obj.metadata.name
        selector = _selector(obj)
        if selector is None:
            return self._deselect(kind, namespace, name)
        selectors = self._selectors.setdefault(namespace, {})
        if selectors.get((kind, name)) == selector:
            return False
        self._add_change(namespace, selectors.get((kind, name)), selector)
        selectors[kind, name] = selector
        self._build(namespace)
        return True

    def delete(self, kind: Kind, key: str) -> None:
        """Forgets a deleted object."""
        namespace, _, name = key.partition("/")
        resized = kind is REPLICA_SET and self._replicas.pop(key) is not None
        if self._deselect(kind.name, namespace, name) or resized:
            self._version.changed()

    def _deselect(self, kind: str, namespace: str, name: str) -> bool:
        selectors = self._selectors.get(namespace, {})
        old = selectors.pop((kind, name), None)
        if old is None:
            return False
        self._add_change(namespace, old)
        self._build(namespace)
        return True

    def of(self, namespace: str) -> Selections:
        return self._read.get(namespace) or NOTHING_SELECTED

    def read(self) -> Mapping[str, Selections]:
        """The selections by namespace; namespaces without any are left out."""
        return self._read.read()

    def replicas(self) -> Mapping[str, int]:
        """``namespace/name`` -> spec.replicas of ReplicaSets with more than one."""
        return self._replicas.read()

    def take_changes(self) -> dict[str, set[Label] | None]:
        """Namespace -> labels of the selectors that changed since the last call: each Pod that was stored before, and
        is affected, has one of them. None: any Pod of the namespace may be affected."""
        changed, self._changed = self._changed, {}
        return changed

    def _add_change(self, namespace: str, *selectors: LabelSelector | None) -> None:
        for selector in selectors:
            # A new ReplicaSet has no Pods yet; those that follow are classified with its selector.
            if selector is None or not self._may_have(namespace, (selector.match_labels or {}).items()):
                continue
            changed = self._changed.setdefault(namespace, set())
            if changed is None:
                continue
            if selector.match_expressions or not selector.match_labels:
                self._changed[namespace] = None
            else:
                changed.add(next(iter(selector.match_labels.items())))

    def _build(self, namespace: str) -> None:
        selectors = self._selectors[namespace]
        if not selectors:
            del self._selectors[namespace]
            self._read.pop(namespace)
            return
        services = {name: s.match_labels or {} for (kind, name), s in selectors.items() if kind == SERVICE.name}
        workloads = {f"{kind}/{name}": s for (kind, name), s in selectors.items() if kind != SERVICE.name}
        self._read[namespace] = Selections(services, workloads)


def workload_of(owners: list[OwnerReference] | None) -> str:
    """``Kind/name`` of the ReplicationController, ReplicaSet or StatefulSet that manages a Pod; "" if none does."""
    for owner in owners or ():
        if owner.controller and (owner.kind, owner.api_version) in _WORKLOADS:
            return f"{owner.kind}/{owner.name}"
    return ""


def _selector(obj: KubeObject) -> LabelSelector | None:
    """The selector of an object; None: the object selects no Pods."""
    if isinstance(obj, Service):
        return LabelSelector(match_labels=obj.spec.selector) if obj.spec.selector else None
    return obj.spec.selector if isinstance(obj, Workload) else None
