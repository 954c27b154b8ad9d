"""What Pods will use that the measurements do not show yet: they have only just been placed.

A Pod is taken to use a part of what it asks for, and a part of what its limit allows beyond that; more on a node that
is busy anyway. Estimates are whole milli-cores and bytes, so that undoing a placement restores every number exactly.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX
from scheduler.api.task import TaskClass
from scheduler.api.usage import UsageColumns
from scheduler.plugins.usage.limits import Pair, pod_limits

PAIR = [CPU_INDEX, MEMORY_INDEX]


def _best_effort() -> Pair:
    return np.array([250.0, 200.0 * 1024 * 1024])


@dataclass(frozen=True, slots=True)
class Rates:
    """How much of what a Pod asks for and may have it is taken to use."""

    request: float = 0.7
    burst: float = 0.0
    """Of what the limit allows beyond the request."""
    risk_threshold: float = 0.6
    """Load of a node (0 to 1) from which on estimates are multiplied by ``risk``."""
    risk: float = 1.2
    best_effort: Pair = field(default_factory=_best_effort)
    """Of a Pod that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a Pod of one class will use; each of shape (2,)."""

    usual: Pair
    most: Pair


@dataclass(frozen=True, slots=True)
class Weights:
    """How much cpu and memory count against each other."""

    cpu: int = 1
    memory: int = 1

    def mean(self, pair: Column) -> Column:
        """The weighted mean over the first axis, which is cpu and memory; 0 if neither counts."""
        total = self.cpu + self.memory
        if not total:
            return np.zeros(pair.shape[1:])
        mean: Column = (pair[0] * self.cpu + pair[1] * self.memory) / total
        return mean


class ShadowLoad:
    """Measured and expected load of all nodes."""

    def __init__(self, nodes: Nodes, usage: UsageColumns | None, rates: Rates, weights: Weights) -> None:
        self._rates = rates
        self._weights = weights
        self._capacity: Column = nodes.capacity[PAIR]
        measured = np.zeros((2, len(nodes))) if usage is None else np.stack([usage.cpu, usage.memory])
        self._measured: Column = measured / 100.0 * self._capacity
        self._expected: Column = np.zeros((2, len(nodes)))
        self._estimates: dict[int, Estimate] = {}

    def of(self, rows: Rows, expected: Column | None = None) -> Column:
        """Shape (2, rows): how much of cpu and memory is in use, 0 to 1. ``expected``: another expectation than now."""
        capacity = self._capacity[:, rows]
        busy = self._measured[:, rows] + (self._expected[:, rows] if expected is None else expected)
        return np.clip(np.divide(busy, capacity, out=np.zeros(busy.shape), where=capacity > 0), 0.0, 1.0)

    def ahead(self, rows: Rows, number: NDArray[np.int64], cls: TaskClass) -> Column:
        """``of``, as it would be with ``number`` more tasks of the class on each row, placed one after the other."""
        distinct, place = np.unique(rows, return_inverse=True)
        expected = self._expected[:, distinct]
        steps = [expected]
        for _ in range(int(number.max(initial=0))):
            expected = expected + self._added(distinct, expected, cls)
            steps.append(expected)
        return self.of(rows, np.stack(steps)[number, :, place].T)

    def add(self, row: int, cls: TaskClass) -> Pair:
        """A task is there now; what was added for it."""
        rows = np.array([row])
        added: Pair = self._added(rows, self._expected[:, rows], cls)[:, 0]
        self.change(row, added)
        return added

    def change(self, row: int, amounts: Pair) -> None:
        self._expected[:, row] += amounts

    def _added(self, rows: Rows, expected: Column, cls: TaskClass) -> Column:
        """Shape (2, rows): what one more task of the class is taken to use on each row."""
        estimate = self._estimates.get(cls.id)
        if estimate is None:
            estimate = self._estimates[cls.id] = estimate_of(cls, self._rates)
        busy = self._weights.mean(self.of(rows, expected)) >= self._rates.risk_threshold
        factor = np.where(busy, self._rates.risk, 1.0)
        added: Column = np.rint(np.minimum(estimate.usual[:, np.newaxis] * factor, estimate.most[:, np.newaxis]))
        return added


def estimate_of(cls: TaskClass, rates: Rates) -> Estimate:
    """No more than its limit, or its request where that is greater; a Pod that asks for nothing knows no limit."""
    if cls.best_effort:
        return Estimate(rates.best_effort, np.full(2, np.inf))
    request = cls.request[PAIR]
    most = np.maximum(pod_limits(cls.spec), request)
    return Estimate(request * rates.request + (most - request) * rates.burst, most)
