"""Data that the cache keeps as received: whole objects, original JSON of objects, measured usage of nodes."""

from collections.abc import Mapping
from typing import Any

from scheduler.api.dra import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.kinds import ORIGINAL_KINDS
from scheduler.api.node import NodeFacts
from scheduler.api.objects import ConfigMap, KubeObject, Namespace, ObjectMeta, PodDisruptionBudget, ResourceQuota
from scheduler.api.scheduling import Numatopology
from scheduler.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.usage import NodeUsage, UsageColumns
from scheduler.cache.versioning import SnapshotDict


class ObjectStores:
    """One store per kind, by ``namespace/name`` or name. Sessions and the preparer of bindings read the objects."""

    def __init__(self) -> None:
        self.config_maps: SnapshotDict[ConfigMap] = SnapshotDict()
        self.namespaces: SnapshotDict[Namespace] = SnapshotDict()
        self.claims: SnapshotDict[PersistentVolumeClaim] = SnapshotDict()
        self.volumes: SnapshotDict[PersistentVolume] = SnapshotDict()
        self.storage_classes: SnapshotDict[StorageClass] = SnapshotDict()
        self.csi_nodes: SnapshotDict[CsiNode] = SnapshotDict()
        self.csi_drivers: SnapshotDict[CsiDriver] = SnapshotDict()
        self.storage_capacities: SnapshotDict[CsiStorageCapacity] = SnapshotDict()
        self.attachments: SnapshotDict[VolumeAttachment] = SnapshotDict()
        self.device_classes: SnapshotDict[DeviceClass] = SnapshotDict()
        self.resource_slices: SnapshotDict[ResourceSlice] = SnapshotDict()
        self.resource_claims: SnapshotDict[ResourceClaim] = SnapshotDict()
        self.quotas: SnapshotDict[ResourceQuota] = SnapshotDict()
        self.budgets: SnapshotDict[PodDisruptionBudget] = SnapshotDict()
        self.numa: SnapshotDict[Numatopology] = SnapshotDict()
        self._by_kind: dict[str, SnapshotDict[Any]] = {
            "ConfigMap": self.config_maps,
            "Namespace": self.namespaces,
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.storage_classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.storage_capacities,
            "VolumeAttachment": self.attachments,
            "DeviceClass": self.device_classes,
            "ResourceSlice": self.resource_slices,
            "ResourceClaim": self.resource_claims,
            "ResourceQuota": self.quotas,
            "PodDisruptionBudget": self.budgets,
            "Numatopology": self.numa,
        }
        self._confirmed: dict[tuple[str, str], int] = {}
        """Kind and key -> resource version that the API server returned and the watch has not delivered yet."""

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_kind

    def upsert(self, kind: str, obj: KubeObject) -> bool:
        """Stores an object. Returns False if the API server has returned a newer version already (``confirm``)."""
        key = key_of(obj.metadata)
        confirmed = self._confirmed.get((kind, key)) if self._confirmed else None
        if confirmed is not None:
            if resource_version(obj) < confirmed:
                return False
            del self._confirmed[kind, key]
        self._by_kind[kind][key] = obj
        return True

    def delete(self, kind: str, key: str) -> bool:
        """Removes an object. Returns whether it was there."""
        store = self._by_kind.get(kind)
        if store is None or store.pop(key) is None:
            return False
        self._confirmed.pop((kind, key), None)
        return True

    def keys(self, kind: str) -> list[str]:
        return list(self._by_kind.get(kind, ()))

    def find(self, kind: str, key: str) -> KubeObject | None:
        """The object of a stored kind, or None."""
        found: KubeObject | None = self._by_kind[kind].get(key)
        return found

    def confirm(self, kind: str, obj: KubeObject) -> bool:
        """Stores the version of an object that the API server returned, until the watch delivers it or a newer one.
        Returns False if the object is not stored, is another one, or is newer already."""
        store, key, version = self._by_kind.get(kind), key_of(obj.metadata), resource_version(obj)
        old = store.get(key) if store is not None else None
        if store is None or old is None or old.metadata.uid != obj.metadata.uid or resource_version(old) >= version:
            return False
        store[key] = obj
        self._confirmed[kind, key] = version
        return True


class OriginalObjects:
    """Objects as the API server has them, by kind, then by ``namespace/name`` (or name), while a plugin sends them to
    other programs."""

    def __init__(self) -> None:
        self._stores: dict[str, SnapshotDict[object]] = {}
        """Empty while no plugin needs originals."""

    def enable(self, enabled: bool) -> bool:
        """Keeps originals from now on, or drops them. Returns whether objects stored before have to be stored again."""
        changed = enabled != bool(self._stores)
        if changed:
            self._stores = {kind.name: SnapshotDict() for kind in ORIGINAL_KINDS} if enabled else {}
        return changed and enabled

    def __contains__(self, kind: str) -> bool:
        return kind in self._stores

    def keep(self, kind: str, key: str, original: object) -> None:
        """Stores an object of a kind whose originals are kept."""
        self._stores[kind][key] = original

    def delete(self, kind: str, key: str) -> None:
        if kind in self._stores:
            self._stores[kind].pop(key)

    def read(self) -> dict[str, Mapping[str, object]]:
        return {kind: store.read() for kind, store in self._stores.items()}


class UsageTable:
    """The latest measured usage of each node."""

    def __init__(self) -> None:
        self._usages: dict[str, NodeUsage] = {}
        self._columns: tuple[NodeFacts, UsageColumns] | None = None

    def update(self, usages: Mapping[str, NodeUsage]) -> None:
        """Stores measurements by node name. Nodes without a new one keep the last one."""
        self._usages.update(usages)
        self._columns = None

    def columns(self, facts: NodeFacts) -> UsageColumns | None:
        """One entry per row of the nodes; None if there was never a measurement."""
        if not self._usages:
            return None
        if self._columns is None or self._columns[0] is not facts:
            self._usages = {name: usage for name, usage in self._usages.items() if name in facts.index}
            self._columns = (facts, UsageColumns.of(facts.names, self._usages))
        return self._columns[1]


def key_of(meta: ObjectMeta) -> str:
    """``namespace/name``, or the name of a cluster-scoped object."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def resource_version(obj: KubeObject) -> int:
    """The resource version as a number; 0 if it is not a number."""
    version = obj.metadata.resource_version
    return int(version) if version.isdecimal() else 0
