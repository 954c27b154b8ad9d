"""The nodes that a Pod's node selector, required node affinity and tolerations admit."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.api.node import Mask, NodeFacts, TaintKey
from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.pod_rules import NO_EXECUTE, NO_SCHEDULE, tolerates
from scheduler.api.selectors import FieldReporter, nodes_of_terms, nodes_with_labels


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
