"""Scores by what a Pod would rather have of a node: preferred labels, no soft taints. Images are in ``images``."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Column, NodeFacts, Rows
from scheduler.api.objects import Taint
from scheduler.api.task import TaskClass
from scheduler.api.tolerations import PREFER_NO_SCHEDULE, tolerates
from scheduler.framework.columns import Counts, Scope, Score, StaticScore
from scheduler.plugins.selectors import Complain, nodes_of_term

FULL = 100


class NormalisedScore:
    """Raw values scaled so that the largest among the candidates becomes 100 (``reverse``: so that it becomes 0)."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(self, raw: Column, weight: int, *, reverse: bool = False) -> None:
        self._raw = raw
        self._weight = weight
        self._reverse = reverse

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        raw = self._raw[rows]
        largest = raw.max() if len(raw) else 0
        scaled = np.floor(raw * FULL / largest) if largest > 0 else np.zeros(len(rows))
        result: Column = (FULL - scaled if self._reverse else scaled) * self._weight
        return result

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        return self.values(rows, None)

    def traits(self, rows: Rows) -> list[Column]:
        return [self._raw[rows]]

    def place(self, row: int, number: int) -> None:
        """Placements change nothing but the candidates."""


def node_affinity(facts: NodeFacts, cls: TaskClass, weight: int, complain: Complain) -> list[Score]:
    """The sum of the weights of the preferred terms that a node meets."""
    affinity = cls.affinity.node_affinity if cls.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    if not preferred:
        return []
    raw = np.zeros(len(facts))
    for term in preferred:
        raw += term.weight * nodes_of_term(facts, term.preference, complain)
    return _normalised(raw, weight)


def taint_toleration(facts: NodeFacts, cls: TaskClass, weight: int) -> list[Score]:
    """The number of PreferNoSchedule taints that are not tolerated; none is best."""
    tolerations = [t for t in cls.spec.tolerations or () if t.effect in ("", PREFER_NO_SCHEDULE)]

    def bad(taints: Iterable[tuple[str, str, str]]) -> int:
        return sum(
            effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, Taint(key=key, value=value, effect=effect))
            for key, value, effect in taints
        )

    per_set = np.array([bad(taints) for taints in facts.taint_sets], dtype=np.float64)
    if not per_set.any():
        return []
    return _normalised(per_set[facts.taint_codes], weight, reverse=True)


def _normalised(raw: Column, weight: int, *, reverse: bool = False) -> list[Score]:
    values = np.unique(raw)
    if len(values) < 2:
        return []
    score = NormalisedScore(raw, weight, reverse=reverse)
    if len(values) == 2 and values[0] >= 0:
        # Of two values the order is the same whatever the candidates: only where all have the same value does the
        # scale differ, and there it decides nothing.
        return [StaticScore(score.values(np.arange(len(raw)), None))]
    return [score]
