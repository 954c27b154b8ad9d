"""Objects as the API server stores them: dictionaries of JSON, and what is read from and written to them."""

import copy
from datetime import datetime
from functools import lru_cache
from typing import Any

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
