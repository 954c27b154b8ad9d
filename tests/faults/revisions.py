"""The history of a cluster, as etcd keeps it: every version of every object, in the order in which they were written.

etcd serves its API as JSON over HTTP as well. A watch from an earlier revision returns all changes since, unless they
were compacted, and the API server must store objects as JSON: see `OPTIONS`.
"""

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

OPTIONS: Final = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
"""Options of an API server whose whole history can be read."""
_END: Final = "/faults/end"
"""A key that is written at the end of a history; it lies between those of the API server and the end of the range."""
KINDS: Final = {
    "pods": "Pod",
    "minions": "Node",
    "scheduling.volcano.sh/podgroups": "PodGroup",
    "scheduling.volcano.sh/queues": "Queue",
    "batch.volcano.sh/jobs": "Job",
}
"""The kinds that a history contains, by their place below ``/registry/``."""


class Change(NamedTuple):
    """One version of an object."""

    revision: int
    kind: str
    name: str
    """``namespace/name``, or the name of an object without a namespace."""
    object: dict[str, Any] | None
    """None: it was removed."""


class CompactedError(Exception):
    """etcd has dropped a part of the history."""


class Etcd:
    """The etcd of a control plane."""

    def __init__(self, port: int) -> None:
        """``port``: of its client URL on 127.0.0.1."""
        self._port = port

    def revision(self) -> int:
        """Writes a key, and returns the revision that this makes."""
        body = {"key": _encoded(_END), "value": _encoded("")}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("POST", "/v3/kv/put", json.dumps(body))
            return int(json.load(connection.getresponse())["header"]["revision"])
        finally:
            connection.close()

    def changes(self, since: int) -> list[Change]:
        """All changes from a revision until now. Raises CompactedError."""
        end = self.revision()
        changes = []
        for event in self._events(since):
            kv = event["kv"]
            revision = int(kv["mod_revision"])
            if revision >= end:
                break
            change = _change(revision, kv, removed=event.get("type") == "DELETE")
            if change is not None:
                changes.append(change)
        return changes

    def _events(self, since: int) -> Iterator[dict[str, Any]]:
        """All changes of all keys from a revision on, without end."""
        request = {"key": _encoded("/"), "range_end": _encoded("0"), "start_revision": str(since), "fragment": True}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": request}))
            response = connection.getresponse()
            while line := response.readline():
                result = json.loads(line)["result"]
                if result.get("canceled"):
                    raise CompactedError(result.get("cancel_reason") or f"compacted at {result['compact_revision']}")
                yield from result.get("events", ())
        finally:
            connection.close()


def _change(revision: int, kv: dict[str, str], *, removed: bool) -> Change | None:
    place, _, rest = _decoded(kv["key"]).decode().removeprefix("/registry/").partition("/")
    if place not in KINDS:
        second, _, rest = rest.partition("/")
        place = f"{place}/{second}"
    kind = KINDS.get(place)
    if kind is None:
        return None
    value = None if removed else json.loads(_decoded(kv["value"]))
    return Change(revision, kind, rest, value)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
