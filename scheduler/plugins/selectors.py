"""Selectors against the cluster: which nodes meet a node selector, which classes of Pods meet a label selector.

Node requirements are answered for all nodes at once from interned label columns. A requirement that makes no sense (an
operator nobody knows, a bound that is no number, no values to compare with) matches nothing and is told of through
``complain``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from scheduler.api.node import Codes, Mask, NodeFacts
from scheduler.api.objects import LabelSelector, Namespace, NodeSelectorTerm, PodAffinityTerm, Requirement
from scheduler.api.task import TaskClass

Complain = Callable[[str, str], None]
"""Told a field and what is wrong with it."""
NAME_FIELD = "metadata.name"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def unheard(field: str, problem: str) -> None:
    """Takes complaints that are told elsewhere."""


# --- nodes ---
def nodes_with_labels(facts: NodeFacts, labels: Mapping[str, str]) -> Mask:
    """The nodes that carry all the labels (spec.nodeSelector)."""
    mask = np.ones(len(facts), dtype=bool)
    for key, value in labels.items():
        codes, numbers = facts.label_codes(key)
        mask &= codes == numbers.get(value, -2)
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
        mask &= _meets(*facts.label_codes(requirement.key), requirement, complain)
    for requirement in term.match_fields or ():
        if requirement.key != NAME_FIELD:
            complain("matchFields", f"field {requirement.key[:64]!r} is not known")
            return np.zeros(len(facts), dtype=bool)
        mask &= _meets(np.arange(len(facts), dtype=np.int32), facts.index, requirement, complain)
    return mask


def _meets(codes: Codes, values: Mapping[str, int], requirement: Requirement, complain: Complain) -> Mask:
    """Which rows of a label column meet a requirement; every distinct value is looked at once, or only those named."""
    wanted = requirement.values or []
    if requirement.operator in ("In", "NotIn") and not wanted:
        complain(requirement.key, f"{requirement.operator} needs values")
        return np.zeros(len(codes), dtype=bool)
    match requirement.operator:
        case "Exists":
            return codes >= 0
        case "DoesNotExist":
            return codes < 0
        case "In":
            return _any_of(codes, values, wanted)
        case "NotIn":
            return ~_any_of(codes, values, wanted)
        case "Gt" | "Lt":
            bound = _integer(wanted[0]) if len(wanted) == 1 else None
            if bound is None:
                complain(requirement.key, f"{requirement.operator} needs one integer, got {str(wanted)[:64]}")
                return np.zeros(len(codes), dtype=bool)
            greater = requirement.operator == "Gt"
            numbers = [_integer(value) for value in values]
            good = [n is not None and (n > bound if greater else n < bound) for n in numbers]
            mask: Mask = np.array([*good, False], dtype=bool)[codes]  # code -1 picks the last
            return mask
    complain(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
    return np.zeros(len(codes), dtype=bool)


def _any_of(codes: Codes, values: Mapping[str, int], wanted: Iterable[str]) -> Mask:
    """Rows with one of the values."""
    named = [values[value] for value in wanted if value in values]
    mask: Mask
    if len(named) == 1:
        mask = codes == named[0]
        return mask
    good = np.zeros(len(values) + 1, dtype=bool)  # code -1 picks the last
    good[named] = True
    mask = good[codes]
    return mask


def _integer(text: str) -> int | None:
    """A signed 64-bit number in plain digits; None: the text is none."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


# --- Pods ---
def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a label selector; no selector is met by nothing, an empty one by everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(_label_meets(requirement, labels) for requirement in selector.match_expressions or ())


def is_sound(selector: LabelSelector | None, complain: Complain) -> bool:
    """Whether every requirement of a label selector makes sense. A Pod whose selector does not is placed nowhere: what
    it must keep away from is not known."""
    sound = True
    for requirement in (selector.match_expressions if selector else None) or ():
        if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            complain(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
        elif (requirement.operator in ("In", "NotIn")) != bool(requirement.values):
            complain(requirement.key, f"{requirement.operator} needs {'no ' if requirement.values else ''}values")
        else:
            continue
        sound = False
    return sound


def _label_meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
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
        self.sound = is_sound(selector, complain)
        """Whether the selector makes sense; one that does not selects nothing."""
        self.everything = selector is not None and not (selector.match_labels or selector.match_expressions or extra)
        """Whether no label is looked at."""
        self._selector = selector
        self._namespaces = namespaces
        self._extra = extra

    @property
    def label(self) -> tuple[str, str] | None:
        """A label (key, value) that every Pod meant has, where matchLabels names one."""
        labels = self._selector.match_labels if self._selector else None
        return next(iter(labels.items())) if labels else None

    def selects(self, cls: TaskClass) -> bool:
        """Whether the Pods of a class are meant."""
        if not self.sound or (self._namespaces is not None and cls.namespace not in self._namespaces):
            return False
        return matches(self._selector, cls.labels) and all(_label_meets(r, cls.labels) for r in self._extra)

    def one(self, cls: TaskClass) -> float:
        """``selects`` as a number of Pods: 1 or 0."""
        return float(self.selects(cls))


def selector_of_term(
    term: PodAffinityTerm, cls: TaskClass, known: Mapping[str, Namespace], complain: Complain
) -> PodSelector:
    """The Pods that a term of a class speaks of; ``known``: all namespaces by name."""
    names: frozenset[str] | None = frozenset(term.namespaces or ())
    sound = is_sound(term.namespace_selector, complain)
    if term.namespace_selector is not None:
        chosen = {n for n, o in known.items() if sound and matches(term.namespace_selector, o.metadata.labels or {})}
        empty = not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
        names = None if empty else frozenset(term.namespaces or ()) | chosen
    elif not term.namespaces:
        names = frozenset({cls.namespace})
    extra = [
        *same_labels(term.match_label_keys, cls),
        *same_labels(term.mismatch_label_keys, cls, operator="NotIn"),
    ]
    result = PodSelector(term.label_selector, names, complain, extra)
    result.sound = result.sound and sound
    return result


def same_labels(keys: Iterable[str] | None, cls: TaskClass, operator: str = "In") -> list[Requirement]:
    """Requirements for Pods that have (or, NotIn, have not) the class's own values of some labels."""
    return [
        Requirement(key=key, operator=operator, values=[cls.labels[key]]) for key in keys or () if key in cls.labels
    ]
