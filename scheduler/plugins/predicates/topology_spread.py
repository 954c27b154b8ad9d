"""Spreading over topology domains that must hold (Kubernetes' PodTopologySpread filter), as columns."""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.api.node import Mask, NodeFacts, Rows
from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, Nowhere, Scope
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import CountingFilter, DomainCounts, PodCounts, Weight
from scheduler.plugins.predicates.node_conditions import required_nodes, tolerable
from scheduler.plugins.selectors import Complain, PodSelector, same_labels

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def constraints_of(cls: TaskClass, when: str) -> list[TopologySpreadConstraint]:
    return [c for c in cls.spec.topology_spread_constraints or () if c.when_unsatisfiable == when]


def pods_of(constraint: TopologySpreadConstraint, cls: TaskClass, complain: Complain) -> PodSelector:
    """The Pods that are to be spread: of the class's namespace."""
    extra = same_labels(constraint.match_label_keys, cls)
    return PodSelector(constraint.label_selector, frozenset({cls.namespace}), complain, extra)


def counted(selector: PodSelector) -> Weight:
    """The Pods there that count for spreading: a selector that looks at no label counts none (Kubernetes' rule)."""
    return (lambda cls: 0.0) if selector.everything else selector.one


def topology_spread(session: Session, counts: PodCounts, cls: TaskClass, complain: Complain) -> list[Filter]:
    """The filters that apply to a class; none for most."""
    constraints = constraints_of(cls, HARD)
    if not constraints:
        return []
    facts = session.nodes.facts
    labelled = labelled_nodes(facts, constraints)
    filters: list[SpreadFilter] = []
    for constraint in constraints:
        eligible = labelled & policy_nodes(session, constraint, cls, complain)
        selector = pods_of(constraint, cls, complain)
        if not selector.sound:
            return [Nowhere(UNEVEN)]
        found = counts.count(constraint.topology_key, counted(selector), eligible, clue=selector.label, staying=True)
        domains: Rows = np.flatnonzero(np.bincount(found.codes[eligible]))
        filters.append(SpreadFilter(constraint, found, domains, cls, selector.selects(cls), tuple(filters)))
    return [MaskFilter(labelled, NO_LABEL), *filters]


def labelled_nodes(facts: NodeFacts, constraints: Iterable[TopologySpreadConstraint]) -> Mask:
    """The nodes that have the topology label of every constraint."""
    mask = np.ones(len(facts), dtype=bool)
    for constraint in constraints:
        mask &= facts.label_column(constraint.topology_key)[0] >= 0
    return mask


def policy_nodes(session: Session, constraint: TopologySpreadConstraint, cls: TaskClass, complain: Complain) -> Mask:
    """The nodes whose domains count for a constraint, by its node affinity and node taints policies."""
    facts = session.nodes.facts
    mask = np.ones(len(facts), dtype=bool)
    if constraint.node_affinity_policy != "Ignore":
        wanted = required_nodes(facts, cls.spec, complain)
        if wanted is not None:
            mask &= wanted
    if constraint.node_taints_policy == "Honor":
        good = tolerable(facts, cls.spec.tolerations or [])
        if good is not None:
            mask &= good
    return mask


class SpreadFilter(CountingFilter):
    """One more Pod in the node's domain does not exceed the emptiest domain by more than maxSkew."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(
        self,
        constraint: TopologySpreadConstraint,
        counts: DomainCounts,
        domains: Rows,
        cls: TaskClass,
        counts_itself: bool,
        before: Sequence[CountingFilter],
    ) -> None:
        """``domains``: those that count. ``counts_itself``: the task to come is one of the Pods to be spread."""
        super().__init__([counts], cls, UNEVEN, before)
        self._skew = constraint.max_skew
        self._enough = len(domains) >= (constraint.min_domains or 1)
        self._counts = counts
        self._domains = domains
        self._itself = int(counts_itself)

    def room(self, rows: Rows) -> Counts:
        fewest = float(self._counts.counts[self._domains].min()) if len(self._domains) and self._enough else 0.0
        over = self._counts.at_nodes(rows) + self._itself - fewest > self._skew
        return np.where(over, 0, UNBOUNDED)
