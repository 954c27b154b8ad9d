"""Derives what happened to a job from two versions of one of its Pods or of its PodGroup.

A Pod that is observed for the first time and has failed counts as failed now: it failed while no controller ran. If an
action has already handled it, the Pod's version or mark shows that, so nothing is done twice.

A Pod that ends because it is being deleted was evicted, whatever its phase and exit code (``evictions``). That is an
event once the Pod is gone. ``losses`` finds the Pods that went while no controller ran.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from scheduler.api.batch import JobEvent
from scheduler.api.kinds import VCJOB
from scheduler.api.names import CONDITION_SCHEDULED, PARTITION_ID, TASK_SPEC
from scheduler.api.objects import ENDED_PHASES, KubeObject, OwnerReference, Pod, controller_of
from scheduler.api.scheduling import PodGroup, PodGroupCondition
from scheduler.api.times import parse_timestamp, seconds_of
from scheduler.controllers.evictions import is_being_deleted, was_evicted
from scheduler.controllers.job.pods import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    all_ready,
    is_out_of_sync,
    restarts,
    version_of,
)

UNKNOWN: Final = "Unknown"


class PolicyRequest(msgspec.Struct, frozen=True):
    """Something happened that a policy may apply to."""

    event: JobEvent
    job_uid: str
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    version: int | None = None
    """The version of the job when the Pod was created; None: the Event is not about a Pod."""
    group_uid: str = ""
    exit_code: int = 0
    since: float = 0.0
    """When it happened, in seconds since the epoch."""


class Observed(NamedTuple):
    """The consequences of a change."""

    matters: bool
    """The job has to be reconciled."""
    requests: list[PolicyRequest]


NOTHING: Final = Observed(False, [])


def job_of(obj: KubeObject) -> OwnerReference | None:
    """The vcjob that manages an object, or None."""
    owner = controller_of(obj)
    if owner is None or owner.kind != VCJOB.name or owner.api_version.rpartition("/")[0] != VCJOB.group:
        return None
    return owner


# --- Pods ---
def observe_pod(owner: OwnerReference, old: Pod | None, new: Pod | None, now: float) -> Observed:
    """``owner``: the job."""
    if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
        gone, came = observe_pod(owner, old, None, now), observe_pod(owner, None, new, now)
        return Observed(True, gone.requests + came.requests)
    if new is None:
        if old is None:
            return NOTHING
        return Observed(True, [_request(JobEvent.POD_EVICTED, owner, old, now)] if _is_lost(old) else [])
    events = [] if is_out_of_sync(new) else list(_events(old, new))
    return Observed(bool(events) or _differs(old, new), [_request(event, owner, new, now) for event in events])


def _is_lost(pod: Pod) -> bool:
    """Whether a Pod that is gone was evicted. ``pod``: its last version."""
    return not is_out_of_sync(pod) and (pod.status.phase not in ENDED_PHASES or was_evicted(pod))


def _events(old: Pod | None, new: Pod) -> Iterator[JobEvent]:
    """The events that a change may be. Whether a task has completed or failed is decided from all its Pods."""
    phase = new.status.phase or PENDING
    if old is None or (old.status.phase or PENDING) != phase:
        if phase in ENDED_PHASES and was_evicted(new):
            if not is_being_deleted(new):  # its eviction has begun, but it may never be deleted
                yield JobEvent.POD_EVICTED
        elif phase == FAILED:
            yield JobEvent.POD_FAILED
        elif phase == SUCCEEDED:
            yield JobEvent.TASK_COMPLETED
        elif phase == RUNNING:
            yield JobEvent.POD_RUNNING
        elif phase == PENDING:
            yield JobEvent.POD_PENDING
    if new.metadata.deletion_timestamp is not None:
        return
    if phase in (RUNNING, PENDING) and restarts(new) > (0 if old is None else restarts(old)):
        yield JobEvent.TASK_FAILED


def _differs(old: Pod | None, new: Pod) -> bool:
    """Whether something else changed that the job depends on."""
    return (
        old is None
        or old.status.phase != new.status.phase
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or all_ready(old) != all_ready(new)
    )


def _request(event: JobEvent, owner: OwnerReference, pod: Pod, now: float) -> PolicyRequest:
    meta = pod.metadata
    since = now
    if event is JobEvent.POD_PENDING:
        since = min(now, parse_timestamp(meta.creation_timestamp) or now)
    return PolicyRequest(
        event=event,
        job_uid=owner.uid,
        task=(meta.annotations or {}).get(TASK_SPEC, ""),
        pod=meta.name,
        pod_uid=meta.uid,
        partition=(meta.labels or {}).get(PARTITION_ID, ""),
        version=version_of(pod),
        exit_code=_exit_code(pod) if event is JobEvent.POD_FAILED else 0,
        since=since,
    )


def _exit_code(pod: Pod) -> int:
    """Returns the exit code of the first container; 0 if it has none."""
    statuses = pod.status.container_statuses
    state = statuses[0].state if statuses else None
    return state.terminated.exit_code if state is not None and state.terminated is not None else 0


# --- PodGroups ---
def observe_group(owner: OwnerReference, old: PodGroup | None, new: PodGroup | None, now: float) -> Observed:
    """``owner``: the job."""
    if new is None:
        return Observed(True, [])
    if old is not None and old.metadata.uid == new.metadata.uid and old.status.phase == new.status.phase:
        return Observed(why_pending(old) != why_pending(new), [])
    if new.status.phase != UNKNOWN:
        return Observed(True, [])
    return Observed(True, [PolicyRequest(JobEvent.UNKNOWN, owner.uid, group_uid=new.metadata.uid, since=now)])


def why_pending(group: PodGroup) -> str:
    """The message of the latest condition that holds, unless that says the group is scheduled; "" if there is none."""
    latest: PodGroupCondition | None = None
    for condition in group.status.conditions or ():
        if condition.status == "True" and (latest is None or _moment(condition) > _moment(latest)):
            latest = condition
    return "" if latest is None or latest.type == CONDITION_SCHEDULED else latest.message


def _moment(condition: PodGroupCondition) -> float:
    return seconds_of(condition.last_transition_time)
