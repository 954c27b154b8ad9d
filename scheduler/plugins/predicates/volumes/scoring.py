"""How good a node is for the unbound claims of a Pod, by how full its volumes would be.

Of each storage class, what the claims ask for is compared with the volumes that they would get on the node, or, where
none is there, with what is left to make them of. ``volumebinding.shape`` says what a share is worth; without it, nodes
are not told apart (in Kubernetes a feature gate, off by default, has to be on as well).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Rows
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.predicates.volumes.claims import Wanted
from scheduler.plugins.predicates.volumes.plan import Plan

SHAPE, WEIGHT = "volumebinding.shape", "volumebinding.weight"
FULL = 100
"""Utilization is told in per cent."""
SCALE = 10
"""Scores of a shape are from 0 to 10, those of nodes from 0 to 100."""
Worth = NDArray[np.float64]
"""Shape (101,): the score of a utilization, weighed."""


def worth_of(arguments: Arguments) -> Worth | None:
    """What each utilization is worth; None: nothing is said of it."""
    weight = arguments.integer(WEIGHT, 1)
    given = arguments.get(SHAPE)
    points = None if given is None else _points(given)
    if points is None:
        return None if given is None else arguments.aside(SHAPE, given, "no shape of rising utilizations", None)
    at, scores = zip(*points, strict=True)
    return np.array([_between(percent, at, scores) * weight for percent in range(FULL + 1)], dtype=np.float64)


def _points(given: Any) -> list[tuple[int, int]] | None:
    """(utilization, score), or None if it is no shape."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(point, Mapping) for point in given):
        return None
    points = [(point.get("utilization", 0), point.get("score", 0)) for point in given]
    sound = all(
        type(at) is int and type(score) is int and 0 <= at <= FULL and 0 <= score <= SCALE for at, score in points
    )
    rising = all(left[0] < right[0] for left, right in pairwise(points))
    return [(at, score * SCALE) for at, score in points] if sound and rising else None


def _between(percent: int, at: Sequence[int], scores: Sequence[int]) -> int:
    """The score on the line between two points, in whole numbers as Kubernetes computes it."""
    for i, known in enumerate(at):
        if percent <= known:
            if not i:
                return scores[0]
            rise = (scores[i] - scores[i - 1]) * (percent - at[i - 1])
            return scores[i - 1] + int(rise / (known - at[i - 1]))
    return scores[-1]


class CapacityScore:
    """The score of nodes for Pods whose claims ask for the same."""

    scope = Scope.CLUSTER

    def __init__(
        self,
        plan: Callable[[], Plan],
        wanted: Sequence[Wanted],
        left: Callable[[Wanted], Column | None],
        worth: Worth,
    ) -> None:
        """``left``: bytes that a volume could be made of, per node (0: nobody says); None: nobody says anywhere."""
        self._plan = plan
        self._wanted = wanted
        self._left = left
        self._worth = worth

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        plan = self._plan()
        there, sizes = plan.sizes(rows)
        any_there = there.any(axis=0)
        total: Column = np.zeros(len(rows))
        classes = np.zeros(len(rows))
        for name in dict.fromkeys(wanted.storage_class for wanted in self._wanted):
            asked, capacity = np.zeros(len(rows)), np.zeros(len(rows))
            for number, wanted in enumerate(self._wanted):
                if wanted.storage_class != name:
                    continue
                asked += np.where(there[number], wanted.size, 0)
                capacity += np.where(there[number], sizes[number], 0)
                left = self._left(wanted)
                if left is not None:
                    made = ~any_there & (left[rows] > 0)
                    asked += np.where(made, wanted.size, 0)
                    capacity = np.where(made, left[rows], capacity)
            counted = capacity > 0
            share = np.where(counted & (asked <= capacity), asked * FULL // np.maximum(capacity, 1), FULL)
            total += np.where(counted, self._worth[share.astype(np.intp)], 0)
            classes += counted
        score: Column = np.floor(total / np.maximum(classes, 1) + 0.5)
        return score
