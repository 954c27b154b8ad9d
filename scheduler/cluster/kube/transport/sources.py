"""The objects that are watched: kinds, namespaces and names."""

import msgspec

from scheduler.api.kinds import CONFIG_MAP, CSI_DRIVER, NODE_SHARD, SCHEDULER_KINDS, STORAGE_CAPACITY, Kind
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE


class WatchSource(msgspec.Struct, frozen=True):
    """One list-and-watch."""

    kind: Kind
    namespace: str = ""
    """All namespaces if empty."""
    name_prefix: str = ""
    """Objects whose names do not begin with it are ignored."""
    labels: str = ""
    """A label selector in kubectl's notation, applied by the server; "" for all."""
    name: str = ""
    """The only object, chosen by the server; "" for all."""
    node: str = ""
    """Only the Pods of this node, chosen by the server; "" for all."""
    optional: bool = False
    """Without the right to read the objects, there are none."""

    @property
    def path(self) -> str:
        return self.kind.path_in(self.namespace)

    @property
    def selection(self) -> dict[str, str]:
        """The query parameters that restrict the answer of the server."""
        selection = {"labelSelector": self.labels} if self.labels else {}
        if self.name:
            selection["fieldSelector"] = f"metadata.name={self.name}"
        if self.node:
            selection["fieldSelector"] = f"spec.nodeName={self.node}"
        return selection

    def __str__(self) -> str:
        what = f"{self.kind.plural} {self.name}" if self.name else self.kind.plural
        return f"{what} in {self.namespace}" if self.namespace else what


def sources(*, csi_storage: bool = True, shards: bool = False) -> list[WatchSource]:
    """Everything that the scheduler's cache needs. The only ConfigMaps are the ones with the state of accelerators.
    ``csi_storage`` False leaves out the free storage that CSI drivers report: no Pod is refused for lack of it then.
    ``shards``: with NodeShards, which come first."""
    left_out = {CONFIG_MAP} if csi_storage else {CONFIG_MAP, CSI_DRIVER, STORAGE_CAPACITY}
    result = [WatchSource(kind) for kind in SCHEDULER_KINDS if kind not in left_out]
    if shards:
        result.insert(0, WatchSource(NODE_SHARD))
    result.append(WatchSource(CONFIG_MAP, DEVICE_INFO_NAMESPACE, DEVICE_INFO_CONFIGMAP_PREFIX))
    return result
