"""The desired PodGroup of a Pod and of the other Pods of its owner (as Volcano's PodGroup controller).

It needs one Pod to run unless an owner's annotation says more, and requests what these Pods request. What Pods have
beyond that is elastic: the queue plugins decide about each of them, so that a Deployment that grows is held to the
quota of its queue Pod by Pod, and gives back the quota of every Pod it loses.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.batch import Workload
from scheduler.api.kinds import BATCH_JOB, DAEMON_SET, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind
from scheduler.api.names import (
    COOLDOWN_TIME,
    GROUP_MIN_MEMBER,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    NETWORK_TOPOLOGY_MODE,
    PODGROUP_PREFIX,
    PREEMPTABLE,
    QUEUE_NAME_ANNOTATION,
    REVOCABLE_ZONE,
    VOLCANO_PREFIX,
)
from scheduler.api.objects import KubeObject, Pod, controller_of
from scheduler.api.quantity import QuantityError
from scheduler.controllers.effects import Json, RecordEvent, malformed
from scheduler.controllers.owners import owner_reference
from scheduler.controllers.resources import pod_usage, printed, scaled

Owner = tuple[Kind, Workload]
OWNERS: Final = (REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB)
"""Kinds of owners whose annotations count."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_MAX_INT32: Final = 2**31 - 1
_OWN_ANNOTATIONS: Final = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
_OWN_LABELS: Final = (PREEMPTABLE, COOLDOWN_TIME)
_MODES: Final = ("hard", "soft")
_PLAIN_FIELDS: Final = frozenset(("minMember", "minResources", "priorityClassName"))
"""Fields of the spec that follow from a Pod without annotations."""


@dataclass(slots=True)
class WantedGroup:
    """The desired state of a PodGroup."""

    spec: Json
    annotations: dict[str, str]
    labels: dict[str, str]
    problems: list[RecordEvent] = field(default_factory=list)
    """Events about ignored fields."""

    @property
    def plain(self) -> bool:
        """Whether the PodGroup follows from one Pod without annotations, labels and problems that concern PodGroups. A
        scheduler places such a Pod before its PodGroup exists."""
        return (
            not (self.annotations or self.labels or self.problems)
            and self.spec.keys() <= _PLAIN_FIELDS
            and self.spec["minMember"] == 1
        )


def group_name(pod: Pod) -> str:
    """The name of the PodGroup of a Pod that names none. All Pods of one controller have one PodGroup."""
    owner = controller_of(pod)
    return PODGROUP_PREFIX + (owner.uid if owner is not None else pod.metadata.uid)


def inherited(owner: KubeObject) -> dict[str, str]:
    """The annotations of an owner that its PodGroup depends on."""
    return {
        key: value
        for key, value in (owner.metadata.annotations or {}).items()
        if key.startswith(VOLCANO_PREFIX) or key == GROUP_MIN_MEMBER
    }


def wanted(pod: Pod, owners: Iterable[Owner]) -> WantedGroup:
    """The PodGroup of a Pod. If several owners have one annotation, the value of the first owner counts."""
    result = WantedGroup({}, {}, {})
    minimum = None
    for kind, owner in owners:
        annotations = inherited(owner)
        text = annotations.pop(GROUP_MIN_MEMBER, None)
        if text is not None and minimum is None:
            minimum = _min_member(text, kind, owner, result.problems)
        result.annotations = annotations | result.annotations
    own = pod.metadata.annotations or {}
    result.annotations |= {key: own[key] for key in _OWN_ANNOTATIONS if key in own}
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in own:
            result.annotations[key] = own[key]
            break
    labels = pod.metadata.labels or {}
    result.labels = {key: labels[key] for key in _OWN_LABELS if key in labels}
    result.spec["minMember"] = count = 1 if minimum is None else minimum
    try:
        result.spec["minResources"] = printed(scaled(pod_usage(pod.spec), count))
    except QuantityError as error:
        result.problems.append(malformed(POD, pod, "spec", str(error)))
    if pod.spec.priority_class_name:
        result.spec["priorityClassName"] = pod.spec.priority_class_name
    if QUEUE_NAME_ANNOTATION in own:
        result.spec["queue"] = own[QUEUE_NAME_ANNOTATION]
    topology = _network_topology(own, pod, result.problems)
    if topology is not None:
        result.spec["networkTopology"] = topology
    return result


def manifest(pod: Pod, group: WantedGroup) -> Json:
    """The manifest of a new PodGroup, which is deleted with the managing owner of the Pod or, without one, with the
    Pod."""
    metadata: Json = {"name": group_name(pod), "namespace": pod.metadata.namespace}
    if controller_of(pod) is not None:
        # Without blockOwnerDeletion: it would need the right to block the deletion of owners of every kind.
        metadata["ownerReferences"] = [msgspec.to_builtins(owner) for owner in pod.metadata.owner_references or ()]
    else:
        metadata["ownerReferences"] = [owner_reference(POD, pod)]
    if group.annotations:
        metadata["annotations"] = group.annotations
    if group.labels:
        metadata["labels"] = group.labels
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.name,
        "metadata": metadata,
        "spec": {field: value for field, value in group.spec.items() if value != 0},  # as Volcano writes it
        "status": {"phase": "Pending"},
    }


def _min_member(text: str, kind: Kind, owner: KubeObject, problems: list[RecordEvent]) -> int:
    if _whole(text):
        return int(text)
    problem = f"{text[:64]!r} is not a whole number from 0 to {_MAX_INT32} (1 is used)"
    problems.append(malformed(kind, owner, f"metadata.annotations[{GROUP_MIN_MEMBER}]", problem))
    return 1


def _network_topology(own: Mapping[str, str], pod: Pod, problems: list[RecordEvent]) -> Json | None:
    mode, tier = own.get(NETWORK_TOPOLOGY_MODE), own.get(NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    topology: Json = {"mode": "hard"}
    if mode is not None:
        if mode.lower() in _MODES:
            topology["mode"] = mode.lower()
        else:
            problem = f"{mode[:64]!r} is not one of {', '.join(_MODES)} (hard is used)"
            problems.append(malformed(POD, pod, f"metadata.annotations[{NETWORK_TOPOLOGY_MODE}]", problem))
    if tier is not None:
        if _whole(tier):
            topology["highestTierAllowed"] = int(tier)
        else:
            problem = f"{tier[:64]!r} is not a whole number from 0 to {_MAX_INT32}"
            problems.append(malformed(POD, pod, f"metadata.annotations[{NETWORK_TOPOLOGY_HIGHEST_TIER}]", problem))
    return topology


def _whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and 0 <= int(text) <= _MAX_INT32
