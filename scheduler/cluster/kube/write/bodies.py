"""The bodies of the requests that carry out decisions. ``writer`` decides when and how often they are sent.

Every body names the uid of its object where that is known, so that a namesake created meanwhile is left alone.
"""

from typing import Any

import msgspec

from scheduler.api.decisions import (
    Bind,
    Evict,
    ObjectWrite,
    PodGroupStatusUpdate,
    PodUnschedulable,
    QueueAllocated,
    Ungate,
    eviction_message,
)
from scheduler.api.messages import card_summary
from scheduler.api.names import (
    ADMISSION_RECORD,
    BINDING_RECORD,
    CARD_ALTERNATIVE,
    GROUP_NAME,
    POD_SCHEDULED,
    PODGROUP_PREFIX,
    QUEUE_ALLOCATION_GATE,
)
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import PreparationPatch
from scheduler.api.signed_records import SigningKey
from scheduler.api.times import format_timestamp

_encode = msgspec.json.Encoder().encode


def binding(bind: Bind, key: SigningKey) -> bytes:
    """A Binding: the API server copies its annotations onto the Pod as it sets the node. ``key`` signs its record.

    A Pod that was bound before its PodGroup existed gets the name of its PodGroup here. Otherwise the controllers would
    write it, and of all requests about such a Pod, a patch of the Pod costs the API server most.
    """
    task = bind.task
    metadata: dict[str, Any] = {"name": task.name, "namespace": task.namespace, **_uid(task.uid)}
    annotations = bind.annotations
    group = task.job.rpartition("/")[2]
    if group.startswith(PODGROUP_PREFIX):
        annotations = {GROUP_NAME: group, **annotations}
    if bind.record is not None:
        annotations = {**annotations, BINDING_RECORD: bind.record.text(task.uid, key)}
    if annotations:
        metadata["annotations"] = annotations
    return _encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )


def eviction_conditions(eviction: Evict, scheduler_name: str, now: float) -> bytes:
    """Strategic merge patch of a Pod's status before it is deleted."""
    moment = format_timestamp(now)
    conditions = [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Evict",
            "message": eviction_message(eviction.reason),
            "lastTransitionTime": moment,
        },
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": moment,
        },
    ]
    return _encode({"metadata": _uid(eviction.task.uid), "status": {"conditions": conditions}})


def deletion(eviction: Evict) -> bytes:
    """DeleteOptions."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if eviction.task.uid:
        options["preconditions"] = {"uid": eviction.task.uid}
    if eviction.grace_period is not None:
        options["gracePeriodSeconds"] = eviction.grace_period
    return _encode(options)


def ungating(ungate: Ungate) -> bytes:
    """Strategic merge patch of a Pod that removes one scheduling gate, if it is there."""
    gone = {"$patch": "delete", "name": QUEUE_ALLOCATION_GATE}
    return _encode({"metadata": _uid(ungate.task.uid), "spec": {"schedulingGates": [gone]}})


def pod_unschedulable(update: PodUnschedulable, transition: float | None) -> bytes:
    """Strategic merge patch of a Pod's status. ``transition``: when the condition became False; None: earlier."""
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": update.reason,
        "message": update.message,
    }
    if transition is not None:
        condition["lastTransitionTime"] = format_timestamp(transition)
    status: dict[str, Any] = {"conditions": [condition]}
    if update.nominated:
        status["nominatedNodeName"] = update.nominated
    return _encode({"metadata": _uid(update.task.uid), "status": status})


def pod_group_status(update: PodGroupStatusUpdate, key: SigningKey | None = None) -> bytes:
    """Merge patch of a PodGroup (which has no status subresource): every field of the status, conditions as a whole.
    Counts of zero are taken out, as Volcano leaves them out. ``key``: for the record of its admission; None: none is
    written. The chosen alternative is written in the same call."""
    status: dict[str, Any] = {
        "conditions": list(msgspec.to_builtins(update.conditions)),
        "running": update.running or None,
        "succeeded": update.succeeded or None,
        "failed": update.failed or None,
    }
    if update.phase:
        status["phase"] = update.phase
    annotations: dict[str, str | None] = {}
    if update.removes_record:
        annotations[ADMISSION_RECORD] = None
    elif update.admission is not None and key is not None:
        annotations[ADMISSION_RECORD] = update.admission.text(update.uid, key)
    if update.alternative:
        annotations[CARD_ALTERNATIVE] = update.alternative
    metadata = {**_uid(update.uid), **({"annotations": annotations} if annotations else {})}
    return _encode({"metadata": metadata, "status": status})


def queue_allocated(update: QueueAllocated) -> bytes:
    """JSON patch of a Queue's status: what it uses is replaced as a whole, so nothing of before remains.
    ``reservation`` is written empty, as Volcano does: its Queues are read by programs that know it there."""
    return _encode(
        [
            {"op": "add", "path": "/status/allocated", "value": update.allocated},
            *({"op": "add", "path": f"/status/{key}", "value": value} for key, value in _own_fields(update).items()),
            {"op": "add", "path": "/status/reservation", "value": {}},
            *({"op": "add", "path": f"/status/{phase}", "value": number} for phase, number in update.groups.items()),
        ]
    )


def queue_first_allocated(update: QueueAllocated) -> bytes:
    """Merge patch for a Queue that has no status yet."""
    amounts = {"allocated": update.allocated, **_own_fields(update)}
    return _encode({"status": {**amounts, **update.groups, "reservation": {}}})


def _own_fields(update: QueueAllocated) -> dict[str, object]:
    """What Volcano's Queues do not have: ``deserved``; ``cards``, and for kubectl the same as a text; of the root,
    ``withoutQueue``. Without what is not written."""
    # The API server removes a field that is null.
    without_queue = {} if update.without_queue is None else {"withoutQueue": update.without_queue or None}
    deserved = {} if update.deserved is None else {"deserved": update.deserved}
    cards = {} if update.cards is None else {"cards": update.cards, "cardSummary": card_summary(update.cards)}
    return {**deserved, **cards, **without_queue}


def object_write(write: ObjectWrite) -> bytes:
    """A merge patch of an object, or the new object."""
    metadata = {**write.body.get("metadata", {}), "name": write.name}
    if write.namespace:
        metadata["namespace"] = write.namespace
    if write.new:
        kind = {"apiVersion": write.kind.api_version, "kind": write.kind.name}
        return _encode({**kind, **write.body, "metadata": metadata})
    if write.resource_version:
        metadata["resourceVersion"] = write.resource_version
    return _encode({**write.body, "metadata": {**metadata, **_uid(write.uid)}})


def exactly(patch: PreparationPatch, found: KubeObject) -> bytes:
    """The body of a patch that the server refuses unless the object still has the version that was read."""
    meta = found.metadata
    version = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
    metadata = {**patch.body.get("metadata", {}), **_uid(meta.uid), **version}
    return _encode({**patch.body, "metadata": metadata})


def _uid(uid: str) -> dict[str, str]:
    """The uid as a precondition; one that we made up (it has a slash) is none."""
    return {"uid": uid} if uid and "/" not in uid else {}
