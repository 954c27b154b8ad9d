"""Scores by the company of a node: preferred (anti-)affinity between Pods, and spreading where possible."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.names import HOSTNAME_LABEL
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.objects import PodAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope, Score
from scheduler.framework.session import Session
from scheduler.plugins.nodeorder.default_spread import DEFAULT_CONSTRAINTS, default_selector
from scheduler.plugins.pod_counts import Counting, DomainCounts, PodCounts, Weight
from scheduler.plugins.predicates.topology_spread import (
    SOFT,
    constraints_of,
    counted,
    labelled_nodes,
    pods_of,
    policy_nodes,
)
from scheduler.plugins.selectors import Complain, PodSelector, selector_of_term
from scheduler.plugins.sociable import Wishes

FULL = 100


def _preferred(affinity: PodAffinity | None) -> Sequence[WeightedPodAffinityTerm]:
    return (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()


def _signed(cls: TaskClass) -> list[tuple[WeightedPodAffinityTerm, int]]:
    """The preferred terms of a class with their weights, those of anti-affinity negative."""
    affinity = cls.affinity
    if affinity is None:
        return []
    return [
        *((term, term.weight) for term in _preferred(affinity.pod_affinity)),
        *((term, -term.weight) for term in _preferred(affinity.pod_anti_affinity)),
    ]


def pod_affinity(session: Session, counts: PodCounts, cls: TaskClass, weight: int, complain: Complain) -> list[Score]:
    """The weights of preferred terms times the Pods that meet them in the node's domains: the class's own terms, and
    those of Pods already placed that would like (or rather not) a Pod of this class beside them."""
    namespaces = session.snapshot.namespaces
    found: list[DomainCounts] = []
    for term, signed in _signed(cls):
        selector = selector_of_term(term.pod_affinity_term, cls, namespaces, complain)
        weigh, key = _weighing(selector, signed), term.pod_affinity_term.topology_key
        found.append(counts.count(key, weigh, clue=selector.label))
    others: dict[str, dict[int, int]] = {}
    for wish in session.once(Wishes).about(cls):
        if wish.weight:
            per_class = others.setdefault(wish.key, {})
            per_class[wish.cls.id] = per_class.get(wish.cls.id, 0) + wish.weight
    for key, weights in others.items():
        found.append(counts.count(key, _of(weights), clue=weights))
    return [CompanyScore(found, cls, weight)] if found else []


def _weighing(selector: PodSelector, weight: int) -> Weight:
    return lambda cls: weight * selector.one(cls)


def _of(weights: Mapping[int, int]) -> Weight:
    return lambda cls: float(weights.get(cls.id, 0))


class CompanyScore(Counting):
    """Sums over terms, scaled so that the candidates span 0 to 100."""

    scope = Scope.CLUSTER

    def __init__(self, found: Sequence[DomainCounts], cls: TaskClass, weight: int) -> None:
        super().__init__(found, cls)
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        raw: Column = np.zeros(len(rows))
        for counts in self.found:
            raw += counts.at_nodes(rows)
        low, high = (raw.min(), raw.max()) if len(raw) else (0.0, 0.0)
        if high == low:
            return np.zeros(len(rows))
        result: Column = np.trunc(FULL * ((raw - low) / (high - low))) * self._weight
        return result

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        return self.values(rows, None)


def topology_spread(
    session: Session, counts: PodCounts, cls: TaskClass, weight: int, complain: Complain
) -> list[Score]:
    """Fewer Pods of the kind in a node's domain are better. By the constraints of the Pod, nodes that lack one of the
    topology labels score 0; by the default ones, such a label does not count there."""
    facts = session.nodes.facts
    constraints: Sequence[TopologySpreadConstraint] = ()
    scored = np.ones(len(facts), dtype=bool)
    if cls.spec.topology_spread_constraints:
        constraints = constraints_of(cls, SOFT)
        selectors = [pods_of(constraint, cls, complain) for constraint in constraints]
        scored = labelled_nodes(facts, constraints)
    elif (selector := default_selector(session.snapshot, cls)) is not None:
        constraints = DEFAULT_CONSTRAINTS
        selectors = [selector for _ in constraints]
    if not constraints:
        return []
    found = []
    for constraint, selector in zip(constraints, selectors, strict=True):
        key = constraint.topology_key
        # On a host Pods count by policy or not, as in Kubernetes.
        eligible = None if key == HOSTNAME_LABEL else scored & policy_nodes(session, constraint, cls, complain)
        found.append(counts.count(key, counted(selector), eligible, clue=selector.label, staying=True))
    return [SpreadScore(constraints, found, cls, scored, weight)]


class SpreadScore(Counting):
    """Sum over constraints of count x ln(domains + 2) + maxSkew - 1, turned round and scaled to 0..100."""

    scope = Scope.CLUSTER

    def __init__(
        self,
        constraints: Sequence[TopologySpreadConstraint],
        found: Sequence[DomainCounts],
        cls: TaskClass,
        scored: Mask,
        weight: int,
    ) -> None:
        """``scored``: the nodes that do not score 0 anyway."""
        super().__init__(found, cls)
        self._constraints = constraints
        self._scored = scored
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        return self.of_groups(rows, np.ones(len(rows), dtype=np.int64))

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        known = self._scored[rows]
        result: Column = np.zeros(len(rows))
        if not known.any():
            return result
        raw = np.zeros(len(rows))
        for constraint, counts in zip(self._constraints, self.found, strict=True):
            there = counts.codes[rows] >= 0
            weight = np.log(_domains(constraint.topology_key, counts, rows[known], sizes[known]) + 2)
            raw += np.where(there, counts.at_nodes(rows) * weight + (constraint.max_skew - 1), 0.0)
        score = np.floor(raw + 0.5)
        low, high = score[known].min(), score[known].max()
        scaled = np.full(len(rows), float(FULL)) if high == 0 else np.floor(FULL * (high + low - score) / high)
        result[known] = scaled[known] * self._weight
        return result


def _domains(key: str, counts: DomainCounts, rows: Rows, sizes: Counts) -> int:
    """In how many domains the candidates are, each row standing for so many of them. Nodes without the label are in one
    more, and every node is a host of its own, as Kubernetes has it."""
    if key == HOSTNAME_LABEL:
        return int(sizes.sum())
    codes = counts.codes[rows]
    if counts.apart:
        return int(sizes[codes >= 0].sum()) + bool((codes < 0).any())
    return int(np.count_nonzero(np.bincount(codes + 1)))
