"""Nodes in the order of their scores, for repeated queries: sorted again only when many scores have changed."""

import heapq
from collections.abc import Iterator

import numpy as np

from scheduler.api.node import Column, Mask, Rows
from scheduler.framework.cached_column import CachedColumn, CandidateNodes

MANY = 64
"""Changes that are sorted in one by one."""
FEW = 16
"""Nodes looked at first: mostly the best will do."""


class Ranking:
    """The nodes looked at, the highest score first, of equal ones the lower row."""

    def __init__(self, candidates: CandidateNodes, score: CachedColumn[np.float64]) -> None:
        self._candidates = candidates
        self._score = score
        self._order: Rows | None = None
        """Positions as they were sorted last."""
        self._keys: Column = np.empty(0)
        """Their scores then, as keys: the lower, the better."""
        self._changed: Mask = np.zeros(len(candidates.rows), dtype=bool)
        """Whose score may be another since."""
        self._seen = 0

    def among(self, chosen: Mask) -> Iterator[int]:
        """The positions of a mask, shape (nodes looked at,), in order of the scores of now."""
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
    """The keys and positions of a mask, in order."""
    start, number = 0, FEW
    while start < len(order):
        part = slice(start, start + number)
        here = chosen[order[part]]
        yield from zip(keys[part][here].tolist(), order[part][here].tolist(), strict=True)
        start, number = start + number, 2 * number
