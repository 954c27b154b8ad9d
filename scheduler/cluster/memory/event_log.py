"""The Events of a cluster in memory: equal ones are counted."""

import hashlib
from datetime import datetime
from typing import Any

from scheduler.api.decisions import EventPost
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cluster.memory.server import stamp


class EventLog:
    def __init__(self) -> None:
        self._events: dict[tuple[object, ...], dict[str, Any]] = {}

    def objects(self) -> list[dict[str, Any]]:
        """As core v1 Events."""
        return list(self._events.values())

    def post(self, event: EventPost, component: str, moment: datetime) -> bool:
        """Post an Event, or count an equal one once more; whether it is new."""
        about = event.about
        key = (about.kind, about.namespace, about.name, event.type, event.reason, event.message)
        known = self._events.get(key)
        if known is not None:
            known["count"] += 1
            known["lastTimestamp"] = stamp(moment)
            return False
        digest = hashlib.sha256("\0".join(map(str, key)).encode()).hexdigest()[:16]
        self._events[key] = {
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
            "count": 1,
            "firstTimestamp": stamp(moment),
            "lastTimestamp": stamp(moment),
            "source": {"component": component},
        }
        return True
