"""How a Pod becomes a Task, given what the cache alone can know: its class, and what is assumed of it."""

import re
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.api.binding_record import BindingRecord, device_annotations
from scheduler.api.names import (
    GROUP_NAME,
    PREEMPTABLE,
    TASK_PRIORITY,
    TASK_SPEC,
    TRUE,
)
from scheduler.api.objects import Pod
from scheduler.api.task import FINISHED_STATUSES, MOST_EARLIER, Task, TaskClass, TaskStatus, index_in_name, pod_status
from scheduler.cache.metadata import seconds, uid_of

POD_SCHEDULED: Final = "PodScheduled"
LARGEST_PRIORITY: Final = 2**31 - 1
LONGEST_EARLIER: Final = 4096
"""Characters of an annotation that is remembered although it was changed; changes of longer ones count as too many."""
TOO_MANY_EARLIER: Final = tuple(("", str(number)) for number in range(MOST_EARLIER))
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
NO_CLAIMS: Final[Mapping[str, str | None]] = {}


class Place(NamedTuple):
    """How far a Pod has come."""

    status: TaskStatus
    node: str
    """Empty if it has none."""
    devices: dict[str, str]
    """The annotations that say which devices it has."""


def place_of(pod: Pod) -> Place:
    """How far a Pod has come by its own word."""
    meta, node = pod.metadata, pod.spec.node_name
    status = pod_status(pod.status.phase, meta.deletion_timestamp is not None, node)
    return Place(status, node, device_annotations(meta.annotations or {}))


def task_of(
    pod: Pod,
    ours: bool,
    cls: TaskClass,
    place: Place,
    priority: int,
    record: BindingRecord | None = None,
    earlier: tuple[tuple[str, str], ...] = (),
) -> Task:
    """The task of a Pod. ``ours``: whether it is for this scheduler to place."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations = meta.annotations or {}
    labels = meta.labels or {}
    group = annotations.get(GROUP_NAME, "")
    scheduled = None
    for condition in status.conditions or ():
        if condition.type == POD_SCHEDULED:
            scheduled = condition
            break
    return Task(
        uid=uid_of(meta),
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        job=sys.intern(f"{meta.namespace}/{group}") if group else "",
        cls=cls,
        role=sys.intern(annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""),
        status=place.status,
        node=sys.intern(place.node),
        priority=priority,
        creation=seconds(meta.creation_timestamp),
        index=index_in_name(meta.name),
        gated=bool(spec.scheduling_gates),
        preemptable=_truth(annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE)), True),
        nominated=status.nominated_node_name,
        annotations=place.devices,
        resource_version=meta.resource_version,
        ours=ours,
        message=scheduled.message if scheduled is not None and scheduled.status == "False" else "",
        labels=labels,
        scheduled_at=seconds(scheduled.last_transition_time)
        if scheduled is not None and scheduled.status == "True"
        else 0.0,
        started_at=seconds(status.start_time),
        device_claims=claims_made(pod),
        record=record,
        earlier=earlier,
    )


def task_priority(pod: Pod) -> int:
    """The priority among the tasks of its job. Raises ValueError, with a message, if the annotation is no integer of 32
    bits."""
    text = (pod.metadata.annotations or {}).get(TASK_PRIORITY)
    if text is None:
        return pod_priority(pod)
    priority = int(text) if _INTEGER.fullmatch(text) else LARGEST_PRIORITY + 1
    if not -LARGEST_PRIORITY <= priority <= LARGEST_PRIORITY:
        raise ValueError(f"{text[:64]!r} is not an integer between {-LARGEST_PRIORITY} and {LARGEST_PRIORITY}")
    return priority


def pod_priority(pod: Pod) -> int:
    """The priority of the Pod itself, 1 if it has none."""
    return 1 if pod.spec.priority is None else pod.spec.priority


def claims_made(pod: Pod) -> Mapping[str, str | None]:
    """Entry of the spec -> ResourceClaim made for it; None: it needs none."""
    claims = pod.status.resource_claim_statuses
    return {entry.name: entry.resource_claim_name for entry in claims} if claims else NO_CLAIMS


def earlier_devices(old: Task, place: Place) -> tuple[tuple[str, str], ...]:
    """What the annotations of a Pod, which was on its node before, once said of its devices there and say no more."""
    gone = [said for said in old.annotations.items() if place.devices.get(said[0]) != said[1]]
    if any(len(value) > LONGEST_EARLIER for _, value in gone):
        return TOO_MANY_EARLIER
    return tuple(dict.fromkeys((*old.earlier, *gone)))[:MOST_EARLIER]


def holds_node(task: Task) -> bool:
    """Whether a task takes its place on a node."""
    return bool(task.node) and task.status not in FINISHED_STATUSES


def alike(old: Task, new: Task) -> bool:
    """Whether two versions of a task are alike to a session."""
    return (
        old.status is new.status
        and old.cls is new.cls
        and old.node == new.node
        and old.job == new.job
        and old.role == new.role
        and old.priority == new.priority
        and old.gated == new.gated
        and old.preemptable == new.preemptable
        and old.nominated == new.nominated
        and old.annotations == new.annotations
        and old.record == new.record
        and old.earlier == new.earlier
        and old.ours == new.ours
        and old.labels == new.labels
        and old.scheduled_at == new.scheduled_at
        and old.started_at == new.started_at
        and old.device_claims == new.device_claims
    )


def _truth(text: str | None, default: bool) -> bool:
    """A boolean annotation as Volcano reads it: anything that is not a boolean is false."""
    return default if text is None else text in TRUE
