"""Conversion of a Pod to a Task: its state, its priority and its devices.

The class and the assumed state of a Pod are passed in, since only the cache knows them.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from scheduler.api.names import (
    FAULT_ANNOTATIONS,
    GPU_PREDICATE_TIME,
    GROUP_NAME,
    HCCL_RANK_INDEX,
    PREDICATE_TIME,
    PREEMPTABLE,
    SUPER_POD_RANK,
    TASK_INDEX_VARIABLE,
    TASK_PRIORITY,
    TASK_SPEC,
    TRUE,
)
from scheduler.api.objects import ContainerStatus, ObjectMeta, Pod, PodSpec
from scheduler.api.pod_failures import vnpu_failure
from scheduler.api.signed_records import NO_ANNOTATIONS, BindingRecord, device_annotations
from scheduler.api.task import (
    FINISHED_STATUSES,
    MAX_EARLIER,
    Task,
    TaskClass,
    TaskStatus,
    index_in_name,
    pod_status,
    predicate_time_of,
)
from scheduler.api.times import seconds_of
from scheduler.api.workloads import owner_of

POD_SCHEDULED: Final = "PodScheduled"
MAX_PRIORITY: Final = 2**31 - 1
MAX_EARLIER_LENGTH: Final = 4096
"""Characters of a changed annotation value that ``Task.earlier`` keeps. A longer value counts as too many values."""
TOO_MANY_EARLIER: Final = tuple(("", str(number)) for number in range(MAX_EARLIER))
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
NO_LABELS: Final[dict[str, str]] = {}
NO_MARKS: Final[Mapping[str, str]] = {}
NO_CLAIMS: Final[Mapping[str, str | None]] = {}
_FAULT_ANNOTATIONS: Final = frozenset(FAULT_ANNOTATIONS)
_KEPT_ANNOTATIONS: Final = _FAULT_ANNOTATIONS | {HCCL_RANK_INDEX, SUPER_POD_RANK, PREDICATE_TIME, GPU_PREDICATE_TIME}
"""The annotations of which tasks keep the values. Most Pods have none of them."""
_intern: Final = sys.intern


class PodPosition(NamedTuple):
    """The status of a Pod, its node, and its devices."""

    status: TaskStatus
    node: str
    """Empty before the Pod is bound."""
    devices: dict[str, str]
    """The annotations that name its devices."""


def pod_state(pod: Pod) -> PodPosition:
    """The state that the watched Pod shows."""
    meta, node = pod.metadata, pod.spec.node_name
    status = pod_status(pod.status.phase, meta.deletion_timestamp is not None, node)
    return PodPosition(status, node, device_annotations(meta.annotations) if meta.annotations else NO_ANNOTATIONS)


def task_of(
    pod: Pod,
    ours: bool,
    cls: TaskClass,
    state: PodPosition,
    priority: int,
    record: BindingRecord | None = None,
    earlier: tuple[tuple[str, str], ...] = (),
    variable_index: str = "",
) -> Task:
    """Builds the task of a Pod. ``ours``: the Pod names this scheduler; ``variable_index``: the result of
    ``task_index``.

    Texts that many Pods have in common are interned: a cluster can have a million Pods.
    """
    meta, status = pod.metadata, pod.status
    annotations = meta.annotations or NO_ANNOTATIONS
    labels = {key: _intern(value) for key, value in meta.labels.items()} if meta.labels else NO_LABELS
    namespace, group = _intern(meta.namespace), annotations.get(GROUP_NAME)
    message, scheduled_at = "", 0.0
    for condition in status.conditions or ():
        if condition.type == POD_SCHEDULED:
            if condition.status == "False":
                message = _intern(condition.message)
            elif condition.status == "True":
                scheduled_at = seconds_of(condition.last_transition_time)
            break
    rank = predicate_time = super_pod_rank = ""
    fault_marks = NO_MARKS
    if not _KEPT_ANNOTATIONS.isdisjoint(annotations):
        rank, super_pod_rank = annotations.get(HCCL_RANK_INDEX, ""), annotations.get(SUPER_POD_RANK, "")
        predicate_time = predicate_time_of(annotations)
        fault_marks = _fault_marks(annotations)
    # By position: with 30 keywords, to make a task takes four times as long.
    return Task(
        meta.uid or uid_of(meta),
        namespace,
        meta.name,
        _intern(f"{namespace}/{group}") if group else "",
        cls,
        _intern(annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""),
        state.status,
        _intern(state.node),
        priority,
        seconds_of(meta.creation_timestamp),
        index_in_name(meta.name),
        bool(pod.spec.scheduling_gates),
        _parse_bool(annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE)), True),
        _intern(status.nominated_node_name),
        state.devices,
        meta.resource_version,
        ours,
        message,
        labels,
        scheduled_at,
        seconds_of(status.start_time),
        generated_claims(pod),
        record,
        rank,
        predicate_time,
        super_pod_rank,
        fault_marks,
        _container_failed(status.container_statuses) if status.container_statuses else False,
        variable_index,
        pod.spec.termination_grace_period_seconds == 0 and not meta.finalizers,
        vnpu_failure(pod) if status.reason else "",
        "" if ours and group else _intern(owner_of(meta)),
        earlier,
    )


def task_index(spec: PodSpec) -> str:
    """The number of the Pod within its task of a vcjob, by its environment, or ""."""
    for container in spec.containers:
        if container.env is not None:
            for variable in container.env:
                if variable.name == TASK_INDEX_VARIABLE:
                    value = variable.value
                    valid = isinstance(value, str) and value.isdecimal() and len(value) < 10
                    return sys.intern(value) if valid else ""
    return ""


def task_priority(pod: Pod) -> int:
    """The priority of a Pod among the tasks of its job. Raises ValueError, with a message, if the annotation is not a
    32-bit integer."""
    text = (pod.metadata.annotations or {}).get(TASK_PRIORITY)
    if text is None:
        return pod_priority(pod)
    priority = int(text) if _INTEGER.fullmatch(text) else MAX_PRIORITY + 1
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise ValueError(f"{text[:64]!r} is not an integer between {-MAX_PRIORITY} and {MAX_PRIORITY}")
    return priority


def pod_priority(pod: Pod) -> int:
    """``spec.priority``, or 1 if it is not set."""
    return 1 if pod.spec.priority is None else pod.spec.priority


def generated_claims(pod: Pod) -> Mapping[str, str | None]:
    """Entry of ``spec.resourceClaims`` -> name of the claim made for it from a template; None: it needs none."""
    claims = pod.status.resource_claim_statuses
    return {entry.name: entry.resource_claim_name for entry in claims} if claims else NO_CLAIMS


def earlier_devices(old: Task, state: PodPosition) -> tuple[tuple[str, str], ...]:
    """The device annotations, as (key, value), that a Pod had since it is on its node and has no more."""
    removed = [item for item in old.annotations.items() if state.devices.get(item[0]) != item[1]]
    if any(len(value) > MAX_EARLIER_LENGTH for _, value in removed):
        return TOO_MANY_EARLIER
    return tuple(dict.fromkeys((*old.earlier, *removed)))[:MAX_EARLIER]


def holds_node(task: Task) -> bool:
    """Whether a task occupies its node: it has one and has not finished."""
    return bool(task.node) and task.status not in FINISHED_STATUSES


def is_equivalent(old: Task, new: Task) -> bool:
    """Whether two versions of a task are the same to a session."""
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
        and old.rank == new.rank
        and old.super_pod_rank == new.super_pod_rank
        and old.fault_marks == new.fault_marks
        and old.container_failed == new.container_failed
        and old.leaves_at_once == new.leaves_at_once
        and old.vnpu_failure == new.vnpu_failure
        and old.earlier == new.earlier
        and old.ours == new.ours
        and old.labels == new.labels
        and old.owner == new.owner
        and old.scheduled_at == new.scheduled_at
        and old.started_at == new.started_at
        and old.device_claims == new.device_claims
    )


def _fault_marks(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations about a fault; Pods without one share an empty mapping."""
    if _FAULT_ANNOTATIONS.isdisjoint(annotations):
        return NO_MARKS
    return {key: annotations[key] for key in FAULT_ANNOTATIONS if key in annotations}


def _container_failed(containers: Iterable[ContainerStatus]) -> bool:
    """Whether the last run of a container that was started again failed."""
    for container in containers:
        if container.restart_count and container.last_state is not None:
            ended = container.last_state.terminated
            if ended is not None and ended.exit_code != 0:
                return True
    return False


def _parse_bool(text: str | None, default: bool) -> bool:
    """A boolean annotation as Volcano reads it: any text that is not a boolean is false."""
    return default if text is None else text in TRUE


def uid_of(meta: ObjectMeta) -> str:
    """The uid, or ``namespace/name`` of an object without one."""
    return meta.uid or f"{meta.namespace}/{meta.name}"
