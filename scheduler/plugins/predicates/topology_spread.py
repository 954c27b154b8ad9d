"""Filters for topology spread constraints with ``DoNotSchedule`` (Kubernetes' PodTopologySpread filter)."""

from collections.abc import Sequence

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, RefusingFilter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.support.pod_counts import CountingFilter, DomainCounts, PodCounts
from scheduler.plugins.support.spread_constraints import (
    DO_NOT_SCHEDULE,
    constraints_of,
    labelled_nodes,
    nodes_by_policy,
    pods_to_spread,
    spread_weight,
)

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


def topology_spread(session: Session, counts: PodCounts, cls: TaskClass, report: FieldReporter) -> list[Filter]:
    """Returns the filters of a class; most classes have none."""
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
