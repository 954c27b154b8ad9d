"""predicates: filters nodes as the filters of kube-scheduler do (Volcano's predicates plugin).

Actions compare amounts of resources themselves. A class without affinity, ports, volumes and claims gets two cached
columns (taints, unschedulable nodes) and the filter for the number of Pods.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, PinUse, RefusingFilter, Scope, Score
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.predicates.dynamic_resources import DynamicResources
from scheduler.plugins.predicates.inter_pod_affinity import inter_pod_affinity
from scheduler.plugins.predicates.node_conditions import HostPorts, node_affinity, pod_count, taints, unschedulable
from scheduler.plugins.predicates.volumes import EnabledFilters, Volumes, read_utilization_scores
from scheduler.plugins.support.pod_counts import CountingFilter, DomainCounts, PodCounts
from scheduler.plugins.support.spread_constraints import (
    DO_NOT_SCHEDULE,
    constraints_of,
    labelled_nodes,
    nodes_by_policy,
    pods_to_spread,
    spread_weight,
)

DEFAULT_BIND_TIMEOUT = 600
DEFAULT_FILTER_TIMEOUT = 10


@register_plugin
class Predicates:
    """Arguments ``predicate.<Name>Enable`` (all true) for NodeAffinity, NodePorts, TaintToleration, PodAffinity,
    NodeVolumeLimits, VolumeZone, VolumeBinding and PodTopologySpread enable single filters.
    ``volumebinding.bindTimeoutSeconds`` (600): the time limit for binding the claims of a Pod.
    ``volumebinding.shape`` and ``volumebinding.weight`` (1): the score of a node by the utilization of its volumes.
    ``dynamicresources.filterTimeoutSeconds`` (10; 0: no limit): the time limit for finding devices for a Pod.
    ``predicate.CacheEnable`` is accepted and has no effect."""

    name: ClassVar[str] = "predicates"

    def __init__(self, arguments: Arguments) -> None:
        def on(name: str) -> bool:
            return arguments.boolean(f"predicate.{name}Enable", True)

        self._node_affinity, self._ports, self._taints = on("NodeAffinity"), on("NodePorts"), on("TaintToleration")
        self._pod_affinity, self._spread = on("PodAffinity"), on("PodTopologySpread")
        self._volume_filters = EnabledFilters(on("VolumeZone"), on("VolumeBinding"), on("NodeVolumeLimits"))
        self._bind_timeout = arguments.integer("volumebinding.bindTimeoutSeconds", DEFAULT_BIND_TIMEOUT, least=0)
        weight = arguments.integer("volumebinding.weight", 1)
        shaped = arguments.get("volumebinding.shape") is not None
        self._utilization_scores = read_utilization_scores(arguments, weight) if shaped else None
        self._filter_timeout = arguments.integer(
            "dynamicresources.filterTimeoutSeconds", DEFAULT_FILTER_TIMEOUT, least=0
        )
        arguments.boolean("predicate.CacheEnable", False)  # read so that it is a known argument

    def open(self, session: Session) -> None:
        self._session = session
        self._counts = session.once(PodCounts)
        self._host_ports = HostPorts(session, self._counts)
        self.volumes = volumes = Volumes(session, self._volume_filters, self._bind_timeout, self._utilization_scores)
        self.devices = DynamicResources(session, self._filter_timeout)
        session.add_filter(self._filters, pin=PinUse.REQUIRED if self._node_affinity else PinUse.ASKED)
        session.add_claim_state(volumes.claim_state)
        session.add_handlers(volumes.allocated, volumes.deallocated)
        if self._volume_filters.binding:
            session.add_preparations(volumes.preparations)
        session.add_score(self._scores)

    def _filters(self, cls: TaskClass) -> list[Filter]:
        session, facts, spec = self._session, self._session.nodes.facts, cls.spec
        report = session.field_reporter(cls)
        filters: list[Filter] = [pod_count(session.nodes)]
        tolerations = spec.tolerations or []
        filters += unschedulable(facts, tolerations)
        if self._node_affinity:
            filters += node_affinity(facts, spec, report)
        if self._taints:
            filters += taints(facts, tolerations)
        if self._ports:
            filters += self._host_ports.filters(cls)
        if self._pod_affinity and session.snapshot.affinity_classes:
            filters += inter_pod_affinity(session, self._counts, cls, report)
        if self._spread and spec.topology_spread_constraints:
            filters += topology_spread(session, self._counts, cls, report)
        filters += self.volumes.filters(cls)
        filters += self.devices.filters(cls)
        return filters

    def _scores(self, cls: TaskClass) -> list[Score]:
        return [*self.devices.scores(cls), *self.volumes.scores(cls)]


UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


def topology_spread(session: Session, counts: PodCounts, cls: TaskClass, report: FieldReporter) -> list[Filter]:
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
