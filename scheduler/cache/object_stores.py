"""Objects that are kept whole: sessions and those who carry out decisions read them as they are."""

from typing import Any

from scheduler.api.dra import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.objects import ConfigMap, KubeObject, Namespace, PodDisruptionBudget, ResourceQuota
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
from scheduler.cache.metadata import key_of, resource_version
from scheduler.cache.shared import Shared


class ObjectStores:
    """One store for each kind, by ``namespace/name`` or name."""

    def __init__(self) -> None:
        self.config_maps: Shared[ConfigMap] = Shared()
        self.namespaces: Shared[Namespace] = Shared()
        self.claims: Shared[PersistentVolumeClaim] = Shared()
        self.volumes: Shared[PersistentVolume] = Shared()
        self.storage_classes: Shared[StorageClass] = Shared()
        self.csi_nodes: Shared[CsiNode] = Shared()
        self.csi_drivers: Shared[CsiDriver] = Shared()
        self.storage_capacities: Shared[CsiStorageCapacity] = Shared()
        self.attachments: Shared[VolumeAttachment] = Shared()
        self.device_classes: Shared[DeviceClass] = Shared()
        self.resource_slices: Shared[ResourceSlice] = Shared()
        self.resource_claims: Shared[ResourceClaim] = Shared()
        self.quotas: Shared[ResourceQuota] = Shared()
        self.budgets: Shared[PodDisruptionBudget] = Shared()
        self.numa: Shared[Numatopology] = Shared()
        self._by_kind: dict[str, Shared[Any]] = {
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
        """kind and key -> resource version that the watch has not come to yet."""

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_kind

    def upsert(self, kind: str, obj: KubeObject) -> bool:
        """Take an object of a kind that is kept; False if the watch is behind what the server answered."""
        key = key_of(obj.metadata)
        confirmed = self._confirmed.get((kind, key)) if self._confirmed else None
        if confirmed is not None:
            if resource_version(obj) < confirmed:
                return False
            del self._confirmed[kind, key]
        self._by_kind[kind][key] = obj
        return True

    def delete(self, kind: str, key: str) -> bool:
        """An object is gone; whether it was there."""
        store = self._by_kind.get(kind)
        if store is None or store.pop(key) is None:
            return False
        self._confirmed.pop((kind, key), None)
        return True

    def keys(self, kind: str) -> list[str]:
        return list(self._by_kind.get(kind, ()))

    def find(self, kind: str, key: str) -> KubeObject | None:
        """An object of a kind that is kept."""
        found: KubeObject | None = self._by_kind[kind].get(key)
        return found

    def confirm(self, kind: str, obj: KubeObject) -> bool:
        """The server has answered with this version of an object: it holds until the watch comes to it. Whether it is
        news of an object that is there."""
        store, key, version = self._by_kind.get(kind), key_of(obj.metadata), resource_version(obj)
        old = store.get(key) if store is not None else None
        if store is None or old is None or old.metadata.uid != obj.metadata.uid or resource_version(old) >= version:
            return False
        store[key] = obj
        self._confirmed[kind, key] = version
        return True
