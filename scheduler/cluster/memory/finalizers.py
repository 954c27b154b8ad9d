"""Finalizers: a deleted object exists until they have been removed.

In a simulation nothing removes the finalizers of other programs, except a what-if change. Kubernetes' own controllers
are simulated, so their finalizers do not keep an object.
"""

from typing import Final

from scheduler.cluster.memory.raw_objects import Json

_SIMULATED: Final = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "foregroundDeletion",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "orphan",
    }
)


def keeps(raw: Json) -> bool:
    """Whether a finalizer keeps the object when it is deleted."""
    finalizers = raw["metadata"].get("finalizers")
    return isinstance(finalizers, list) and not _SIMULATED.issuperset(map(str, finalizers))


def ends_now(raw: Json) -> bool:
    """Whether an object that is being deleted ends with its last finalizer: all but Pods that a kubelet still runs."""
    meta = raw["metadata"]
    if not meta.get("deletionTimestamp") or keeps(raw):
        return False
    return not (raw.get("spec") or {}).get("nodeName") or meta.get("deletionGracePeriodSeconds") == 0
