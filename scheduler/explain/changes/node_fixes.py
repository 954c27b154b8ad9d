"""Changes to a node's taints, cordon and labels that let it accept a Pod."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.api.names import HOSTNAME_LABEL, UNSCHEDULABLE_TAINT
from scheduler.api.objects import Node, NodeSelectorTerm, PodSpec, Requirement, Taint
from scheduler.api.pod_rules import NO_EXECUTE, NO_SCHEDULE, taint_text, tolerates
from scheduler.api.selectors import label_matches
from scheduler.framework.remedies.adjustments import Raw, join_names

_CONDITIONS: Final = {
    "node.kubernetes.io/not-ready": "make {nodes} ready",
    "node.kubernetes.io/unreachable": "make {nodes} reachable",
    "node.kubernetes.io/memory-pressure": "end the memory pressure on {nodes}",
    "node.kubernetes.io/disk-pressure": "end the disk pressure on {nodes}",
    "node.kubernetes.io/pid-pressure": "end the shortage of process IDs on {nodes}",
    "node.kubernetes.io/network-unavailable": "make the network of {nodes} available",
    "node.cloudprovider.kubernetes.io/uninitialized": "let the cloud provider initialize {nodes}",
    "node.cloudprovider.kubernetes.io/shutdown": "start {nodes}",
}
"""Key of a taint by which Kubernetes shows a condition of the node -> what ends it. Nothing else removes the taint for
long."""
_HARDWARE: Final = re.compile(
    r"(?:(?:beta\.)?kubernetes\.io/(?:arch|os)$|node\.kubernetes\.io/(?:instance-type|windows-build)$"
    r"|feature\.node\.kubernetes\.io/|nvidia\.com/|amd\.com/|gpu\.intel\.com/|cloud\.google\.com/gke-accelerator$)"
)
"""Labels that describe the hardware and the operating system of a node. A person who sets one does not change them."""
_REPAIR: Final = 10
"""The size of the change that ends a condition, in taints: other nodes are preferred."""


class NodeFix(msgspec.Struct, frozen=True):
    """Changes to one node."""

    node: str
    taints: tuple[tuple[str, str, str], ...]
    """Key, value and effect of the taints to remove."""
    uncordon: bool
    labels: tuple[tuple[str, str], ...]
    """The labels to set."""

    @property
    def repairs(self) -> tuple[str, ...]:
        """The conditions to end, as keys of their taints."""
        return tuple(dict.fromkeys(key for key, _, _ in self.taints if key in _CONDITIONS))

    @property
    def removals(self) -> tuple[tuple[str, str, str], ...]:
        """The taints that a person can remove."""
        return tuple(taint for taint in self.taints if taint[0] not in (*_CONDITIONS, UNSCHEDULABLE_TAINT))

    @property
    def size(self) -> int:
        return len(self.removals) + _REPAIR * len(self.repairs) + self.uncordon + len(self.labels)

    @property
    def needed(self) -> bool:
        return self.size > 0


def fix_for(node: Node, spec: PodSpec, wanted: Mapping[str, str], *, is_new: bool = False) -> NodeFix | None:
    """The changes that a Pod with this spec needs; None: labels cannot make the node suitable. ``wanted``: further
    labels that the node needs. ``is_new``: the node does not exist yet, and may have other hardware."""
    labels = _labels(node, spec)
    if labels is None or (not is_new and any(map(_HARDWARE.match, labels))):
        return None
    labels |= {key: value for key, value in wanted.items() if key not in (node.metadata.labels or {})}
    tolerations = spec.tolerations or ()
    taints = tuple(
        (taint.key, taint.value, taint.effect)
        for taint in node.spec.taints or ()
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(tolerations, taint)
    )
    cordoned = node.spec.unschedulable and not tolerates(
        tolerations, Taint(key=UNSCHEDULABLE_TAINT, effect=NO_SCHEDULE)
    )
    cordoned |= any(key == UNSCHEDULABLE_TAINT for key, _, _ in taints)
    return NodeFix(node.metadata.name, taints, cordoned, tuple(sorted(labels.items())))


def fixed_node(fix: NodeFix, raw: Raw) -> Raw:
    """The node with the changes applied."""
    spec = raw.setdefault("spec", {})
    if fix.taints:
        spec["taints"] = [t for t in spec.get("taints") or () if _key(t) not in fix.taints]
    if fix.uncordon:
        spec["unschedulable"] = False
    if fix.labels:
        raw["metadata"]["labels"] = {**(raw["metadata"].get("labels") or {}), **dict(fix.labels)}
    return raw


def _key(taint: dict[str, Any]) -> tuple[str, str, str]:
    return (str(taint.get("key", "")), str(taint.get("value", "")), str(taint.get("effect", "")))


def words(chosen: Sequence[NodeFix]) -> str:
    """The text of the changes to several nodes; nodes with the same changes are grouped."""
    alike: dict[str, list[str]] = {}
    for fix in chosen:
        alike.setdefault(_words(fix), []).append(fix.node)
    return "; ".join(text.format(nodes=_nodes(names)) for text, names in alike.items())


def _words(fix: NodeFix) -> str:
    parts = [_CONDITIONS[key] for key in fix.repairs]
    parts += [f"remove taint {_shown(taint)} from {{nodes}}" for taint in fix.removals]
    if fix.uncordon:
        parts.append("uncordon {nodes}")
    if fix.labels:
        parts.append(f"label {{nodes}} with {', '.join(_braced(f'{key}={value}') for key, value in fix.labels)}")
    return " and ".join(parts)


def _shown(taint: tuple[str, str, str]) -> str:
    return _braced(taint_text(*taint))


def _braced(text: str) -> str:
    """Escapes braces for ``str.format``."""
    return text.replace("{", "{{").replace("}", "}}")


def _nodes(names: list[str]) -> str:
    return f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({join_names(names)})"


# --- labels ---
def _labels(node: Node, spec: PodSpec) -> dict[str, str] | None:
    """The labels that the Pod's selector and required affinity need and the node lacks. None: labels cannot make it
    suitable, because a label has another value, which is never overwritten."""
    have = node.metadata.labels or {}
    lacking = {key: value for key, value in (spec.node_selector or {}).items() if have.get(key) != value}
    if HOSTNAME_LABEL in lacking or lacking.keys() & have.keys():
        return None
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return lacking
    answers = [_of_term(term, {**have, **lacking}, node.metadata.name) for term in required.node_selector_terms]
    fewest = min((answer for answer in answers if answer is not None), key=len, default=None)
    return None if fewest is None else {**lacking, **fewest}


def _of_term(term: NodeSelectorTerm, have: dict[str, str], name: str) -> dict[str, str] | None:
    if not term.match_expressions and not term.match_fields:
        return None
    for requirement in term.match_fields or ():
        if requirement.operator != "In" or name not in (requirement.values or ()):
            return None
    lacking: dict[str, str] = {}
    for requirement in term.match_expressions or ():
        if not _met(requirement, have):
            wanted = _value(requirement)
            if wanted is None or requirement.key in have or requirement.key == HOSTNAME_LABEL:
                return None
            lacking[requirement.key] = wanted
    return lacking


def _met(requirement: Requirement, labels: dict[str, str]) -> bool:
    if requirement.operator not in ("Gt", "Lt"):
        return label_matches(requirement, labels)
    try:
        number, bound = int(labels.get(requirement.key, "")), int((requirement.values or [])[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _value(requirement: Requirement) -> str | None:
    """A value that meets the requirement; None: only the absence of the label does, or no value does."""
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return values[0] if values else None
        case "Exists":
            return "true"
        case "Gt" | "Lt":
            try:
                return str(int(values[0]) + (1 if requirement.operator == "Gt" else -1))
            except (ValueError, IndexError):
                return None
    return None
