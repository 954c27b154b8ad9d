"""Why a Pod waits that no session has considered, so that it has no condition with a reason."""

from collections.abc import Sequence
from typing import Any

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import EVENT_WARNING, GROUP_NAME, KUBE_SCHEDULER
from scheduler.api.suggestions import did_you_mean
from scheduler.cluster.memory import MemoryCluster

Raw = dict[str, Any]


def scheduler_of(pod: Raw) -> str:
    """The schedulerName of a Pod, with the API server's default."""
    return str(pod["spec"].get("schedulerName") or KUBE_SCHEDULER)


def other_scheduler(name: str, schedulers: Sequence[str]) -> str:
    """Why a Pod of another scheduler is left alone."""
    hint = did_you_mean(name, schedulers)
    return f"its schedulerName is {name}, and this scheduler answers to {', '.join(schedulers)}{hint}"


def why_unconsidered(cluster: MemoryCluster, pod: Raw, schedulers: Sequence[str], warnings: Sequence[Raw]) -> str:
    """Returns the reason of a waiting Pod without a PodScheduled condition. ``warnings``: the Events about it."""
    meta = pod["metadata"]
    if meta.get("deletionTimestamp"):
        return "it terminates"
    name = scheduler_of(pod)
    if name not in schedulers:
        return other_scheduler(name, schedulers)
    for event in warnings:
        if event["type"] == EVENT_WARNING:
            return str(event["message"])
    group = (meta.get("annotations") or {}).get(GROUP_NAME, "")
    stored = cluster.server.find(POD_GROUP, meta["namespace"], group) if group else None
    if group and stored is None:
        return f"its PodGroup {meta['namespace']}/{group} does not exist"
    conditions = ((stored or {}).get("status") or {}).get("conditions") or ()
    message = next((str(each.get("message") or "") for each in reversed(conditions)), "")
    return message or "no session has considered it"
