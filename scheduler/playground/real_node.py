"""A node with a real kubelet whose devices are simulated: what its device plugin writes onto the Node."""

import zlib
from typing import Final

from msgspec.structs import replace

from scheduler.api.names import BASE_DEVICE_INFOS
from scheduler.playground.families import PLUGIN_FAMILIES, NodeFamily
from scheduler.playground.node import MAX_NODES, base_devices, machine_of
from scheduler.playground.objects import (
    FAMILY,
    INDEX,
    NODE,
    PLUGIN_FAMILY,
    VNPU,
    Patch,
    SimulatedNode,
    annotations_of,
    whole_number,
)

_NUMBERS: Final = ("superPodID", "serverIndex")


def announcement(node: SimulatedNode, family: NodeFamily, division: str) -> Patch | None:
    """The labels and annotations to change, so that the Node is one of the family; None if nothing is to change.

    Its numbers (``INDEX``, super pod and server) are kept. Without one, ``INDEX`` follows from the name of the node, so
    that device plugins of different nodes need not agree, and the others are 0. Raises ValueError for a simulated Node.
    """
    labels, annotations = node.metadata.labels or {}, annotations_of(node)
    if FAMILY in labels:
        raise ValueError(f"Node {node.metadata.name} is simulated: it has no kubelet that a device plugin could serve")
    of_other_families = dict.fromkeys(key for each in PLUGIN_FAMILIES.values() for key in each.labels)
    new_labels = {**of_other_families, **family.labels, PLUGIN_FAMILY: family.name}
    own = zlib.crc32(node.metadata.name.encode()) % MAX_NODES
    new: dict[str, str | None] = {INDEX: _kept(annotations, INDEX, MAX_NODES, own), VNPU: division or None}
    if family.super_pods:
        new |= {key: _kept(annotations, key, 1 << 31, 0) for key in _NUMBERS}
    merged = {key: value for key, value in {**annotations, **new}.items() if value is not None}
    metadata = replace(node.metadata, labels={PLUGIN_FAMILY: family.name}, annotations=merged)
    new[BASE_DEVICE_INFOS] = None if family.gpus else base_devices(machine_of(replace(node, metadata=metadata)))
    changes = {
        "labels": {key: value for key, value in new_labels.items() if labels.get(key) != value},
        "annotations": {key: value for key, value in new.items() if annotations.get(key) != value},
    }
    return Patch(NODE, node.metadata, {"metadata": changes}) if any(changes.values()) else None


def _kept(annotations: dict[str, str], key: str, limit: int, default: int) -> str:
    """The number in an annotation, if there is a valid one."""
    number = whole_number(annotations.get(key, ""))
    return str(default if number is None or number >= limit else number)
