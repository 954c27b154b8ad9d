"""The filters that depend on other Pods: required Pod affinity and anti-affinity, and topology spread (Kubernetes'
InterPodAffinity and PodTopologySpread filters).

With affinity, a node passes if its domains have the Pods that the task's affinity selects, none that its anti-affinity
selects, and none whose anti-affinity selects the task. These filters have scope CLUSTER, except anti-affinity whose
domains are single nodes.
"""

from collections.abc import Collection, Sequence

import numpy as np

from scheduler.api.kinds import NAMESPACE
from scheduler.api.node import Rows
from scheduler.api.objects import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from scheduler.api.selectors import FieldReporter, selector_of_term
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, RefusingFilter, Scope
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.support.pod_counts import CountingFilter, DomainCounts, PodCounts, Weight
from scheduler.plugins.support.pod_terms import (
    DO_NOT_SCHEDULE,
    AffinityTerms,
    constraints_of,
    labelled_nodes,
    nodes_by_policy,
    pods_to_spread,
    spread_weight,
)

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


def required_terms(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()


def inter_pod_affinity(
    session: PluginSession, counts: PodCounts, cls: TaskClass, report: FieldReporter
) -> list[Filter]:
    """Returns the filters of a class; most classes have none."""
    affinity = cls.affinity
    filters: list[Filter] = []
    namespaces = session.snapshot.objects[NAMESPACE]
    affinity_terms = required_terms(affinity.pod_affinity if affinity else None)
    if affinity_terms:
        selectors = [selector_of_term(term, cls, namespaces, report) for term in affinity_terms]
        if not all(selector.valid for selector in selectors):
            return [RefusingFilter(AFFINITY)]

        def selected_by_all(other: TaskClass) -> float:
            return float(all(selector.selects(other) for selector in selectors))

        found = [counts.count(term.topology_key, selected_by_all, only=selectors[0].label) for term in affinity_terms]
        filters.append(AffinityFilter(found, cls))
    anti_affinity: list[AntiAffinityFilter] = []
    for term in required_terms(affinity.pod_anti_affinity if affinity else None):
        selector = selector_of_term(term, cls, namespaces, report)
        if not selector.valid:
            return [RefusingFilter(ANTI_AFFINITY)]
        excluded = counts.count(term.topology_key, selector.weight, only=selector.label)
        anti_affinity.append(AntiAffinityFilter(excluded, cls, ANTI_AFFINITY, tuple(anti_affinity)))
    existing: dict[str, set[int]] = {}
    for existing_term in session.once(AffinityTerms).selecting(cls):
        if not existing_term.weight:
            existing.setdefault(existing_term.key, set()).add(existing_term.cls.id)
    for key, ids in existing.items():
        anti_affinity.append(
            AntiAffinityFilter(
                counts.count(key, _one_of(ids), only=ids), cls, EXISTING_ANTI_AFFINITY, tuple(anti_affinity)
            )
        )
    return [*filters, *anti_affinity]


def _one_of(ids: Collection[int]) -> Weight:
    return lambda cls: float(cls.id in ids)


class AffinityFilter(CountingFilter):
    """Rejects nodes without a selected Pod in the domain of each term. While no such Pod exists in the cluster, a task
    that matches its own terms passes on each node that has the topology labels."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, found: Sequence[DomainCounts], cls: TaskClass) -> None:
        super().__init__(found, cls, AFFINITY)
        self._selects_itself = bool(found[0].weight(cls))

    def room(self, rows: Rows) -> Counts:
        first = self._selects_itself and all(counts.empty for counts in self.found)
        passes = np.ones(len(rows), dtype=bool)
        for counts in self.found:
            passes &= counts.codes[rows] >= 0 if first else counts.at_nodes(rows) > 0
        return np.where(passes, UNBOUNDED, 0)


class AntiAffinityFilter(CountingFilter):
    """Rejects nodes with a counted Pod in their domain. If the class itself is counted, a domain admits one task."""

    unresolvable = False

    def __init__(self, counts: DomainCounts, cls: TaskClass, reason: str, before: Sequence[CountingFilter]) -> None:
        super().__init__([counts], cls, reason, before)
        self.scope = Scope.NODE if counts.one_node_each else Scope.CLUSTER
        self._counts = counts
        self._selects_itself = bool(counts.weight(cls))

    def room(self, rows: Rows) -> Counts:
        free: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        if self._selects_itself:
            free[self._counts.codes[rows] >= 0] = 1
        free[self._counts.at_nodes(rows) > 0] = 0
        return free


# --- topology spread ---
def topology_spread(session: PluginSession, counts: PodCounts, cls: TaskClass, report: FieldReporter) -> list[Filter]:
    """Returns the filters of a class for its topology spread constraints with ``DoNotSchedule`` (Kubernetes'
    PodTopologySpread filter); most classes have none."""
    constraints = constraints_of(cls, DO_NOT_SCHEDULE)
    if not constraints:
        return []
    facts = session.nodes.facts
    labelled = labelled_nodes(facts, constraints)
    filters: list[SpreadFilter] = []
    for constraint in constraints:
        eligible = labelled & nodes_by_policy(session, constraint, cls, report)
        selector = pods_to_spread(constraint, cls, report)
        if not selector.valid:
            return [RefusingFilter(UNEVEN)]
        found = counts.count(
            constraint.topology_key, spread_weight(selector), eligible, only=selector.label, exclude_terminating=True
        )
        domains: Rows = np.flatnonzero(np.bincount(found.codes[eligible]))
        filters.append(SpreadFilter(constraint, found, domains, cls, selector.selects(cls), tuple(filters)))
    return [MaskFilter(labelled, NO_LABEL), *filters]


class SpreadFilter(CountingFilter):
    """Rejects nodes in whose domain one more Pod would exceed the smallest domain by more than maxSkew."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(
        self,
        constraint: TopologySpreadConstraint,
        counts: DomainCounts,
        domains: Rows,
        cls: TaskClass,
        selects_itself: bool,
        before: Sequence[CountingFilter],
    ) -> None:
        """``domains``: the eligible domains. ``selects_itself``: the constraint selects the Pods of the class
        itself."""
        super().__init__([counts], cls, UNEVEN, before)
        self._max_skew = constraint.max_skew
        self._enough_domains = len(domains) >= (constraint.min_domains or 1)
        self._counts = counts
        self._domains = domains
        self._own = int(selects_itself)

    def room(self, rows: Rows) -> Counts:
        smallest = (
            float(self._counts.counts[self._domains].min()) if len(self._domains) and self._enough_domains else 0.0
        )
        over = self._counts.at_nodes(rows) + self._own - smallest > self._max_skew
        return np.where(over, 0, UNBOUNDED)
