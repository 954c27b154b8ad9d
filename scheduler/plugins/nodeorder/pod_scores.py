"""Scores by the company of a node: preferred (anti-)affinity between Pods, and spreading where possible."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.names import HOSTNAME_LABEL
from scheduler.api.node import Column, Rows
from scheduler.api.objects import PodAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope, Score
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import DomainCounts, PodCounts, Selects, Weight
from scheduler.plugins.predicates.topology_spread import (
    SOFT,
    constraints_of,
    counted,
    labelled_nodes,
    pods_of,
    policy_nodes,
)
from scheduler.plugins.selectors import Complain, Mask, selector_of_term
from scheduler.plugins.sociable import wishes

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
        found.append(counts.count(term.pod_affinity_term.topology_key, selector.selects, weight=_constant(signed)))
    others: dict[str, dict[int, int]] = {}
    for wish in wishes(session).about(cls):
        if wish.weight:
            per_class = others.setdefault(wish.key, {})
            per_class[wish.cls.id] = per_class.get(wish.cls.id, 0) + wish.weight
    for key, weights in others.items():
        found.append(counts.count(key, _has(weights), weight=_of(weights)))
    return [CompanyScore(found, weight)] if found else []


def _constant(value: int) -> Weight:
    return lambda cls: float(value)


def _has(weights: Mapping[int, int]) -> Selects:
    return lambda cls: cls.id in weights


def _of(weights: Mapping[int, int]) -> Weight:
    return lambda cls: float(weights[cls.id])


class CompanyScore:
    """Sums over terms, scaled so that the candidates span 0 to 100."""

    scope = Scope.CLUSTER

    def __init__(self, found: Sequence[DomainCounts], weight: int) -> None:
        self._found = found
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        raw: Column = np.zeros(len(rows))
        for counts in self._found:
            raw += counts.at_nodes(rows)
        low, high = (raw.min(), raw.max()) if len(raw) else (0.0, 0.0)
        if high == low:
            return np.zeros(len(rows))
        result: Column = np.trunc(FULL * ((raw - low) / (high - low))) * self._weight
        return result


def topology_spread(
    session: Session, counts: PodCounts, cls: TaskClass, weight: int, complain: Complain
) -> list[Score]:
    """Fewer Pods of the kind in a node's domain are better; nodes that lack one of the topology labels score 0."""
    constraints = constraints_of(cls, SOFT)
    if not constraints:
        return []
    labelled = labelled_nodes(session.nodes.facts, constraints)
    found = []
    for constraint in constraints:
        selects = counted(pods_of(constraint, cls, complain))
        if constraint.topology_key == HOSTNAME_LABEL:
            found.append(
                counts.count(constraint.topology_key, selects, staying=True)
            )  # by policy or not, as Kubernetes
            continue
        eligible = labelled & policy_nodes(session, constraint, cls, complain)
        found.append(counts.count(constraint.topology_key, selects, eligible, staying=True))
    return [SpreadScore(constraints, found, labelled, weight)]


class SpreadScore:
    """Sum over constraints of count x ln(domains + 2) + maxSkew - 1, turned round and scaled to 0..100."""

    scope = Scope.CLUSTER

    def __init__(
        self,
        constraints: Sequence[TopologySpreadConstraint],
        found: Sequence[DomainCounts],
        labelled: Mask,
        weight: int,
    ) -> None:
        self._constraints = constraints
        self._found = found
        self._labelled = labelled
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        known = self._labelled[rows]
        result: Column = np.zeros(len(rows))
        if not known.any():
            return result
        raw = np.zeros(len(rows))
        for constraint, counts in zip(self._constraints, self._found, strict=True):
            domains = len(np.unique(counts.codes[rows[known]]))
            raw += counts.at_nodes(rows) * np.log(domains + 2) + (constraint.max_skew - 1)
        score = np.floor(raw + 0.5)
        low, high = score[known].min(), score[known].max()
        scaled = np.full(len(rows), float(FULL)) if high == 0 else np.floor(FULL * (high + low - score) / high)
        result[known] = scaled[known] * self._weight
        return result
