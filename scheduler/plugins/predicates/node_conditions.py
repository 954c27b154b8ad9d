"""Filters that depend on one node: its labels, its taints, whether it is cordoned, how many Pods it runs, and the host
ports that they use."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.api.names import PODS, UNSCHEDULABLE_TAINT
from scheduler.api.node import NodeFacts, Nodes, Rows
from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.pod_amounts import is_sidecar
from scheduler.api.pod_rules import NO_SCHEDULE, nodes_matching_affinity, tolerates, untolerated
from scheduler.api.resource import PODS_INDEX
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import TaskClass
from scheduler.framework.columns import CodedFilter, Counts, Filter, MaskFilter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.support.pod_counts import PodCounts

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint"
OTHER_TAINTS = "node(s) had other untolerated taints"
_SHOWN_TAINTS: Final = 5
"""Most taints that a message names."""
TOO_MANY_PODS = "node(s) pod number exceeded"
TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"
Port = tuple[str, str, int]
"""(address, protocol, number)."""


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
    first = [next(untolerated(taints, tolerations), None) for taints in facts.taint_sets]
    if not any(first):
        return []
    reasons = {taint: f"{TAINTED} {{{taint[0]}: {taint[1]}}}" for taint in first if taint is not None}
    texts = list(dict.fromkeys(reasons.values()))
    by_set = np.array([-1 if taint is None else texts.index(reasons[taint]) for taint in first], dtype=np.int32)
    return [TaintFilter(by_set[facts.taint_codes], texts)]


class TaintFilter(CodedFilter):
    """Names the first untolerated taint of each node, as kube-scheduler does; at most the five of most nodes, because
    each node may have a taint of its own."""

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        found = sorted(super().reasons(rows), key=lambda reason: -reason[1])
        shown, others = found[:_SHOWN_TAINTS], found[_SHOWN_TAINTS:]
        return [*shown, (OTHER_TAINTS, sum(number for _, number in others))] if others else shown


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


# --- host ports ---
def host_ports(spec: PodSpec) -> frozenset[Port]:
    """The host ports that a Pod uses. On the host network, these are all of its container ports."""
    containers = [*spec.containers, *(c for c in spec.init_containers or () if is_sidecar(c))]
    return frozenset(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", number)
        for container in containers
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0)) > 0
    )


def conflict(left: frozenset[Port], right: frozenset[Port]) -> bool:
    """Whether two sets have a port in common: the same protocol and number, and the same address or 0.0.0.0 in one."""
    return any(a[1:] == b[1:] and (a[0] == b[0] or ANY_ADDRESS in (a[0], b[0])) for a in left for b in right)


class HostPorts:
    """The host ports of a session's classes."""

    def __init__(self, session: Session, counts: PodCounts) -> None:
        self._session = session
        self._counts = counts
        self._ports: dict[int, frozenset[Port]] = {}

    def of(self, cls: TaskClass) -> frozenset[Port]:
        ports = self._ports.get(cls.id)
        if ports is None:
            ports = self._ports[cls.id] = host_ports(cls.spec)
        return ports

    def filters(self, cls: TaskClass) -> list[Filter]:
        return [PortFilter(self, self._counts, cls)] if self.of(cls) else []


class PortFilter:
    """Rejects nodes on which a Pod uses one of the ports; a node admits one task of the class."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ports: HostPorts, counts: PodCounts, cls: TaskClass) -> None:
        own = ports.of(cls)
        self._users = counts.count_per_node(lambda other: float(conflict(own, ports.of(other))))

    def room(self, rows: Rows) -> Counts:
        room: Counts = (self._users.at_nodes(rows) == 0).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TAKEN, len(rows)),)
