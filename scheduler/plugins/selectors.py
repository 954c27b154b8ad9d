"""Selectors against the cluster: which nodes meet a node selector, which classes of Pods meet a label selector.

Node requirements are answered for all nodes at once from interned label columns. A requirement that makes no sense (an
operator nobody knows, a bound that is no number) matches nothing and is told of through ``complain``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import NodeFacts
from scheduler.api.objects import LabelSelector, Namespace, NodeSelectorTerm, PodAffinityTerm, Requirement
from scheduler.api.task import TaskClass

Mask = NDArray[np.bool_]
Complain = Callable[[str, str], None]
"""Told a field and what is wrong with it."""
NAME_FIELD = "metadata.name"


# --- nodes ---
def nodes_with_labels(facts: NodeFacts, labels: Mapping[str, str]) -> Mask:
    """The nodes that carry all the labels (spec.nodeSelector)."""
    mask = np.ones(len(facts), dtype=bool)
    for key, value in labels.items():
        codes, values = facts.label_column(key)
        mask &= codes == (values.index(value) if value in values else -2)
    return mask


def nodes_of_terms(facts: NodeFacts, terms: Iterable[NodeSelectorTerm], complain: Complain) -> Mask:
    """The nodes that meet any of the terms; a term without conditions is met by none."""
    mask = np.zeros(len(facts), dtype=bool)
    for term in terms:
        mask |= nodes_of_term(facts, term, complain)
    return mask


def nodes_of_term(facts: NodeFacts, term: NodeSelectorTerm, complain: Complain) -> Mask:
    """The nodes that meet all conditions of a term."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(facts), dtype=bool)
    mask = np.ones(len(facts), dtype=bool)
    for requirement in term.match_expressions or ():
        codes, values = facts.label_column(requirement.key)
        mask &= _meets(codes, values, requirement, complain)
    for requirement in term.match_fields or ():
        if requirement.key != NAME_FIELD:
            complain("matchFields", f"field {requirement.key[:64]!r} is not known")
            return np.zeros(len(facts), dtype=bool)
        mask &= _meets(np.arange(len(facts), dtype=np.int32), facts.names, requirement, complain)
    return mask


def _meets(codes: NDArray[np.int32], values: Sequence[str], requirement: Requirement, complain: Complain) -> Mask:
    """Which rows of a label column meet a requirement; every distinct value is looked at once."""
    wanted = requirement.values or []
    match requirement.operator:
        case "Exists":
            return codes >= 0
        case "DoesNotExist":
            return codes < 0
        case "In":
            return _spread(codes, [value in wanted for value in values], absent=False)
        case "NotIn":
            return _spread(codes, [value not in wanted for value in values], absent=True)
        case "Gt" | "Lt":
            bound = _integer(wanted[0]) if len(wanted) == 1 else None
            if bound is None:
                complain(requirement.key, f"{requirement.operator} needs one integer, got {str(wanted)[:64]}")
                return np.zeros(len(codes), dtype=bool)
            greater = requirement.operator == "Gt"
            numbers = [_integer(value) for value in values]
            good = [n is not None and (n > bound if greater else n < bound) for n in numbers]
            return _spread(codes, good, absent=False)
    complain(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
    return np.zeros(len(codes), dtype=bool)


def _spread(codes: NDArray[np.int32], good: list[bool], *, absent: bool) -> Mask:
    """Answers per distinct value, spread over the rows; code -1 picks the last entry, the answer for absent labels."""
    mask: Mask = np.array([*good, absent], dtype=bool)[codes]
    return mask


def _integer(text: str) -> int | None:
    try:
        return int(text) if len(text) < 20 else None
    except ValueError:
        return None


# --- Pods ---
def matches(selector: LabelSelector | None, labels: Mapping[str, str], complain: Complain) -> bool:
    """Whether labels meet a label selector; no selector is met by nothing, an empty one by everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(_label_meets(requirement, labels, complain) for requirement in selector.match_expressions or ())


def _label_meets(requirement: Requirement, labels: Mapping[str, str], complain: Complain) -> bool:
    value = labels.get(requirement.key)
    wanted = requirement.values or []
    match requirement.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in wanted
        case "NotIn":
            return value is None or value not in wanted
    complain(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
    return False


class PodSelector:
    """The Pods that one (anti-)affinity term or spread constraint speaks of: namespaces and labels."""

    def __init__(
        self,
        selector: LabelSelector | None,
        namespaces: frozenset[str] | None,
        complain: Complain,
        extra: Sequence[Requirement] = (),
    ) -> None:
        """``namespaces`` None: all of them. ``extra``: requirements from matchLabelKeys and mismatchLabelKeys."""
        self._selector = selector
        self._namespaces = namespaces
        self._complain = complain
        self._extra = extra

    def selects(self, cls: TaskClass) -> bool:
        """Whether the Pods of a class are meant."""
        if self._namespaces is not None and cls.namespace not in self._namespaces:
            return False
        return matches(self._selector, cls.labels, self._complain) and all(
            _label_meets(requirement, cls.labels, self._complain) for requirement in self._extra
        )


def selector_of_term(
    term: PodAffinityTerm, cls: TaskClass, known: Mapping[str, Namespace], complain: Complain
) -> PodSelector:
    """The Pods that a term of a class speaks of; ``known``: all namespaces by name."""
    names: frozenset[str] | None = frozenset(term.namespaces or ())
    if term.namespace_selector is not None:
        chosen = {n for n, o in known.items() if matches(term.namespace_selector, o.metadata.labels or {}, complain)}
        empty = not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
        names = None if empty else frozenset(term.namespaces or ()) | chosen
    elif not term.namespaces:
        names = frozenset({cls.namespace})
    extra = [
        *same_labels(term.match_label_keys, cls),
        *same_labels(term.mismatch_label_keys, cls, operator="NotIn"),
    ]
    return PodSelector(term.label_selector, names, complain, extra)


def same_labels(keys: Iterable[str] | None, cls: TaskClass, operator: str = "In") -> list[Requirement]:
    """Requirements for Pods that have (or, NotIn, have not) the class's own values of some labels."""
    return [
        Requirement(key=key, operator=operator, values=[cls.labels[key]]) for key in keys or () if key in cls.labels
    ]
