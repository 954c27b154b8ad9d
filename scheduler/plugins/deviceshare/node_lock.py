"""The node lock: device plugins allocate devices to one Pod of a node at a time.

The scheduler acquires the lock right before it binds the Pod. The lock is an annotation of the Node; its value is the
time of acquisition. The device plugin removes it after it has allocated the Pod's devices. A lock older than five
minutes has expired, as in Volcano. The fraction of the second identifies the Pod that owns the lock.
"""

import zlib
from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np

from scheduler.api.kinds import NODE
from scheduler.api.node import Rows
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.api.snapshot import Snapshot
from scheduler.api.times import format_timestamp, parse_timestamp
from scheduler.framework.columns import UNBOUNDED, Counts, Scope

EXPIRY: Final = 300.0
"""Seconds after which a lock expires."""
_FRACTIONS: Final = 999_999_999


class NodeLock(Preparation, frozen=True, kw_only=True):
    """Acquires the lock of a node for one Pod."""

    at_binding: ClassVar[bool] = True
    annotation: str
    suffix: str
    """The fraction of the second in the times that are written for this Pod."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        if found is None:
            return Fail(f"node {self.name} is gone")
        since = self._value(found)
        if since is None or (not since.endswith(self.suffix) and not locked(since, now)):
            return self._write(f"{format_timestamp(now).removesuffix('Z')}{self.suffix}")
        if since.endswith(self.suffix):
            return None
        return Wait(f"lock {self.annotation} of node {self.name}, taken at {since[:64]}, to be released")

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        since = self._value(found)
        return self._write(None) if since is not None and since.endswith(self.suffix) else None

    def _value(self, found: KubeObject) -> str | None:
        return (found.metadata.annotations or {}).get(self.annotation)

    def _write(self, value: str | None) -> PreparationPatch:
        return PreparationPatch({"metadata": {"annotations": {self.annotation: value}}})


def lock_for(node: str, annotation: str, uid: str) -> NodeLock:
    """Returns the preparation that locks a node for a Pod."""
    suffix = f".{zlib.crc32(uid.encode()) % _FRACTIONS + 1:09d}Z"
    return NodeLock(kind=NODE, namespace="", name=node, timeout=EXPIRY, annotation=annotation, suffix=suffix)


def locked(value: str, now: float) -> bool:
    """Whether a lock is still held. Other writers append the owner after a comma. A lock without a valid time is not
    held."""
    since = parse_timestamp(value.partition(",")[0])
    return since is not None and now - since <= EXPIRY


class LockFilter:
    """Passes nodes that are not locked. Pods of one session wait for each other's lock when they are bound."""

    scope = Scope.NODE
    """Locks do not change during a session, but they are temporary."""
    unresolvable = False

    def __init__(self, snapshot: Snapshot, rows: Iterable[int], annotation: str) -> None:
        """``rows``: the rows of nodes that can be locked."""
        nodes = snapshot.nodes
        self._annotation = annotation
        self._locked = np.zeros(len(nodes), dtype=bool)
        for row in rows:
            value = nodes.facts.annotations[row].get(annotation)
            self._locked[row] = value is not None and locked(value, snapshot.now)
        for bind in snapshot.preparing:
            row = nodes.index.get(bind.node, -1)
            if row >= 0 and any(isinstance(p, NodeLock) and p.annotation == annotation for p in bind.preparations):
                self._locked[row] = True

    def room(self, rows: Rows) -> Counts:
        return np.where(self._locked[rows], 0, UNBOUNDED)

    def future_room(self, rows: Rows) -> Counts:
        """Locks expire, so they do not limit the future room."""
        return np.full(len(rows), UNBOUNDED, dtype=np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((f"node(s) were locked by {self._annotation} while a Pod is given its devices", len(rows)),)
