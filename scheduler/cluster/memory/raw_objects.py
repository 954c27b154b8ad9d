"""Objects as the API server stores them: dictionaries of JSON, what is read from and written to them, and their
resourceVersions.

A simulation continues above the largest resourceVersion that was loaded: controllers compare the versions of an object,
and an older one never replaces a newer one. Nothing removes the finalizers of other programs in it, except a what-if
change. Kubernetes' own controllers are simulated, so their finalizers do not keep an object.
"""

import copy
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from scheduler.api.decisions import ObjectRef

Json = dict[str, Any]
_WRITABLE = ("metadata", "spec", "status")


@lru_cache(maxsize=16)  # most changes happen at the same simulated time
def format_time(time: datetime) -> str:
    """The time as RFC 3339."""
    return f"{time.isoformat(timespec='seconds')[:19]}Z"  # strftime takes ten times as long


def mutable_copy(raw: Json) -> Json:
    """Returns a copy of an object whose metadata, spec and status may be modified; their members are shared."""
    return {k: dict(v) if k in _WRITABLE and isinstance(v, dict) else v for k, v in raw.items()}


def controller_of(raw: Json) -> Json | None:
    """The owner reference of an object's controller."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if isinstance(owner, dict) and owner.get("controller")), None)


def owner_uids(raw: Json) -> list[str]:
    """The uids of the objects that own an object."""
    return [str(owner.get("uid")) for owner in raw["metadata"].get("ownerReferences") or () if isinstance(owner, dict)]


def set_condition(status: Json, type_: str, value: str, reason: str, message: str, since: str = "") -> bool:
    """Sets a Pod condition in a new list. Returns whether it changed. ``since``: the transition time if the status
    changes."""
    conditions = status["conditions"] = list(status.get("conditions") or ())
    new = {"type": type_, "status": value, **({"reason": reason} if reason else {})}
    if message:
        new["message"] = message
    if since:
        new["lastTransitionTime"] = since
    for i, old in enumerate(conditions):
        if isinstance(old, dict) and old.get("type") == type_:
            if old.get("status") == value and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = new
            return bool(old != new)
    conditions.append(new)
    return True


def merged(target: Any, patch: Json) -> Json:
    """Applies a JSON merge patch (RFC 7386)."""
    result: Json = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def ref_of(raw: Json) -> ObjectRef:
    """A reference to an object, for Events."""
    meta = raw["metadata"]
    return ObjectRef(raw["apiVersion"], raw["kind"], meta.get("namespace") or "", meta["name"], meta.get("uid") or "")


_MAX_DIGITS: Final = 39
"""Digits of the largest resourceVersion, which has 128 bits at most."""


class ResourceVersions:
    """Counts the versions of all objects, as etcd does."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, metadata: Json) -> None:
        """Takes up the version of a loaded object. Replaces one that is absent or no number by the next version: such
        versions cannot be compared."""
        version = metadata.get("resourceVersion")
        if isinstance(version, str) and version.isascii() and version.isdecimal() and len(version) <= _MAX_DIGITS:
            self._last = max(self._last, int(version))
        else:
            metadata["resourceVersion"] = self.next()

    def next(self) -> str:
        """Returns the version of an object that is written now."""
        self._last += 1
        return str(self._last)


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
