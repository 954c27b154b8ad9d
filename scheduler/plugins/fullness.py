"""How full a node would be, resource by resource (Volcano's binpack and resource-strategy-fit)."""

from collections.abc import Mapping

import numpy as np

from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope


class FullnessScore:
    """Sum over resources of weight x the part of each that is taken, or left, with a task of the class there, over the
    sum of weights, x ``scale``; 0 on a node where any of them would not fit."""

    scope = Scope.NODE

    def __init__(
        self, nodes: Nodes, cls: TaskClass, taken: Mapping[int, int], left: Mapping[int, int], scale: float
    ) -> None:
        """``taken``, ``left``: position of a resource -> its weight."""
        self._nodes = nodes
        self._request = cls.request
        self._weights = {**taken, **left}
        self._left = left
        self._scale = scale / (sum(self._weights.values()) or 1)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        nodes, request = self._nodes, self._request
        total: Column = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=bool)
        for d, weight in self._weights.items():
            if weight:
                taken = nodes.used[d, rows] + (request[d] if ahead is None else request[d] * (ahead + 1))
                allocatable = nodes.allocatable[d, rows]
                there = allocatable > 0
                fits &= ~there | (taken <= allocatable)
                part = allocatable - taken if d in self._left else taken
                total += np.divide(part * weight, allocatable, out=np.zeros(len(rows)), where=there)
        total *= self._scale
        total[~fits] = 0.0
        return total
