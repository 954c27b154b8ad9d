"""The candidate nodes of a class: columns over them, and their order by score.

Both follow the session's log: a read recomputes, or sorts again, only what changed since the last read. A column that
is not read is never computed.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Mask, Nodes, Rows

V = TypeVar("V", bound=np.generic)
MANY = 64
"""At most this number of changes is inserted one by one; more are sorted."""
FEW = 64
"""The number of nodes that are checked first: in most cases one of the best is chosen."""


class CandidateNodes:
    """The candidate nodes: some rows of the table, ascending."""

    def __init__(self, nodes: Nodes, rows: Rows) -> None:
        self.nodes = nodes
        self.rows = rows
        self.all: Rows = np.arange(len(rows))
        """The positions of all candidates."""

    def find(self, rows: Rows) -> Rows:
        """Returns the positions of the candidates among the rows (ascending)."""
        if len(self.rows) == len(self.nodes):
            return rows
        at = np.searchsorted(self.rows, rows)
        at = at[at < len(self.rows)]
        found: Rows = at[self.rows[at] == rows[: len(at)]]
        return found

    def changed(self, since: int) -> Rows:
        """Returns the positions of the candidates that changed since a position of the log."""
        fresh = self.nodes.log[since:]
        if len(fresh) >= len(self.rows):
            return self.all
        return self.find(np.array(sorted({row for row, _, _ in fresh}), dtype=np.intp))


class CachedColumn(Generic[V]):
    """One value per candidate node."""

    def __init__(self, candidates: CandidateNodes, compute: Callable[[Rows], NDArray[V]]) -> None:
        """``compute`` returns the current values at some positions."""
        self._candidates = candidates
        self._compute = compute
        self._column: NDArray[Any] | None = None
        self._stale: NDArray[np.bool_] = np.zeros(len(candidates.rows), dtype=bool)
        """Whether the value may have changed since it was computed."""
        self._seen = 0

    def read(self, at: Rows | None = None) -> NDArray[V]:
        """Returns the column, or its values at some positions. Callers must not change it; it is valid until the next
        placement."""
        length = len(self._candidates.nodes.log)
        if self._column is None:
            self._column = self._compute(self._candidates.all)
        elif self._seen != length:
            self._stale[self._candidates.changed(self._seen)] = True
        self._seen = length
        stale = np.flatnonzero(self._stale) if at is None else at[self._stale[at]]
        if len(stale):
            self._column[stale] = self._compute(stale)
            self._stale[stale] = False
        return self._column if at is None else self._column[at]


class ScoreOrder:
    """The candidate nodes, the highest score first; among equal scores, the lower row."""

    def __init__(self, candidates: CandidateNodes, score: CachedColumn[np.float64]) -> None:
        self._candidates = candidates
        self._score = score
        self._order: Rows | None = None
        """The positions in the order of the last sort."""
        self._keys: Column = np.empty(0)
        """Keys of their scores at that time; a lower key is better."""
        self._changed: Mask = np.zeros(len(candidates.rows), dtype=bool)
        """Whether the score may have changed since."""
        self._seen = 0

    def among(self, chosen: Mask) -> Iterator[int]:
        """Yields the positions of a mask, shape (candidate nodes,), in the order of the current scores."""
        self._changed[self._candidates.changed(self._seen)] = True
        self._seen = len(self._candidates.nodes.log)
        if self._order is None or np.count_nonzero(self._changed) > MANY:
            keys = -self._score.read()
            self._order = np.argsort(keys, kind="stable")
            self._keys = keys[self._order]
            self._changed[:] = False
        ranked = _lazily(self._order, self._keys, chosen & ~self._changed)
        changed = np.flatnonzero(chosen & self._changed)
        if len(changed):
            keys = -self._score.read(changed)
            order = np.argsort(keys, kind="stable")
            ranked = heapq.merge(ranked, zip(keys[order].tolist(), changed[order].tolist(), strict=True))
        return (position for _, position in ranked)


def _lazily(order: Rows, keys: Column, chosen: Mask) -> Iterator[tuple[float, int]]:
    """Yields the keys and positions of a mask, in order."""
    start, number = 0, FEW
    while start < len(order):
        part = slice(start, start + number)
        here = chosen[order[part]]
        yield from zip(keys[part][here].tolist(), order[part][here].tolist(), strict=True)
        start, number = start + number, 4 * number
