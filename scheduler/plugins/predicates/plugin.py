"""predicates: filters nodes as the filters of kube-scheduler do (Volcano's predicates plugin).

Actions compare amounts of resources themselves. A class without affinity, ports, volumes and claims gets two cached
columns (taints, unschedulable nodes) and the filter for the number of Pods. The filters that depend on one node
(its labels, its taints, whether it is cordoned, the Pods that it runs and their host ports) are here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import ClassVar, Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import PODS, UNSCHEDULABLE_TAINT
from scheduler.api.node import NodeFacts, Nodes, Rows, TaintKey
from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.pod_amounts import is_sidecar
from scheduler.api.pod_rules import NO_SCHEDULE, nodes_matching_affinity, taint_text, tolerates, untolerated
from scheduler.api.resource import PODS_INDEX
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import (
    CodedFilter,
    Counts,
    Filter,
    MaskFilter,
    PinUse,
    Scope,
    Score,
)
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.predicates.dynamic_resources.plugin import DynamicResources
from scheduler.plugins.predicates.other_pods import inter_pod_affinity, topology_spread
from scheduler.plugins.predicates.volumes.claim_states import EnabledFilters
from scheduler.plugins.predicates.volumes.filters import Volumes, read_utilization_scores
from scheduler.plugins.support.pod_counts import PodCounts

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint"
OTHER_TAINTS = "node(s) had other untolerated taints"
_SHOWN_TAINTS: Final = 5
"""Most taints that a reason, or the details of a Pod, name."""
TOO_MANY_PODS = "node(s) pod number exceeded"
TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"
Port = tuple[str, str, int]
"""(address, protocol, number)."""
PortsOf = Callable[[TaskClass], frozenset[Port]]
"""Returns the host ports of a class."""


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


class PortFilter:
    """Rejects nodes on which a Pod uses one of the ports; a node admits one task of the class."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ports_of: PortsOf, counts: PodCounts, cls: TaskClass) -> None:
        own = ports_of(cls)
        self._users = counts.count_per_node(lambda other: float(conflict(own, ports_of(other))))

    def room(self, rows: Rows) -> Counts:
        room: Counts = (self._users.at_nodes(rows) == 0).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TAKEN, len(rows)),)


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

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._counts = session.once(PodCounts)
        self._host_ports: PortsOf = cache(lambda cls: host_ports(cls.spec))
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
        filters: list[Filter] = [PodCountFilter(session.nodes)]
        tolerations = spec.tolerations or []
        filters += unschedulable(facts, tolerations)
        if self._node_affinity:
            filters += node_affinity(facts, spec, report)
        if self._taints:
            filters += taints(facts, tolerations)
        if self._ports and self._host_ports(cls):
            filters.append(PortFilter(self._host_ports, self._counts, cls))
        if self._pod_affinity and session.snapshot.affinity_classes:
            filters += inter_pod_affinity(session, self._counts, cls, report)
        if self._spread and spec.topology_spread_constraints:
            filters += topology_spread(session, self._counts, cls, report)
        filters += self.volumes.filters(cls)
        filters += self.devices.filters(cls)
        return filters

    def _scores(self, cls: TaskClass) -> list[Score]:
        return [*self.devices.scores(cls), *self.volumes.scores(cls)]


@pod_details(Predicates)
def untolerated_taints(session: Session, plugin: Predicates, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields a gate for each taint that the Pod does not tolerate, those of most nodes first, with their number."""
    if not any(reason.startswith((TAINTED, OTHER_TAINTS)) for reason in reasons):
        return
    facts, tolerations = session.nodes.facts, task.cls.spec.tolerations or []
    sizes = np.bincount(facts.taint_codes, minlength=len(facts.taint_sets)).tolist()
    found: Counter[TaintKey] = Counter()
    for taints, number in zip(facts.taint_sets, sizes, strict=True):
        for taint in set(untolerated(taints, tolerations)):
            found[taint] += number
    ordered = sorted((-number, taint) for taint, number in found.items() if number)
    for number, taint in ordered[:_SHOWN_TAINTS]:
        text = f"{task.name}: {-number} nodes have the taint {taint_text(*taint)}, which it does not tolerate"
        if number == -1:
            text = f"{task.name}: 1 node has the taint {taint_text(*taint)}, which it does not tolerate"
        yield Gate(GateKind.NODES, text, Predicates.name)
    if len(ordered) > _SHOWN_TAINTS:
        text = f"{task.name}: nodes have {len(ordered) - _SHOWN_TAINTS} other taints, which it does not tolerate"
        yield Gate(GateKind.NODES, text, Predicates.name)
