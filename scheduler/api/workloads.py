"""Whether a Pod is online or offline, and the object that owns it.

An online Pod serves until it is stopped, such as a replica of an inference service. An offline Pod ends with its work,
such as a worker of a training job. Metrics, statuses and the command line share this definition.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.api.names import OFFLINE, ONLINE, POD_TEMPLATE_HASH, WORKLOAD
from scheduler.api.objects import ObjectMeta, OwnerReference
from scheduler.api.selectors import FieldReporter, ignore_field

SERVING_KINDS: Final = frozenset(
    {"ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "CloneSet", "LeaderWorkerSet"}
)
"""Kinds of controllers, in any API group, whose Pods run until they are stopped. Deployments and other rollouts own
their Pods through ReplicaSets."""
_REPLICA_SET: Final = "ReplicaSet"


def is_online(meta: ObjectMeta, report: FieldReporter = ignore_field) -> bool:
    """Whether a Pod is online: its label ``volcano-py/workload`` says so or, without a valid label, its controller is
    of a serving kind. ``report``: receives an invalid label."""
    labels = meta.labels
    if labels and WORKLOAD in labels:
        value = labels[WORKLOAD]
        if value in (ONLINE, OFFLINE):
            return value == ONLINE
        report(f"metadata.labels[{WORKLOAD}]", f"{value[:64]!r} is neither {ONLINE} nor {OFFLINE}")
    owner = _controller(meta.owner_references) if meta.owner_references else None
    return owner is not None and owner.kind in SERVING_KINDS


def owner_of(meta: ObjectMeta) -> str:
    """``Kind/name`` of the object that manages a Pod, or "". The owner of the Pods of a Deployment is the Deployment,
    not the ReplicaSet in between, whose name ends with the hash in their labels."""
    owner = _controller(meta.owner_references) if meta.owner_references else None
    if owner is None:
        return ""
    if owner.kind == _REPLICA_SET and meta.labels:
        hashed = meta.labels.get(POD_TEMPLATE_HASH)
        if hashed and owner.name.endswith(f"-{hashed}"):
            return f"Deployment/{owner.name.removesuffix(f'-{hashed}')}"
    return f"{owner.kind}/{owner.name}"


def _controller(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    for owner in owners:
        if owner.controller:
            return owner
    return None
