"""Objects of a cluster from short notations, as the dictionaries that their manifests are read into.

Amounts are written ``2c+4Gi+10p+huawei.com/Ascend910=8``: ``2c`` is cpu, ``10p`` Pods, ``name=n`` any other resource,
and everything else memory. All objects with a namespace are in ``default``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.api.kinds import find_kind
from scheduler.api.names import GROUP_NAME, SCHEDULING_API_VERSION, TASK_SPEC, TOPOLOGY_API_VERSION
from scheduler.cluster.manifests import Manifest

Raw = dict[str, Any]
NAME = "volcano-py"
"""The name of the scheduler."""


def amounts(text: str) -> dict[str, str]:
    """``1c+2Gi+example.com/gpu=4`` as a ResourceList."""
    result: dict[str, str] = {}
    for part in filter(None, text.split("+")):
        if "=" in part:
            name, _, number = part.partition("=")
            result[name] = number
        elif part.endswith("c"):
            result["cpu"] = part[:-1]
        elif part.endswith("p"):
            result["pods"] = part[:-1]
        else:
            result["memory"] = part
    return result


def node(name: str, allocatable: str = "4c+8Gi", labels: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """A Node; 110 Pods unless said otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"pods": "110", **amounts(allocatable)}},
    }


def queue(name: str, weight: int = 1, capability: str = "", state: str = "Open", **spec: Any) -> Raw:
    """A Queue; ``deserved`` and ``guarantee`` are amounts."""
    if capability:
        spec["capability"] = amounts(capability)
    if "deserved" in spec:
        spec["deserved"] = amounts(spec["deserved"])
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": amounts(spec["guarantee"])}
    return {
        "apiVersion": SCHEDULING_API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, **spec},
        "status": {"state": state},
    }


def group(
    name: str,
    queue: str = "default",
    minimum: int = 1,
    *,
    roles: Mapping[str, int] | None = None,
    asks: str | None = None,
    phase: str = "",
    priority_class: str = "",
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> Raw:
    """A PodGroup: ``roles`` is minTaskMember, ``asks`` minResources; further arguments go into the spec."""
    spec: Raw = {"queue": queue, "minMember": minimum, **more}
    if roles is not None:
        spec["minTaskMember"] = dict(roles)
    if asks is not None:
        spec["minResources"] = amounts(asks)
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": SCHEDULING_API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": spec,
        **({"status": {"phase": phase}} if phase else {}),
    }


def hyper_node(name: str, tier: int, *members: str | Raw, tier_name: str = "") -> Raw:
    """A HyperNode. A member is the name of a Node (``>name``: of a HyperNode), or a selector of Nodes."""
    listed: list[Raw] = []
    for member in members:
        if isinstance(member, dict):
            listed.append({"type": "Node", "selector": member})
        else:
            kind = "HyperNode" if member.startswith(">") else "Node"
            listed.append({"type": kind, "selector": {"exactMatch": {"name": member.removeprefix(">")}}})
    return {
        "apiVersion": TOPOLOGY_API_VERSION,
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": listed, **({"tierName": tier_name} if tier_name else {})},
    }


def pod(
    name: str,
    asks: str = "",
    group: str = "",
    *,
    on: str = "",
    phase: str = "",
    role: str = "",
    priority: int | None = None,
    selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    gated: bool = False,
    scheduler: str = NAME,
    **spec: Any,
) -> Raw:
    """A Pod; with ``on`` it is on that node and Running unless ``phase`` says otherwise."""
    meta: Raw = {"name": name, "namespace": "default", "labels": dict(labels or {}), "annotations": {}}
    meta["annotations"].update(annotations or {})
    if group:
        meta["annotations"][GROUP_NAME] = group
    if role:
        meta["annotations"][TASK_SPEC] = role
    if deleting:
        meta["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    requests = {"resources": {"requests": amounts(asks)}} if asks else {}
    body: Raw = {"schedulerName": scheduler, "containers": [{"name": "main", **requests}], **spec}
    if on:
        body["nodeName"] = on
    if priority is not None:
        body["priority"] = priority
    if selector:
        body["nodeSelector"] = dict(selector)
    if gated:
        body["schedulingGates"] = [{"name": "example.com/hold"}]
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": status}


def pods(prefix: str, number: int, asks: str = "", group: str = "", **rest: Any) -> list[Raw]:
    return [pod(f"{prefix}-{i}", asks, group, **rest) for i in range(number)]


def gang(name: str, size: int, asks: str = "", queue: str = "default", **rest: Any) -> list[Raw]:
    """A PodGroup that needs all its Pods, and the Pods, ``name-0``, ``name-1``, ...; ``rest`` as for ``pod``."""
    return [group(name, queue, size), *pods(name, size, asks, name, **rest)]


def manifests(*objects: Raw | Sequence[Any]) -> list[Manifest]:
    """The manifests of objects; lists of them may be nested."""
    flat = list(_flat(objects))
    return [Manifest(f"object {i}", find_kind(raw["apiVersion"], raw["kind"]), raw) for i, raw in enumerate(flat, 1)]


def _flat(objects: Iterable[Any]) -> Iterator[Raw]:
    for entry in objects:
        if isinstance(entry, dict):
            yield entry
        else:
            yield from _flat(entry)
