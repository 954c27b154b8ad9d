"""Which objects are watched: kinds, namespaces and names. How they are watched is told in ``informer``."""

from dataclasses import dataclass

from scheduler.api.kinds import CONFIG_MAP, SCHEDULED_FROM, Kind
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE


@dataclass(frozen=True, slots=True)
class Source:
    """One list-and-watch."""

    kind: Kind
    namespace: str = ""
    """All namespaces if empty."""
    name_prefix: str = ""
    """Objects of other names are passed over."""
    labels: str = ""
    """A label selector in kubectl's notation, applied by the server; "" for all."""

    @property
    def path(self) -> str:
        if not self.namespace:
            return self.kind.path
        prefix, _, plural = self.kind.path.rpartition("/")
        return f"{prefix}/namespaces/{self.namespace}/{plural}"

    @property
    def selection(self) -> dict[str, str]:
        """The query parameters that restrict what the server sends."""
        return {"labelSelector": self.labels} if self.labels else {}

    def __str__(self) -> str:
        return f"{self.kind.plural} in {self.namespace}" if self.namespace else self.kind.plural


def sources() -> list[Source]:
    """Everything the cache is fed with. Of ConfigMaps, those with the state of accelerators only."""
    result = [Source(kind) for kind in SCHEDULED_FROM if kind is not CONFIG_MAP]
    result.append(Source(CONFIG_MAP, DEVICE_INFO_NAMESPACE, DEVICE_INFO_CONFIGMAP_PREFIX))
    return result


def object_path(kind: Kind, namespace: str, name: str) -> str:
    """The API path of one object."""
    return f"{Source(kind, namespace if kind.namespaced else '').path}/{name}"
