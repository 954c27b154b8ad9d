"""Tells a Pod that ended by itself from one that ended because it was evicted.

A Pod that is being deleted receives a signal, and its phase becomes Succeeded or Failed, with any exit code, before it
is gone. It was evicted, unless it had ended before. A Pod whose virtual NPU could not be created was evicted, too: it
has not run, and the scheduler deletes it, so that another Pod gets another chip. The answer follows from the Pod alone,
so it is the same for controllers that start at any moment.
"""

from typing import Final

from scheduler.api.objects import ENDED_PHASES, Pod, PodCondition
from scheduler.api.pod_failures import vnpu_failure
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
    if pod.metadata.deletion_timestamp is not None or vnpu_failure(pod):
        return True
    return pod.status.phase in ENDED_PHASES and any(
        condition.reason == BY_POD_GC and _is_disruption(condition) for condition in pod.status.conditions or ()
    )


def was_evicted(pod: Pod) -> bool:
    """Whether a Pod is being evicted, or ended because of it. ``pod``: its last version.

    False for a Pod that is not being deleted, and for one that had ended before its deletion was requested: its
    containers had clearly finished, or its phase said so: the API server gives no grace period to a Pod that has ended.
    """
    if vnpu_failure(pod):
        return True
    meta = pod.metadata
    disruption = next((each for each in pod.status.conditions or () if _is_eviction(each)), None)
    if meta.deletion_timestamp is None and disruption is None:
        return False
    if pod.status.phase not in ENDED_PHASES:
        return meta.deletion_timestamp is not None
    states = [status.state for status in pod.status.container_statuses or ()]
    finished = [state.terminated.finished_at if state and state.terminated else None for state in states]
    grace = meta.deletion_grace_period_seconds
    deleted_at = parse_timestamp(meta.deletion_timestamp)
    requests = [] if deleted_at is None else [deleted_at - (grace or 0)]
    if disruption is not None:
        requests.append(parse_timestamp(disruption.last_transition_time) or 0.0)
    ends = [parse_timestamp(text) for text in finished]
    known = [end for end in ends if end is not None]
    if not requests or not known or len(known) < len(ends):  # it is not known when the last container finished
        return disruption is not None or grace != 0
    return max(known) >= min(requests) - CLOCK_SKEW


def _is_eviction(condition: PodCondition) -> bool:
    """Whether a condition says that the eviction of its Pod has begun."""
    return _is_disruption(condition) and condition.reason != _BY_KUBELET


def _is_disruption(condition: PodCondition) -> bool:
    return condition.type == DISRUPTION_TARGET and condition.status == "True"
