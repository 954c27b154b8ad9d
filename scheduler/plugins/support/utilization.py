"""Scores nodes by utilization, the fractions of resources that are used once a task is on the node.

``UtilizationScore`` is the formula of Volcano's binpack and resource-strategy-fit. LeastAllocated, MostAllocated and
BalancedAllocation are those of kube-scheduler 1.36, whose results are truncated where Go's integer arithmetic
truncates, so that the same nodes have equal scores.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import CPU, MEMORY, NVIDIA_GPU
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope

FULL = 100
_PAIR = (CPU_INDEX, MEMORY_INDEX)


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


class _MeanUtilization:
    """The mean over cpu and memory of a score of the requested fraction of allocatable. Containers without a request
    count with kube-scheduler's default requests."""

    scope = Scope.NODE
    least: ClassVar[bool]

    def __init__(self, nodes: Nodes, cls: TaskClass, weight: int) -> None:
        self._nodes = nodes
        self._cls = cls
        self._weight = weight
        self.identity = (type(self), weight, cls.nonzero)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        more = 1 if ahead is None else ahead + 1
        total = np.zeros(len(rows))
        for i, d in enumerate(_PAIR):
            capacity = self._nodes.allocatable[d].take(rows)
            requested = np.trunc(self._nodes.nonzero[i].take(rows) + self._cls.nonzero[i] * more)
            total += self._score(requested, capacity)
        result: Column = np.floor(total / len(_PAIR)) * self._weight
        return result

    def _score(self, requested: Column, capacity: Column) -> Column:
        # Amounts are whole numbers, so rounding cannot raise a quotient to the next whole number.
        there = np.maximum(capacity, 1)
        if self.least:
            free = np.maximum(capacity - requested, 0)
            return np.where(capacity <= 0, 0, np.floor(free * FULL / there))
        return np.where(capacity <= 0, 0, np.floor(np.minimum(requested, capacity) * FULL / there))


class LeastAllocated(_MeanUtilization):
    """Prefers nodes with low utilization."""

    least = True


class MostAllocated(_MeanUtilization):
    """Prefers nodes with high utilization."""

    least = False


class BalancedAllocation:
    """Prefers nodes on which the task makes the utilization of cpu and memory, and of GPUs if requested, more balanced.
    A node whose balance does not change scores about 75."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, cls: TaskClass, weight: int, dimensions: Dimensions) -> None:
        self._nodes = nodes
        self._cls = cls
        self._weight = weight
        cards = dimensions.find(NVIDIA_GPU)
        self._dims = [*_PAIR] if cards is None or not cls.request[cards] else [*_PAIR, cards]
        self.identity = (type(self), weight, *cls.request[self._dims].tolist())

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        nodes = self._nodes
        before = np.zeros((len(self._dims), len(rows)))
        after, present = before.copy(), np.zeros((len(self._dims), len(rows)), dtype=bool)
        for i, d in enumerate(self._dims):
            capacity = nodes.allocatable[d].take(rows)
            used = nodes.used[d].take(rows) + nodes.pipelined[d].take(rows) - nodes.evicted[d].take(rows)
            request = self._cls.request[d]
            if ahead is not None:
                used = used + request * ahead
            present[i] = capacity > 0
            np.divide(used, capacity, out=before[i], where=present[i])
            np.divide(used + request, capacity, out=after[i], where=present[i])
        gain = _balance(after, present) - _balance(before, present)
        result: Column = np.trunc(FULL / 2 + np.trunc((FULL / 2 + gain) / 2)) * self._weight
        return result


def _balance(fractions: Column, present: NDArray[np.bool_]) -> Column:
    """Returns 100 less 100 x the standard deviation of the used fractions, which have shape (resources, nodes)."""
    np.minimum(fractions, 1, out=fractions)
    if len(fractions) == len(_PAIR):
        spread = np.where(present.all(axis=0), np.abs(fractions[0] - fractions[1]) / 2, 0.0)
    else:
        known = np.maximum(present.sum(axis=0), 1)
        mean = fractions.sum(axis=0) / known
        spread = np.sqrt((np.where(present, fractions - mean, 0.0) ** 2).sum(axis=0) / known)
    balance: Column = np.trunc((1 - spread) * FULL)
    return balance
