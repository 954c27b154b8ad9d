"""Scores by how full a node would be: LeastAllocated, MostAllocated, BalancedAllocation of kube-scheduler 1.36.

Integer arithmetic is cut off where Go's is, so that ties are the same ties.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope

FULL = 100
GPU = "nvidia.com/gpu"
_PAIR = (CPU_INDEX, MEMORY_INDEX)


class _Utilisation:
    """Mean over cpu and memory of a score of what would be requested of what there is; requests count with
    kube-scheduler's defaults where a container names none."""

    scope = Scope.NODE
    least: ClassVar[bool]

    def __init__(self, nodes: Nodes, cls: TaskClass, weight: int) -> None:
        self._nodes = nodes
        self._cls = cls
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        more = 1 if ahead is None else ahead + 1
        total = np.zeros(len(rows), dtype=np.int64)
        for i, d in enumerate(_PAIR):
            capacity = self._nodes.allocatable[d, rows].astype(np.int64)
            wanted = (self._nodes.nonzero[i, rows] + self._cls.nonzero[i] * more).astype(np.int64)
            total += self._score(wanted, capacity)
        result: Column = (total // len(_PAIR) * self._weight).astype(np.float64)
        return result

    def _score(self, wanted: NDArray[np.int64], capacity: NDArray[np.int64]) -> NDArray[np.int64]:
        there = np.maximum(capacity, 1)
        if self.least:
            score = (capacity - wanted) * FULL // there
            return np.where((capacity <= 0) | (wanted > capacity), 0, score)
        return np.where(capacity <= 0, 0, np.minimum(wanted, capacity) * FULL // there)


class LeastScore(_Utilisation):
    """The emptier, the better."""

    least = True


class MostScore(_Utilisation):
    """The fuller, the better."""

    least = False


class BalancedScore:
    """How much more (or less) even the use of cpu and memory, and of cards where asked for, becomes: about 75 where it
    stays as it is."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, cls: TaskClass, weight: int, dimensions: Dimensions) -> None:
        self._nodes = nodes
        self._cls = cls
        self._weight = weight
        cards = dimensions.find(GPU)
        self._dims = [*_PAIR] if cards is None or not cls.request[cards] else [*_PAIR, cards]

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        more = np.zeros(len(rows)) if ahead is None else ahead.astype(np.float64)
        gain = self._evenness(rows, more + 1) - self._evenness(rows, more)
        result: Column = np.trunc(FULL / 2 + np.trunc((FULL / 2 + gain) / 2)) * self._weight
        return result

    def _evenness(self, rows: Rows, number: Column) -> Column:
        """100 less the spread of the fractions used, with ``number`` tasks of the class more on each node."""
        fractions = np.zeros((len(self._dims), len(rows)))
        present = np.zeros((len(self._dims), len(rows)), dtype=bool)
        for i, d in enumerate(self._dims):
            capacity = self._nodes.allocatable[d, rows]
            present[i] = capacity > 0
            used = self._nodes.used[d, rows] + self._cls.request[d] * number
            np.divide(used, capacity, out=fractions[i], where=present[i])
        np.minimum(fractions, 1, out=fractions)
        if len(self._dims) == len(_PAIR):
            spread = np.where(present.all(axis=0), np.abs(fractions[0] - fractions[1]) / 2, 0.0)
        else:
            known = np.maximum(present.sum(axis=0), 1)
            mean = fractions.sum(axis=0) / known
            spread = np.sqrt((np.where(present, fractions - mean, 0.0) ** 2).sum(axis=0) / known)
        evenness: Column = np.trunc((1 - spread) * FULL)
        return evenness
