"""One Pod at a time is given its devices on a node: a lock, taken right before the Pod is bound.

The lock is an annotation of the Node whose value is the time when it was taken. The device plugin takes it away when
the Pod has its devices. A lock that nobody took away in five minutes is taken over, as in Volcano. Whose a lock is can
be told by the fraction of its second.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from scheduler.api.kinds import NODE
from scheduler.api.moment import format_moment, parse_moment
from scheduler.api.node import Rows
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fails, Patch, Preparation, Step, Waits
from scheduler.api.snapshot import Snapshot
from scheduler.framework.columns import UNBOUNDED, Counts, Scope

EXPIRY: Final = 300.0
"""Seconds after which a lock is nobody's."""
_FRACTIONS: Final = 999_999_999


@dataclass(frozen=True, kw_only=True)
class NodeLock(Preparation):
    """The lock of a node, taken for one Pod."""

    at_binding: ClassVar[bool] = True
    annotation: str
    mark: str
    """The end of the times that this Pod writes."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        if found is None:
            return Fails(f"node {self.name} is gone")
        since = self._since(found)
        if since is None or (not since.endswith(self.mark) and not locked(since, now)):
            return self._write(f"{format_moment(now).removesuffix('Z')}{self.mark}")
        if since.endswith(self.mark):
            return None
        return Waits(f"lock {self.annotation} of node {self.name}, taken at {since[:64]}, to be released")

    def undo(self, found: KubeObject, now: float) -> Patch | None:
        since = self._since(found)
        return self._write(None) if since is not None and since.endswith(self.mark) else None

    def _since(self, found: KubeObject) -> str | None:
        return (found.metadata.annotations or {}).get(self.annotation)

    def _write(self, value: str | None) -> Patch:
        return Patch({"metadata": {"annotations": {self.annotation: value}}})


def lock_for(node: str, annotation: str, uid: str) -> NodeLock:
    """The lock of a node for a Pod."""
    mark = f".{zlib.crc32(uid.encode()) % _FRACTIONS + 1:09d}Z"
    return NodeLock(kind=NODE, namespace="", name=node, timeout=EXPIRY, annotation=annotation, mark=mark)


def locked(value: str, now: float) -> bool:
    """Whether a lock still holds. Some write whose it is behind the time; one whose time cannot be read is nobody's."""
    since = parse_moment(value.partition(",")[0])
    return since is not None and now - since <= EXPIRY


class LockFilter:
    """Nodes on which no Pod is being given its devices. Which of a session's own Pods goes first is settled when they
    are bound."""

    scope = Scope.NODE
    """Their state does not change in a session, but it will."""
    unresolvable = False

    def __init__(self, snapshot: Snapshot, rows: Iterable[int], annotation: str) -> None:
        """``rows``: of nodes that can be locked."""
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
        """Locks do not last."""
        return np.full(len(rows), UNBOUNDED, dtype=np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((f"node(s) were locked by {self._annotation} while a Pod is given its devices", len(rows)),)
