"""Data that the cache keeps as received: whole objects, original JSON of objects, measured usage of nodes."""

from collections.abc import Mapping
from typing import TypeVar

from scheduler.api.kinds import ORIGINAL_KINDS, Kind
from scheduler.api.node import NodeFacts
from scheduler.api.objects import KubeObject
from scheduler.api.usage import NodeUsage, UsageColumns
from scheduler.cache.versioning import SnapshotDict, Version

T = TypeVar("T", bound=KubeObject)


class ObjectTable(SnapshotDict[T]):
    """The objects of a kind that the cache keeps whole, by key. Sessions and the preparer of bindings read them."""

    def __init__(self, kind: Kind[T], version: Version) -> None:
        super().__init__()
        self._kind = kind
        self._version = version
        self._confirmed: dict[str, int] | None = None
        """Key -> resource version that the API server returned and the watch has not delivered yet. None until there
        is one: copies of simulated clusters have less to copy then."""

    def upsert(self, obj: T) -> None:
        """Stores an object, unless the API server has returned a newer version already (``confirm``)."""
        key = self._kind.key(obj.metadata.namespace, obj.metadata.name)
        if self._confirmed and key in self._confirmed:
            if resource_version(obj) < self._confirmed[key]:
                return
            del self._confirmed[key]
        self[key] = obj
        self._version.changed()

    def delete(self, key: str) -> bool:
        """Removes an object. Returns whether it was there."""
        if self.pop(key) is None:
            return False
        if self._confirmed:
            self._confirmed.pop(key, None)
        self._version.changed()
        return True

    def confirm(self, obj: T) -> bool:
        """Stores the version of an object that the API server returned, until the watch delivers it or a newer one.
        Returns False if the object is not stored, is another one, or is newer already."""
        key, version = self._kind.key(obj.metadata.namespace, obj.metadata.name), resource_version(obj)
        old = self.get(key)
        if old is None or old.metadata.uid != obj.metadata.uid or resource_version(old) >= version:
            return False
        self[key] = obj
        if self._confirmed is None:
            self._confirmed = {}
        self._confirmed[key] = version
        return True


class OriginalObjects:
    """Objects as the API server has them, by kind, then by ``namespace/name`` (or name), while a plugin sends them to
    other programs."""

    def __init__(self) -> None:
        self._stores: dict[Kind, SnapshotDict[object]] = {}
        """Empty while no plugin needs originals."""

    def enable(self, enabled: bool) -> bool:
        """Keeps originals from now on, or drops them. Returns whether objects stored before have to be stored again."""
        changed = enabled != bool(self._stores)
        if changed:
            self._stores = {kind: SnapshotDict() for kind in ORIGINAL_KINDS} if enabled else {}
        return changed and enabled

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._stores

    def keep(self, kind: Kind, key: str, original: object) -> None:
        """Stores an object of a kind whose originals are kept."""
        self._stores[kind][key] = original

    def delete(self, kind: Kind, key: str) -> None:
        if kind in self._stores:
            self._stores[kind].pop(key)

    def read(self) -> dict[str, Mapping[str, object]]:
        """Name of the kind -> key -> object."""
        return {kind.name: store.read() for kind, store in self._stores.items()}


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


def resource_version(obj: KubeObject) -> int:
    """The resource version as a number; 0 if it is not a number."""
    version = obj.metadata.resource_version
    return int(version) if version.isdecimal() else 0
