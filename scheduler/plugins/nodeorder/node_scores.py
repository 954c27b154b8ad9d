"""Scores nodes by preferred node affinity and by PreferNoSchedule taints. ``images`` scores them by images."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Column, NodeFacts, Rows
from scheduler.api.objects import Taint
from scheduler.api.pod_rules import PREFER_NO_SCHEDULE, tolerates
from scheduler.api.selectors import FieldReporter, nodes_of_term
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope, Score, StaticScore

FULL = 100


class NormalizedScore:
    """Scales raw values so that the largest among the candidate nodes becomes 100 (``reverse``: becomes 0)."""

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
        """Does nothing: placements change no raw value."""


def node_affinity(facts: NodeFacts, cls: TaskClass, weight: int, report: FieldReporter) -> list[Score]:
    """Scores a node by the sum of the weights of the preferred terms that it matches."""
    affinity = cls.affinity.node_affinity if cls.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    if not preferred:
        return []
    raw = np.zeros(len(facts))
    for term in preferred:
        raw += term.weight * nodes_of_term(facts, term.preference, report)
    return _normalized(raw, weight)


def taint_toleration(facts: NodeFacts, cls: TaskClass, weight: int) -> list[Score]:
    """Scores a node by the number of PreferNoSchedule taints that are not tolerated; fewer are better."""
    tolerations = [t for t in cls.spec.tolerations or () if t.effect in ("", PREFER_NO_SCHEDULE)]

    def untolerated(taints: Iterable[tuple[str, str, str]]) -> int:
        return sum(
            effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, Taint(key=key, value=value, effect=effect))
            for key, value, effect in taints
        )

    per_set = np.array([untolerated(taints) for taints in facts.taint_sets], dtype=np.float64)
    if not per_set.any():
        return []
    return _normalized(per_set[facts.taint_codes], weight, reverse=True)


def _normalized(raw: Column, weight: int, *, reverse: bool = False) -> list[Score]:
    values = np.unique(raw)
    if len(values) < 2:
        return []
    score = NormalizedScore(raw, weight, reverse=reverse)
    if len(values) == 2 and values[0] >= 0:
        # Two values have the same scores for any candidates that have both. If all candidates have the same value, the
        # scale differs, but changes no decision.
        return [StaticScore(score.values(np.arange(len(raw)), None))]
    return [score]
