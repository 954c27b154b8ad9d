"""By what Pods of a cluster in memory are looked up (``MemoryServer.by``)."""

from typing import Any

from scheduler.api.names import GROUP_NAME

Json = dict[str, Any]


def node_of(pod: Json) -> str | None:
    """The node it is on."""
    return pod["spec"].get("nodeName") or None


def group_of(pod: Json) -> str:
    """``namespace/name`` of its PodGroup; without a name if it names none."""
    meta = pod["metadata"]
    return f"{meta['namespace']}/{(meta.get('annotations') or {}).get(GROUP_NAME, '')}"
