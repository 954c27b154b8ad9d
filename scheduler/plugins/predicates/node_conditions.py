"""Predicates that look at one node at a time: its labels, taints, whether it is cordoned, how many Pods it runs."""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.api.names import UNSCHEDULABLE_TAINT
from scheduler.api.node import Mask, NodeFacts, Nodes, Rows
from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.resource import PODS_INDEX
from scheduler.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from scheduler.framework.columns import Counts, Filter, MaskFilter, Scope
from scheduler.plugins.selectors import Complain, nodes_of_terms, nodes_with_labels

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
TOO_MANY_PODS = "node(s) pod number exceeded"


def unschedulable(facts: NodeFacts, tolerations: Sequence[Toleration]) -> list[Filter]:
    """Cordoned nodes are for Pods that tolerate the taint of being cordoned."""
    if not facts.unschedulable.any() or tolerates(tolerations, Taint(key=UNSCHEDULABLE_TAINT, effect=NO_SCHEDULE)):
        return []
    return [MaskFilter(~facts.unschedulable, UNSCHEDULABLE)]


def node_affinity(facts: NodeFacts, spec: PodSpec, complain: Complain) -> list[Filter]:
    """spec.nodeSelector and the required node affinity."""
    mask = required_nodes(facts, spec, complain)
    return [] if mask is None else [MaskFilter(mask, AFFINITY)]


def required_nodes(facts: NodeFacts, spec: PodSpec, complain: Complain) -> Mask | None:
    """The nodes that the Pod's selector and required node affinity admit; None: all."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if not spec.node_selector and required is None:
        return None
    mask = nodes_with_labels(facts, spec.node_selector or {})
    if required is not None:
        mask &= nodes_of_terms(facts, required.node_selector_terms, complain)
    return mask


def taints(facts: NodeFacts, tolerations: Sequence[Toleration]) -> list[Filter]:
    """NoSchedule and NoExecute taints keep away Pods that do not tolerate them."""
    mask = tolerable(facts, tolerations)
    return [] if mask is None else [MaskFilter(mask, TAINTED)]


def tolerable(facts: NodeFacts, tolerations: Sequence[Toleration]) -> Mask | None:
    """The nodes whose NoSchedule and NoExecute taints are tolerated; None: all."""
    good = np.array([_all_tolerated(taints, tolerations) for taints in facts.taint_sets], dtype=bool)
    if good.all():
        return None
    mask: Mask = good[facts.taint_codes]
    return mask


def _all_tolerated(taints: Iterable[tuple[str, str, str]], tolerations: Sequence[Toleration]) -> bool:
    return all(
        effect not in (NO_SCHEDULE, NO_EXECUTE) or tolerates(tolerations, Taint(key=key, value=value, effect=effect))
        for key, value, effect in taints
    )


def pod_count(nodes: Nodes) -> Filter:
    """A node runs no more Pods than it says it can."""
    return PodCountFilter(nodes)


class PodCountFilter:
    """Room by ``status.allocatable.pods``; terminating Pods count as long as they are there."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def room(self, rows: Rows) -> Counts:
        room: Counts = self._nodes.pod_room(rows).astype(np.int64)
        return room

    def future_room(self, rows: Rows) -> Counts:
        nodes = self._nodes
        room: Counts = (nodes.pod_room(rows) + nodes.releasing[PODS_INDEX, rows]).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TOO_MANY_PODS, len(rows)),)
