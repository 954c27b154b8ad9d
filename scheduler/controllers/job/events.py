"""Derives what happened to a job from two versions of one of its Pods or of its PodGroup.

A Pod that is observed for the first time and has failed counts as failed now: it failed while no controller ran. If an
action has already handled it, the Pod's version or mark shows that, so nothing is done twice.

A Pod that ends because it is being deleted was evicted, whatever its phase and exit code (``evictions``). That is an
event once the Pod is gone.

The status of a job says how many Pods of each task it had, and how many of them had ended or were being evicted.
Controllers that start compare it with the Pods that exist (``losses``), so that Pods that were evicted while no
controller ran count as well. Pods that the controllers delete themselves are not in the status any more when that
happens. Of a Pod that is gone nothing is left in the API, so two things cannot be known, and in doubt a Pod was
evicted: the job must not go on without it. A Pod that ended after the status was written, and was deleted, counts as
evicted. If the status says that some of the Pods that are gone had ended, it does not say which; that matters only to a
policy that restarts a partition.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api import batch
from scheduler.api.batch import JobEvent
from scheduler.api.names import PARTITION_ID, TASK_SPEC
from scheduler.api.objects import ENDED_PHASES, OwnerReference, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.api.times import parse_timestamp
from scheduler.controllers.evictions import is_being_deleted, was_evicted
from scheduler.controllers.job.alternatives import choice_changed
from scheduler.controllers.job.observation import JobObservation, why_pending
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.pods import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Member,
    Members,
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


class ObservedChange(NamedTuple):
    """The consequences of a change."""

    matters: bool
    """The job has to be reconciled."""
    requests: list[PolicyRequest]


NOTHING: Final = ObservedChange(False, [])


# --- Pods -------------------------------------------------------------------------------------------------------------
def observe_pod(owner: OwnerReference, old: Pod | None, new: Pod | None, now: float) -> ObservedChange:
    """The consequences of a change of a Pod for its job. ``owner``: the reference to the job."""
    if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
        gone, came = observe_pod(owner, old, None, now), observe_pod(owner, None, new, now)
        return ObservedChange(True, gone.requests + came.requests)
    if new is None:
        if old is None:
            return NOTHING
        return ObservedChange(True, [_request(JobEvent.POD_EVICTED, owner, old, now)] if _is_lost(old) else [])
    events = [] if is_out_of_sync(new) else list(_events(old, new))
    return ObservedChange(bool(events) or _differs(old, new), [_request(event, owner, new, now) for event in events])


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
    """Whether a Pod changed in another way that its job depends on."""
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


# --- PodGroups --------------------------------------------------------------------------------------------------------
def observe_group(owner: OwnerReference, old: PodGroup | None, new: PodGroup | None, now: float) -> ObservedChange:
    """The consequences of a change of a PodGroup for its job. ``owner``: the reference to the job."""
    if new is None:
        return ObservedChange(True, [])
    if old is not None and old.metadata.uid == new.metadata.uid and old.status.phase == new.status.phase:
        return ObservedChange(why_pending(old) != why_pending(new) or choice_changed(old, new), [])
    if new.status.phase != UNKNOWN:
        return ObservedChange(True, [])
    return ObservedChange(True, [PolicyRequest(JobEvent.UNKNOWN, owner.uid, group_uid=new.metadata.uid, since=now)])


# --- Pods that are gone -----------------------------------------------------------------------------------------------
def losses(seen: JobObservation) -> list[PolicyRequest]:
    """Requests about Pods that were evicted and are gone. A Pod that had ended when the status was written was not
    evicted."""
    job, spec = seen.job, seen.parsed_spec
    return [
        PolicyRequest(
            event=JobEvent.POD_EVICTED,
            job_uid=job.metadata.uid,
            task=task,
            pod=name,
            partition=spec.slots[name].partition,
            version=job.status.version,
            since=seen.now,
        )
        for task, state in (job.status.task_status_count or {}).items()
        for name in _lost(task, state.phase or {}, spec, seen.members, job)
    ]


def _lost(
    task: str, known: Mapping[str, int], parsed_spec: ParsedSpec, members: Members, job: batch.Job
) -> Iterator[str]:
    """The names of the Pods of a task that count as evicted. ``known``: phase -> their number in the status."""
    there = [m for m in members.values() if m.task == task and m.wanted and m.version >= job.status.version]
    active = sum(not _has_ended(member) for member in there)
    active_before = sum(number for phase, number in known.items() if phase not in ENDED_PHASES)
    gone = sum(known.values()) - len(there)
    lost = min(gone, active_before - active)
    if lost <= 0:
        return
    missing = (name for name, slot in parsed_spec.slots.items() if slot.task.name == task and name not in members)
    names = [name for name, _ in zip(missing, range(gone), strict=False)]
    partitions = [parsed_spec.slots[name].partition for name in names]
    if not any(partitions):
        yield from names[:lost]
        return
    over = _partitions_over(there, parsed_spec)
    ended = gone - lost
    for name, partition in zip(names, partitions, strict=True):
        if partition in over and ended > 0:
            ended -= 1
        else:
            yield name


def _partitions_over(there: Sequence[Member], parsed_spec: ParsedSpec) -> set[str]:
    """The partitions whose Pods have all ended, as far as they exist."""
    has_ended: dict[str, bool] = {}
    for member in there:
        partition = parsed_spec.slots[member.name].partition
        has_ended[partition] = has_ended.get(partition, True) and _has_ended(member)
    return {partition for partition, over in has_ended.items() if over}


def _has_ended(member: Member) -> bool:
    return member.phase in ENDED_PHASES and not member.evicted
