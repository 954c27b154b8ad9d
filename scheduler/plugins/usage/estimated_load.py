"""The measured load of nodes plus the estimated usage of recently placed Pods, which the measurements do not include.

The estimate for a Pod is a part of its request plus a part of the difference between limit and request, and larger on
busy nodes. Estimates are integral milli-cores and bytes, so that undoing a placement restores the numbers exactly.
"""

from collections.abc import Callable, Mapping
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.objects import Container, PodSpec, Quantity
from scheduler.api.pod_amounts import effective_total
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, scale_of
from scheduler.api.task import TaskClass
from scheduler.api.usage import UsageColumns

PAIR = [CPU_INDEX, MEMORY_INDEX]
Pair = NDArray[np.float64]
"""cpu in milli-cores, memory in bytes."""


class Rates(msgspec.Struct, frozen=True):
    """The parameters of the estimator."""

    request: float = 0.7
    """Part of the request that a Pod is estimated to use."""
    burst: float = 0.0
    """Part of the difference between limit and request that a Pod is estimated to use."""
    risk_threshold: float = 0.6
    """Load of a node (0 to 1) at or above which estimates are multiplied by ``risk``."""
    risk: float = 1.2
    best_effort: Pair = msgspec.field(default_factory=lambda: np.array([250.0, 200.0 * 1024 * 1024]))
    """Estimate for a best-effort Pod."""


class Estimate(msgspec.Struct, frozen=True):
    """The estimate for a Pod of one class, and its limit; both have shape (2,)."""

    base: Pair
    limit: Pair


class Weights(msgspec.Struct, frozen=True):
    """The relative weights of cpu and memory."""

    cpu: int = 1
    memory: int = 1

    def mean(self, pair: Column) -> Column:
        """Returns the weighted mean over the first axis (cpu, memory); 0 if both weights are 0."""
        total = self.cpu + self.memory
        if not total:
            return np.zeros(pair.shape[1:])
        mean: Column = (pair[0] * self.cpu + pair[1] * self.memory) / total
        return mean


class EstimatedLoad:
    """Measured and estimated load of all nodes."""

    def __init__(self, nodes: Nodes, usage: UsageColumns | None, rates: Rates, weights: Weights) -> None:
        self._rates = rates
        self._weights = weights
        self._capacity: Column = nodes.capacity[PAIR]
        measured = np.zeros((2, len(nodes))) if usage is None else np.stack([usage.cpu, usage.memory])
        self._measured: Column = measured / 100.0 * self._capacity
        self._expected: Column = np.zeros((2, len(nodes)))
        self._estimate: Callable[[TaskClass], Estimate] = cache(lambda cls: estimate_of(cls, rates))

    def of(self, rows: Rows, expected: Column | None = None) -> Column:
        """Returns the load of cpu and memory, 0 to 1, shape (2, rows). ``expected``: estimated usage to use instead of
        the current one."""
        capacity = self._capacity[:, rows]
        busy = self._measured[:, rows] + (self._expected[:, rows] if expected is None else expected)
        return np.clip(np.divide(busy, capacity, out=np.zeros(busy.shape), where=capacity > 0), 0.0, 1.0)

    def ahead(self, rows: Rows, number: NDArray[np.int64], cls: TaskClass) -> Column:
        """Returns ``of`` after placing ``number`` more tasks of the class on each row, one after the other."""
        distinct, place = np.unique(rows, return_inverse=True)
        expected = self._expected[:, distinct]
        steps = [expected]
        for _ in range(int(number.max(initial=0))):
            expected = expected + self._added(distinct, expected, cls)
            steps.append(expected)
        return self.of(rows, np.stack(steps)[number, :, place].T)

    def add(self, row: int, cls: TaskClass) -> Pair:
        """Adds the estimate for one task on a node, and returns it."""
        rows = np.array([row])
        added: Pair = self._added(rows, self._expected[:, rows], cls)[:, 0]
        self.change(row, added)
        return added

    def change(self, row: int, amounts: Pair) -> None:
        self._expected[:, row] += amounts

    def _added(self, rows: Rows, expected: Column, cls: TaskClass) -> Column:
        """Returns the estimate for one more task of the class on each row, shape (2, rows)."""
        estimate = self._estimate(cls)
        busy = self._weights.mean(self.of(rows, expected)) >= self._rates.risk_threshold
        factor = np.where(busy, self._rates.risk, 1.0)
        added: Column = np.rint(np.minimum(estimate.base[:, np.newaxis] * factor, estimate.limit[:, np.newaxis]))
        return added


def estimate_of(cls: TaskClass, rates: Rates) -> Estimate:
    """Returns the estimate of a class: at most the limit, or the request if it is larger; unlimited for best-effort
    Pods."""
    if cls.best_effort:
        return Estimate(rates.best_effort, np.full(2, np.inf))
    request = cls.request[PAIR]
    limit = np.maximum(pod_limits(cls.spec), request)
    return Estimate(request * rates.request + (limit - request) * rates.burst, limit)


def pod_limits(spec: PodSpec) -> Pair:
    """Returns the limits of cpu and memory of a Pod, as Volcano's GetPodResourceLimit: the larger of the limits of the
    containers (with sidecars) and of each init container (with the sidecars started before it). Pod-level limits
    replace it; overhead is added to limited resources. 0 means no limit."""
    total = effective_total(spec.containers, spec.init_containers, _limits, np.zeros(2), np.add, np.maximum)
    level = _limits(spec)
    total = np.where(level > 0, level, total)
    return np.where(total > 0, total + _pair(spec.overhead), 0.0)


def _limits(of: Container | PodSpec) -> Pair:
    return _pair(of.resources.limits if of.resources is not None else None)


def _pair(amounts: Mapping[str, Quantity] | None) -> Pair:
    return np.array([_amount(amounts or {}, name) for name in (CPU, MEMORY)])


def _amount(amounts: Mapping[str, Quantity], name: str) -> float:
    """Returns an amount; 0 if it is missing or invalid."""
    try:
        return float(max(parse_quantity(amounts.get(name, 0), scale_of(name)), 0))
    except QuantityError:
        return 0.0
