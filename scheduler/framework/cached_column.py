"""Columns over some of the nodes that follow the session's log: what is read is up to date, and only what changed since
it was last read is computed again. A column that is not read is never computed.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Nodes, Rows

V = TypeVar("V", bound=np.generic)


class CandidateNodes:
    """The nodes that are looked at: some rows of the table, ascending."""

    def __init__(self, nodes: Nodes, rows: Rows) -> None:
        self.nodes = nodes
        self.rows = rows
        self.all: Rows = np.arange(len(rows))
        """The positions of all of them."""

    def find(self, rows: Rows) -> Rows:
        """The positions of those of the rows (ascending) that are looked at."""
        if len(self.rows) == len(self.nodes):
            return rows
        at = np.searchsorted(self.rows, rows)
        at = at[at < len(self.rows)]
        found: Rows = at[self.rows[at] == rows[: len(at)]]
        return found

    def changed(self, since: int) -> Rows:
        """The positions of those that changed since a moment of the log."""
        fresh = self.nodes.log[since:]
        if len(fresh) >= len(self.rows):
            return self.all
        return self.find(np.array(sorted({row for row, _, _ in fresh}), dtype=np.intp))


class CachedColumn(Generic[V]):
    """One value per node looked at."""

    def __init__(self, candidates: CandidateNodes, compute: Callable[[Rows], NDArray[V]]) -> None:
        """``compute``: the values at some positions, as things are now."""
        self._candidates = candidates
        self._compute = compute
        self._column: NDArray[Any] | None = None
        self._stale: NDArray[np.bool_] = np.zeros(len(candidates.rows), dtype=bool)
        """The values that may have changed since they were computed."""
        self._seen = 0

    def read(self, at: Rows | None = None) -> NDArray[V]:
        """The column, or its values at some positions; not to be changed, and good until something is placed."""
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
