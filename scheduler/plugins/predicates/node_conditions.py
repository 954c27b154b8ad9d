"""Filters that depend on one node: its labels, its taints, whether it is cordoned, and how many Pods it runs."""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.api.names import PODS, UNSCHEDULABLE_TAINT
from scheduler.api.node import NodeFacts, Nodes, Rows
from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.pod_rules import NO_SCHEDULE, tolerates
from scheduler.api.resource import PODS_INDEX
from scheduler.api.selectors import FieldReporter
from scheduler.framework.columns import Counts, Filter, MaskFilter, Scope
from scheduler.plugins.support.node_matching import nodes_matching_affinity, tolerated_nodes

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
TOO_MANY_PODS = "node(s) pod number exceeded"


def unschedulable(facts: NodeFacts, tolerations: Sequence[Toleration]) -> list[Filter]:
    """Rejects cordoned nodes, unless the Pod tolerates the taint ``node.kubernetes.io/unschedulable``."""
    if not facts.unschedulable.any() or tolerates(tolerations, Taint(key=UNSCHEDULABLE_TAINT, effect=NO_SCHEDULE)):
        return []
    return [MaskFilter(~facts.unschedulable, UNSCHEDULABLE)]


def node_affinity(facts: NodeFacts, spec: PodSpec, report: FieldReporter) -> list[Filter]:
    """Rejects nodes that do not match spec.nodeSelector and the required node affinity."""
    mask = nodes_matching_affinity(facts, spec, report)
    return [] if mask is None else [MaskFilter(mask, AFFINITY)]


def taints(facts: NodeFacts, tolerations: Sequence[Toleration]) -> list[Filter]:
    """Rejects nodes with NoSchedule or NoExecute taints that the Pod does not tolerate."""
    mask = tolerated_nodes(facts, tolerations)
    return [] if mask is None else [MaskFilter(mask, TAINTED)]


def pod_count(nodes: Nodes) -> Filter:
    """Limits the Pods of a node to its ``status.allocatable.pods``."""
    return PodCountFilter(nodes)


class PodCountFilter:
    """Admits as many Pods as ``status.allocatable.pods`` leaves. Terminating Pods count as long as they exist."""

    scope = Scope.NODE
    unresolvable = False
    amount = PODS
    identity = "pod count"

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
