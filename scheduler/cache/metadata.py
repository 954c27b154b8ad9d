"""What the cache reads from the metadata of any object."""

from scheduler.api.moment import parse_moment
from scheduler.api.objects import KubeObject, ObjectMeta


def key_of(meta: ObjectMeta) -> str:
    """How an object is filed: ``namespace/name``, or its name if it is in no namespace."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def uid_of(meta: ObjectMeta) -> str:
    """The uid; ``namespace/name`` stands in for it where there is none."""
    return meta.uid or f"{meta.namespace}/{meta.name}"


def resource_version(obj: KubeObject) -> int:
    """The resource version as a number; 0 if it is none."""
    version = obj.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def seconds(timestamp: str | None) -> float:
    """Seconds since the epoch of a Kubernetes timestamp; 0 if it is missing or malformed."""
    return parse_moment(timestamp) or 0.0
