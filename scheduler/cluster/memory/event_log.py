"""The Events of a cluster in memory; equal Events are counted."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.kinds import api_version_of
from scheduler.api.names import DEFAULT_NAMESPACE, EVENT_WARNING
from scheduler.api.reasons import Malformed
from scheduler.cluster.memory.raw_objects import format_time

_Key = tuple[str, str, str, str, str, str]


class _RecordedEvent(msgspec.Struct, frozen=True, gc=False):
    """An Event with the times and the number of its occurrences."""

    event: EventRecord
    component: str
    first: datetime
    last: datetime
    count: int = 1


class EventLog:
    """The Events of one cluster."""

    def __init__(self) -> None:
        self._events: dict[_Key, _RecordedEvent] = {}

    def objects(self) -> list[dict[str, Any]]:
        """The Events as core/v1 objects."""
        return [_object(key, recorded) for key, recorded in self._events.items()]

    def record(self, event: EventRecord, component: str, time: datetime) -> bool:
        """Records an Event, or counts an equal one again. Returns whether it is new."""
        about = event.about
        key = (about.kind, about.namespace, about.name, event.type, event.reason, event.message)
        known = self._events.get(key)
        if known is not None:
            self._events[key] = msgspec.structs.replace(known, count=known.count + 1, last=time)
            return False
        self._events[key] = _RecordedEvent(event, component, time, time)
        return True


def malformed_event(problem: Malformed) -> EventRecord:
    """The Event about a field that was set aside."""
    ref = ObjectRef(api_version_of(problem.kind), problem.kind, problem.namespace, problem.name)
    return EventRecord(ref, EVENT_WARNING, problem.reason, problem.message)


def _object(key: _Key, recorded: _RecordedEvent) -> dict[str, Any]:
    event, about = recorded.event, recorded.event.about
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
        "count": recorded.count,
        "firstTimestamp": format_time(recorded.first),
        "lastTimestamp": format_time(recorded.last),
        "source": {"component": recorded.component},
    }
