"""The Events of a cluster in memory: equal ones are counted."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from scheduler.api.decisions import EventPost
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cluster.memory.server import stamp

_Key = tuple[str, str, str, str, str, str]


class _Told(msgspec.Struct, frozen=True, gc=False):
    """An Event, and how often it was posted."""

    event: EventPost
    component: str
    first: datetime
    last: datetime
    count: int = 1


class EventLog:
    def __init__(self) -> None:
        self._events: dict[_Key, _Told] = {}

    def objects(self) -> list[dict[str, Any]]:
        """As core v1 Events."""
        return [_object(key, told) for key, told in self._events.items()]

    def post(self, event: EventPost, component: str, moment: datetime) -> bool:
        """Post an Event, or count an equal one once more; whether it is new."""
        about = event.about
        key = (about.kind, about.namespace, about.name, event.type, event.reason, event.message)
        known = self._events.get(key)
        if known is not None:
            self._events[key] = msgspec.structs.replace(known, count=known.count + 1, last=moment)
            return False
        self._events[key] = _Told(event, component, moment, moment)
        return True


def _object(key: _Key, told: _Told) -> dict[str, Any]:
    event, about = told.event, told.event.about
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name}.{digest}", "namespace": about.namespace or DEFAULT_NAMESPACE},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            **({"namespace": about.namespace} if about.namespace else {}),
            **({"uid": about.uid} if about.uid else {}),
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": told.count,
        "firstTimestamp": stamp(told.first),
        "lastTimestamp": stamp(told.last),
        "source": {"component": told.component},
    }
