"""The problems of watched objects. Each is reported once; an object that cannot be decoded is known by its metadata."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import Kind
from scheduler.api.reasons import Malformed
from scheduler.cluster.decoding import DECODE_ERRORS, decode

Key = tuple[str, str]
"""Namespace and name of an object."""
Report = Callable[[Malformed, ObjectRef], None]
"""Receives a problem, and the object for its Event."""


class Identity(NamedTuple):
    """Which object and which version of it something is. A part that is missing, or is no text, is ""."""

    key: Key
    uid: str
    version: str


class _Named(msgspec.Struct):
    metadata: dict[str, Any] = {}


_named = msgspec.json.Decoder(_Named)


def identity_of(raw: msgspec.Raw) -> Identity:
    """Reads the identity of an object that may be malformed."""
    try:
        metadata = decode(_named, raw).metadata
    except DECODE_ERRORS:
        metadata = {}
    names = ("namespace", "name", "uid", "resourceVersion")
    namespace, name, uid, version = (text if isinstance(text := metadata.get(key), str) else "" for key in names)
    return Identity((namespace, name), uid, version)


class ProblemReports:
    """The reports about the objects of one kind."""

    def __init__(self, kind: Kind, report: Report) -> None:
        self._kind = kind
        self._report = report
        self.reported: dict[Key, str] = {}
        """The last problem reported for each object."""

    def report(self, key: Key, uid: str, field: str, problem: str) -> None:
        """Reports a problem, unless it was the last one reported for the object."""
        if self.reported.get(key) == f"{field}: {problem}":
            return
        self.reported[key] = f"{field}: {problem}"
        kind = self._kind
        self._report(Malformed(kind.name, *key, field, problem), ObjectRef(kind.api_version, kind.name, *key, uid))

    def forget(self, key: Key) -> None:
        """Forgets the problem of an object that was deleted, or has a good version now."""
        self.reported.pop(key, None)
