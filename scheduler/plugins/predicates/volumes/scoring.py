"""Scores nodes by the utilization of the volumes that the unbound claims of a Pod would get there.

For each storage class, the utilization is the requested bytes of its claims divided by the bytes of their volumes, or,
if no volume exists, by the free storage capacity. ``volumebinding.shape`` maps utilizations to scores; without it there
is no such score. (Kubernetes also requires a feature gate, which is off by default.)
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Rows
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.predicates.volumes.claims import ClaimRequest
from scheduler.plugins.predicates.volumes.plan import VolumePlan

SHAPE = "volumebinding.shape"
FULL = 100
"""Utilization is in percent."""
SCALE = 10
"""The shape has scores from 0 to 10; node scores are from 0 to 100."""
UtilizationScores = NDArray[np.float64]
"""Shape (101,): the weighted score of each utilization in percent."""


def read_utilization_scores(arguments: Arguments, weight: int) -> UtilizationScores | None:
    """Reads the argument SHAPE. None if the shape is invalid."""
    given = arguments[SHAPE]
    points = _parse_shape(given)
    if points is None:
        return arguments.set_aside(SHAPE, given, "no shape of rising utilizations", None)
    at, scores = zip(*points, strict=True)
    return np.array([_interpolate(percent, at, scores) * weight for percent in range(FULL + 1)], dtype=np.float64)


def _parse_shape(given: Any) -> list[tuple[int, int]] | None:
    """Returns (utilization, score) pairs, or None if the shape is invalid."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(point, Mapping) for point in given):
        return None
    points = [(point.get("utilization", 0), point.get("score", 0)) for point in given]
    valid = all(
        type(at) is int and type(score) is int and 0 <= at <= FULL and 0 <= score <= SCALE for at, score in points
    )
    rising = all(left[0] < right[0] for left, right in pairwise(points))
    return [(at, score * SCALE) for at, score in points] if valid and rising else None


def _interpolate(percent: int, at: Sequence[int], scores: Sequence[int]) -> int:
    """The score of a utilization by linear interpolation, in integer arithmetic as in Kubernetes."""
    for i, known in enumerate(at):
        if percent <= known:
            if not i:
                return scores[0]
            rise = (scores[i] - scores[i - 1]) * (percent - at[i - 1])
            return scores[i - 1] + int(rise / (known - at[i - 1]))
    return scores[-1]


class CapacityScore:
    """The score for Pods whose claims have the same requests."""

    scope = Scope.CLUSTER

    def __init__(
        self,
        plan: Callable[[], VolumePlan],
        requests: Sequence[ClaimRequest],
        free_capacity: Callable[[ClaimRequest], Column | None],
        utilization_scores: UtilizationScores,
    ) -> None:
        """``free_capacity``: the bytes of storage available to provision a volume for each node (``Provisioning``)."""
        self._plan = plan
        self._requests = requests
        self._free_capacity = free_capacity
        self._utilization_scores = utilization_scores

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        plan = self._plan()
        exists, sizes = plan.sizes(rows)
        any_exists = exists.any(axis=0)
        total: Column = np.zeros(len(rows))
        classes = np.zeros(len(rows))
        for name in dict.fromkeys(request.storage_class for request in self._requests):
            requested, capacity = np.zeros(len(rows)), np.zeros(len(rows))
            for number, request in enumerate(self._requests):
                if request.storage_class != name:
                    continue
                requested += np.where(exists[number], request.size, 0)
                capacity += np.where(exists[number], sizes[number], 0)
                free = self._free_capacity(request)
                if free is not None:
                    provisioned = ~any_exists & (free[rows] > 0)
                    requested += np.where(provisioned, request.size, 0)
                    capacity = np.where(provisioned, free[rows], capacity)
            counted = capacity > 0
            utilization = np.where(counted & (requested <= capacity), requested * FULL // np.maximum(capacity, 1), FULL)
            total += np.where(counted, self._utilization_scores[utilization.astype(np.intp)], 0)
            classes += counted
        score: Column = np.floor(total / np.maximum(classes, 1) + 0.5)
        return score
