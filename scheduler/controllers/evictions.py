"""Tells a Pod that ended by itself from one that ended because it was evicted.

A Pod that is being deleted receives a signal, and its phase becomes Succeeded or Failed, with any exit code, before it
is gone. It was evicted, unless it had ended before. The answer follows from the Pod alone, so it is the same for
controllers that start at any moment.
"""

from typing import Final

from scheduler.api.objects import ENDED_PHASES, Pod, PodCondition
from scheduler.api.times import parse_timestamp

DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition that Kubernetes sets on a Pod before its eviction."""
CLOCK_SKEW: Final = 2.0
"""Seconds by which the clock of a node may be behind that of the API server, and its timestamps are cut to seconds."""
BY_POD_GC: Final = "DeletionByPodGC"
"""The reason where the garbage collector of Pods deletes a Pod whose node does not exist. It first writes that the Pod
has failed."""
_BY_KUBELET: Final = "TerminationByKubelet"
"""The reason where the kubelet ends a Pod on its own, for lack of memory for example. It does not delete the Pod, which
has failed."""


def is_being_deleted(pod: Pod) -> bool:
    """Whether the deletion of a Pod was requested, or follows at once."""
    if pod.metadata.deletion_timestamp is not None:
        return True
    return pod.status.phase in ENDED_PHASES and any(
        condition.reason == BY_POD_GC and _is_disruption(condition) for condition in pod.status.conditions or ()
    )


def was_evicted(pod: Pod) -> bool:
    """Whether a Pod is being evicted, or ended because of it. ``pod``: its last version.

    False for a Pod that is not being deleted, and for one that had ended before its deletion was requested: its
    containers had clearly finished, or its phase said so: the API server gives no grace period to a Pod that has ended.
    """
    meta = pod.metadata
    disrupted_at = _disrupted_at(pod)
    if meta.deletion_timestamp is None and disrupted_at is None:
        return False
    if pod.status.phase not in ENDED_PHASES:
        return meta.deletion_timestamp is not None
    grace = meta.deletion_grace_period_seconds
    deleted_at = parse_timestamp(meta.deletion_timestamp)
    requests = (disrupted_at, None if deleted_at is None else deleted_at - (grace or 0))
    requested_at = min((time for time in requests if time is not None), default=None)
    finished_at = _finished_at(pod)
    if finished_at is None or requested_at is None:
        return disrupted_at is not None or grace != 0
    return finished_at >= requested_at - CLOCK_SKEW


def _disrupted_at(pod: Pod) -> float | None:
    """When the eviction of a Pod began, in seconds since the epoch; None if it does not say so."""
    for condition in pod.status.conditions or ():
        if _is_disruption(condition) and condition.reason != _BY_KUBELET:
            return parse_timestamp(condition.last_transition_time) or 0.0
    return None


def _is_disruption(condition: PodCondition) -> bool:
    return condition.type == DISRUPTION_TARGET and condition.status == "True"


def _finished_at(pod: Pod) -> float | None:
    """When the last container finished, in seconds since the epoch; None if that is unknown."""
    times = []
    for status in pod.status.container_statuses or ():
        ended = status.state.terminated if status.state is not None else None
        finished = parse_timestamp(ended.finished_at) if ended is not None else None
        if finished is None:
            return None
        times.append(finished)
    return max(times, default=None)
