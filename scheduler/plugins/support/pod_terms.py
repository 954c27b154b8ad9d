"""Which Pods (anti-)affinity terms and topology spread constraints are about.

Affinity works in both directions: the term of a Pod that is already placed can exclude an incoming Pod or raise a
node's score for it. Matching each term of a thousand classes against each class would take a million comparisons.
Most terms name a label, so terms are indexed by it, and a class is matched only against terms that name one of its
labels and against the terms that name none. Those are indexed by namespace, so that what a user writes concerns the
Pods of other namespaces only if it says so.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from scheduler.api.kinds import NAMESPACE
from scheduler.api.node import Mask, NodeFacts
from scheduler.api.objects import PodAffinityTerm, TopologySpreadConstraint
from scheduler.api.pod_rules import nodes_matching_affinity, tolerated_nodes
from scheduler.api.selectors import FieldReporter, PodSelector, ignore_field, own_label_requirements, selector_of_term
from scheduler.api.task import TaskClass
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.support.pod_counts import Weight


class AffinityTerm(msgspec.Struct, frozen=True):
    """One (anti-)affinity term of one class."""

    cls: TaskClass
    """The class that has the term."""
    key: str
    """Topology key."""
    weight: int
    """The weight of a preferred term, negative for anti-affinity; 0 for a required anti-affinity term."""
    pods: PodSelector


class AffinityTerms:
    """The terms of a session's classes that concern other Pods: preferred terms, and required anti-affinity. Plugins
    share one index through ``PluginSession.once``."""

    def __init__(self, session: PluginSession) -> None:
        self._by_label: dict[tuple[str, str], list[AffinityTerm]] = {}
        self._without_label: dict[str | None, list[AffinityTerm]] = {}
        """By the only namespace whose Pods they select; None: they may select those of several."""
        self._selecting: dict[tuple[object, ...], list[AffinityTerm]] = {}
        """Namespace and labels of classes -> the terms that select them."""
        namespaces = session.snapshot.objects[NAMESPACE]
        for cls in session.snapshot.affinity_classes:
            for term, weight in _terms(cls):
                selector = selector_of_term(term, cls, namespaces, ignore_field)
                indexed = AffinityTerm(cls, term.topology_key, weight, selector)
                label = selector.label
                if label is not None:
                    self._by_label.setdefault(label, []).append(indexed)
                else:
                    self._without_label.setdefault(selector.only_namespace, []).append(indexed)

    def selecting(self, cls: TaskClass) -> Sequence[AffinityTerm]:
        """Returns the terms that select the Pods of a class. They depend on its namespace and labels only, so they are
        found once for the classes that differ in something else."""
        key = (cls.namespace, *cls.labels.items())
        found = self._selecting.get(key)
        if found is None:
            found = self._selecting[key] = [term for term in self._candidates(cls) if term.pods.selects(cls)]
        return found

    def _candidates(self, cls: TaskClass) -> Iterator[AffinityTerm]:
        for namespace in (None, cls.namespace):
            yield from self._without_label.get(namespace, ())
        for label in cls.labels.items():
            yield from self._by_label.get(label, ())


def _terms(cls: TaskClass) -> Iterator[tuple[PodAffinityTerm, int]]:
    pod_affinity = cls.affinity.pod_affinity if cls.affinity else None
    anti_affinity = cls.affinity.pod_anti_affinity if cls.affinity else None
    if anti_affinity is not None:
        for term in anti_affinity.required_during_scheduling_ignored_during_execution or ():
            yield term, 0
    for terms, sign in ((pod_affinity, 1), (anti_affinity, -1)):
        for preferred in (terms.preferred_during_scheduling_ignored_during_execution if terms else None) or ():
            if preferred.weight:
                yield preferred.pod_affinity_term, sign * preferred.weight


DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"


def constraints_of(cls: TaskClass, when_unsatisfiable: str) -> list[TopologySpreadConstraint]:
    """Returns the constraints of a class with the given ``whenUnsatisfiable``."""
    return [c for c in cls.spec.topology_spread_constraints or () if c.when_unsatisfiable == when_unsatisfiable]


def pods_to_spread(constraint: TopologySpreadConstraint, cls: TaskClass, report: FieldReporter) -> PodSelector:
    """Selects the Pods that a constraint spreads: those of the class's namespace that match its label selector."""
    extra = own_label_requirements(constraint.match_label_keys, cls)
    return PodSelector(constraint.label_selector, frozenset({cls.namespace}), report, extra)


def spread_weight(selector: PodSelector) -> Weight:
    """Returns the weight for counting Pods. An empty selector counts no Pods, as in Kubernetes."""
    return (lambda cls: 0.0) if selector.selects_all_labels else selector.weight


def labelled_nodes(facts: NodeFacts, constraints: Iterable[TopologySpreadConstraint]) -> Mask:
    """Returns the nodes that have the topology label of every constraint."""
    mask = np.ones(len(facts), dtype=bool)
    for constraint in constraints:
        mask &= facts.label_column(constraint.topology_key)[0] >= 0
    return mask


def nodes_by_policy(
    session: PluginSession, constraint: TopologySpreadConstraint, cls: TaskClass, report: FieldReporter
) -> Mask:
    """Returns the nodes whose domains count for a constraint according to its nodeAffinityPolicy and
    nodeTaintsPolicy."""
    facts = session.nodes.facts
    mask = np.ones(len(facts), dtype=bool)
    if constraint.node_affinity_policy != "Ignore":
        matching = nodes_matching_affinity(facts, cls.spec, report)
        if matching is not None:
            mask &= matching
    if constraint.node_taints_policy == "Honor":
        tolerated = tolerated_nodes(facts, cls.spec.tolerations or [])
        if tolerated is not None:
            mask &= tolerated
    return mask
