"""Topology spread constraints: which Pods they spread, and over the domains of which nodes."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Mask, NodeFacts
from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.pod_rules import nodes_matching_affinity, tolerated_nodes
from scheduler.api.selectors import FieldReporter, PodSelector, own_label_requirements
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session
from scheduler.plugins.support.pod_counts import Weight

DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"


def constraints_of(cls: TaskClass, when_unsatisfiable: str) -> list[TopologySpreadConstraint]:
    """The constraints of a class with the given ``whenUnsatisfiable``."""
    return [c for c in cls.spec.topology_spread_constraints or () if c.when_unsatisfiable == when_unsatisfiable]


def pods_to_spread(constraint: TopologySpreadConstraint, cls: TaskClass, report: FieldReporter) -> PodSelector:
    """Selects the Pods that a constraint spreads: those of the class's namespace that match its label selector."""
    extra = own_label_requirements(constraint.match_label_keys, cls)
    return PodSelector(constraint.label_selector, frozenset({cls.namespace}), report, extra)


def spread_weight(selector: PodSelector) -> Weight:
    """The weight for counting Pods. An empty selector counts no Pods, as in Kubernetes."""
    return (lambda cls: 0.0) if selector.selects_all_labels else selector.weight


def labelled_nodes(facts: NodeFacts, constraints: Iterable[TopologySpreadConstraint]) -> Mask:
    """The nodes that have the topology label of every constraint."""
    mask = np.ones(len(facts), dtype=bool)
    for constraint in constraints:
        mask &= facts.label_column(constraint.topology_key)[0] >= 0
    return mask


def nodes_by_policy(
    session: Session, constraint: TopologySpreadConstraint, cls: TaskClass, report: FieldReporter
) -> Mask:
    """The nodes whose domains count for a constraint according to its nodeAffinityPolicy and nodeTaintsPolicy."""
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
