"""Kubernetes' rules about the nodes that a Pod admits: by its tolerations, and by its node selector and required node
affinity, which may pin it to one node. ``pod_amounts`` has those about its amounts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from scheduler.api.node import Mask, NodeFacts, TaintKey
from scheduler.api.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from scheduler.api.selectors import FieldReporter, nodes_of_terms, nodes_with_labels

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint: its effect and key (an empty one matches any), and its value
    unless the operator is Exists. An unknown operator matches nothing."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def taint_text(key: str, value: str, effect: str) -> str:
    """A taint as kubectl writes it: ``key=value:effect``."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.key != "" and toleration.value == taint.value


def tolerated_nodes(facts: NodeFacts, tolerations: Sequence[Toleration]) -> Mask | None:
    """The nodes whose NoSchedule and NoExecute taints are all tolerated; None if these are all nodes."""
    tolerated = np.array([not any(untolerated(taints, tolerations)) for taints in facts.taint_sets], dtype=bool)
    if tolerated.all():
        return None
    mask: Mask = tolerated[facts.taint_codes]
    return mask


def untolerated(taints: Iterable[TaintKey], tolerations: Sequence[Toleration]) -> Iterator[TaintKey]:
    """The NoSchedule and NoExecute taints that are not tolerated."""
    for key, value, effect in taints:
        taint = Taint(key=key, value=value, effect=effect)
        if effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(tolerations, taint):
            yield key, value, effect


def nodes_matching_affinity(facts: NodeFacts, spec: PodSpec, report: FieldReporter) -> Mask | None:
    """The nodes that match the Pod's node selector and required node affinity; None if the Pod has neither."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if not spec.node_selector and required is None:
        return None
    mask = nodes_with_labels(facts, spec.node_selector or {})
    if required is not None:
        mask &= nodes_of_terms(facts, required.node_selector_terms, report)
    return mask


class Pin(NamedTuple):
    """The only node that the required node affinity of a Pod admits, as for a Pod of a DaemonSet."""

    node: str
    term: NodeSelectorTerm
    """The only term of the affinity. It has the node, and the other requirements if there are any."""


def pin_of(spec: PodSpec) -> Pin | None:
    """The pin of a Pod. None if it has none, if it is written in another way, or if preferences, affinity to other Pods
    or topology spreading make more of the node affinity than that it admits nodes."""
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None or spec.topology_spread_constraints:
        return None
    if affinity.pod_affinity or affinity.pod_anti_affinity:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    if preferred or required is None or len(required.node_selector_terms) != 1:
        return None
    (term,) = required.node_selector_terms
    match term.match_fields:
        case [Requirement(key="metadata.name", operator="In", values=[node])]:
            return Pin(node, term)
    return None


def without_pin(spec: PodSpec) -> PodSpec:
    """The spec without the node of its pin. The other requirements of the node affinity stay."""
    pin = pin_of(spec)
    if pin is None:
        return spec
    if not pin.term.match_expressions:
        return replace(spec, affinity=None)
    required = NodeSelector(node_selector_terms=[replace(pin.term, match_fields=None)])
    nodes = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return replace(spec, affinity=Affinity(node_affinity=nodes))
