"""Scores nodes by the Pods in their domains: preferred Pod (anti-)affinity and ``ScheduleAnyway`` spreading."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.kinds import NAMESPACE
from scheduler.api.names import HOSTNAME_LABEL, ZONE_LABELS
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.objects import (
    LabelSelector,
    PodAffinity,
    Requirement,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.api.selectors import FieldReporter, PodSelector, ignore_field, is_valid, selector_of_term
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope, Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.support.pod_counts import Counting, DomainCounts, PodCounts, Weight
from scheduler.plugins.support.pod_terms import (
    SCHEDULE_ANYWAY,
    AffinityTerms,
    constraints_of,
    labelled_nodes,
    nodes_by_policy,
    pods_to_spread,
    spread_weight,
)

FULL = 100
DEFAULT_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(max_skew=skew, topology_key=key, when_unsatisfiable=SCHEDULE_ANYWAY)
    for key, skew in ((HOSTNAME_LABEL, 3), (ZONE_LABELS[0], 5))
)
"""Kubernetes' default constraints, for Pods of a Service, ReplicationController, ReplicaSet or StatefulSet that have no
constraints of their own."""


def _preferred(affinity: PodAffinity | None) -> Sequence[WeightedPodAffinityTerm]:
    return (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()


def _signed_terms(cls: TaskClass) -> list[tuple[WeightedPodAffinityTerm, int]]:
    """The preferred terms of a class with their weights; weights of anti-affinity are negative."""
    affinity = cls.affinity
    if affinity is None:
        return []
    return [
        *((term, term.weight) for term in _preferred(affinity.pod_affinity)),
        *((term, -term.weight) for term in _preferred(affinity.pod_anti_affinity)),
    ]


def pod_affinity(
    session: PluginSession, counts: PodCounts, cls: TaskClass, weight: int, report: FieldReporter
) -> list[Score]:
    """Scores a node by the sum of weight x Pods in the node's domain over preferred terms: the class's own terms with
    the Pods that they select, and terms that select this class with the Pods that have them."""
    if not session.snapshot.affinity_classes:
        return []
    namespaces = session.snapshot.objects[NAMESPACE]
    found: list[DomainCounts] = []
    for term, signed_weight in _signed_terms(cls):
        selector = selector_of_term(term.pod_affinity_term, cls, namespaces, report)
        pod_weight, key = _weighted(selector, signed_weight), term.pod_affinity_term.topology_key
        found.append(counts.count(key, pod_weight, only=selector.label))
    others: dict[str, dict[int, int]] = {}
    for existing in session.once(AffinityTerms).selecting(cls):
        if existing.weight:
            per_class = others.setdefault(existing.key, {})
            per_class[existing.cls.id] = per_class.get(existing.cls.id, 0) + existing.weight
    for key, weights in others.items():
        found.append(counts.count(key, _weight_by_class(weights), only=weights))
    return [PodAffinityScore(found, cls, weight)] if found else []


def _weighted(selector: PodSelector, weight: int) -> Weight:
    return lambda cls: weight * selector.weight(cls)


def _weight_by_class(weights: Mapping[int, int]) -> Weight:
    return lambda cls: float(weights.get(cls.id, 0))


class PodAffinityScore(Counting):
    """Sums over terms, scaled so that the candidate nodes have scores from 0 to 100."""

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
    session: PluginSession, counts: PodCounts, cls: TaskClass, weight: int, report: FieldReporter
) -> list[Score]:
    """Prefers nodes in whose domains fewer selected Pods are. With the Pod's own constraints, nodes without one of the
    topology labels score 0; with the default constraints, a missing label is ignored."""
    facts = session.nodes.facts
    constraints: Sequence[TopologySpreadConstraint] = ()
    scored = np.ones(len(facts), dtype=bool)
    if cls.spec.topology_spread_constraints:
        constraints = constraints_of(cls, SCHEDULE_ANYWAY)
        selectors = [pods_to_spread(constraint, cls, report) for constraint in constraints]
        scored = labelled_nodes(facts, constraints)
    elif (selector := default_selector(session.snapshot, cls)) is not None:
        constraints = DEFAULT_CONSTRAINTS
        selectors = [selector for _ in constraints]
    if not constraints:
        return []
    found = []
    for constraint, selector in zip(constraints, selectors, strict=True):
        key = constraint.topology_key
        # As in Kubernetes, node policies do not apply to the counts of single hosts.
        eligible = None if key == HOSTNAME_LABEL else scored & nodes_by_policy(session, constraint, cls, report)
        found.append(
            counts.count(key, spread_weight(selector), eligible, only=selector.label, exclude_terminating=True)
        )
    return [SpreadScore(constraints, found, cls, scored, weight)]


def default_selector(snapshot: Snapshot, cls: TaskClass) -> PodSelector | None:
    """Selects the Pods that the default constraints of a class spread: those that match the selectors of all Services
    and the workload that select the class. None if there are no such selectors."""
    selections = snapshot.selections.get(cls.namespace)
    if selections is None:
        return None
    labels: dict[str, str] = {}
    for selector in selections.services(cls.labels):
        labels.update(selector)
    extra: list[Requirement] = []
    workload = selections.workload(cls.workload)
    if workload is not None and is_valid(workload, ignore_field):
        own = workload.match_labels or {}
        extra = [Requirement(key=k, operator="In", values=[v]) for k, v in own.items() if labels.get(k, v) != v]
        extra += workload.match_expressions or ()
        labels = {**own, **labels}
    if not labels and not extra:
        return None
    return PodSelector(LabelSelector(match_labels=labels), frozenset({cls.namespace}), ignore_field, extra)


class SpreadScore(Counting):
    """Sums count x ln(domains + 2) + maxSkew - 1 over constraints, and scales the sum so that the smallest scores
    100."""

    scope = Scope.CLUSTER

    def __init__(
        self,
        constraints: Sequence[TopologySpreadConstraint],
        found: Sequence[DomainCounts],
        cls: TaskClass,
        scored: Mask,
        weight: int,
    ) -> None:
        """``scored``: the nodes that have all topology labels; others score 0."""
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
    """The number of domains of the candidate nodes, where each row stands for ``sizes`` nodes. As in Kubernetes, nodes
    without the label form one domain, and each node is a separate host."""
    if key == HOSTNAME_LABEL:
        return int(sizes.sum())
    codes = counts.codes[rows]
    if counts.one_node_each:
        return int(sizes[codes >= 0].sum()) + bool((codes < 0).any())
    return int(np.count_nonzero(np.bincount(codes + 1)))
