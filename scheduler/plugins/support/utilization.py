"""Scores nodes by how much of each resource would be used (Volcano's binpack and resource-strategy-fit)."""

from collections.abc import Mapping

import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope


class UtilizationScore:
    """The weighted mean of the fractions of each resource that are used, or free, once a task of the class is on the
    node, times ``scale``; 0 on a node where any of the resources would not fit."""

    scope = Scope.NODE

    def __init__(
        self, nodes: Nodes, cls: TaskClass, used: Mapping[int, int], free: Mapping[int, int], scale: float
    ) -> None:
        """``used``, ``free``: index of a resource -> weight of its used, or free, fraction."""
        self._nodes = nodes
        self._request = cls.request
        self._weights = {**used, **free}
        self._free = free
        self._scale = scale / (sum(self._weights.values()) or 1)
        weighed = tuple((d, weight, d in free, float(cls.request[d])) for d, weight in self._weights.items())
        self.identity = (type(self), scale, weighed)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        nodes, request = self._nodes, self._request
        total: Column = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=bool)
        for d, weight in self._weights.items():
            if weight:
                used = nodes.used[d, rows] + (request[d] if ahead is None else request[d] * (ahead + 1))
                allocatable = nodes.allocatable[d, rows]
                present = allocatable > 0
                fits &= ~present | (used <= allocatable)
                scored = allocatable - used if d in self._free else used
                total += np.divide(scored * weight, allocatable, out=np.zeros(len(rows)), where=present)
        total *= self._scale
        total[~fits] = 0.0
        return total


def resource_weights(arguments: Arguments, prefix: str) -> dict[str, int]:
    """Returns resource -> weight, from the arguments ``<prefix>.cpu``, ``<prefix>.memory`` and
    ``<prefix>.resources.<name>`` for each name in ``<prefix>.resources`` ("a, b"). Each weight defaults to 1."""
    weights = {name: arguments.integer(f"{prefix}.{name}", 1, least=0) for name in (CPU, MEMORY)}
    for name in arguments.names(f"{prefix}.resources"):
        if name not in weights:
            weights[name] = arguments.integer(f"{prefix}.resources.{name}", 1, least=0)
    return weights
