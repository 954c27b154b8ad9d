"""Evaluates selectors: which nodes match a node selector, and which task classes match a label selector.

Node requirements are evaluated for all nodes at once on interned label columns. An invalid requirement (an unknown
operator, a bound that is not a number, missing values) matches nothing and is reported through ``report``.

Services and workloads select Pods, too (``Selections``): Kubernetes spreads the Pods of a Service or ReplicaSet by
default, without topology spread constraints.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from scheduler.api.node import Codes, Mask, NodeFacts
from scheduler.api.objects import LabelSelector, Namespace, NodeSelectorTerm, PodAffinityTerm, Requirement
from scheduler.api.task import TaskClass

FieldReporter = Callable[[str, str], None]
"""Receives the name of an invalid field and a description of the problem."""
NAME_FIELD = "metadata.name"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def ignore_field(field: str, problem: str) -> None:
    """A ``FieldReporter`` for fields whose problems another part of the program reports."""


# --- nodes ---
def nodes_with_labels(facts: NodeFacts, labels: Mapping[str, str]) -> Mask:
    """The nodes that have all the labels (spec.nodeSelector)."""
    mask = np.ones(len(facts), dtype=bool)
    for key, value in labels.items():
        codes, numbers = facts.label_codes(key)
        mask &= codes == numbers.get(value, -2)
    return mask


def nodes_of_terms(facts: NodeFacts, terms: Iterable[NodeSelectorTerm], report: FieldReporter) -> Mask:
    """The nodes that match at least one of the terms. A term without requirements matches no node."""
    mask = np.zeros(len(facts), dtype=bool)
    for term in terms:
        mask |= nodes_of_term(facts, term, report)
    return mask


def nodes_of_term(facts: NodeFacts, term: NodeSelectorTerm, report: FieldReporter) -> Mask:
    """The nodes that match all requirements of a term."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(facts), dtype=bool)
    mask = np.ones(len(facts), dtype=bool)
    for requirement in term.match_expressions or ():
        mask &= _matching_rows(*facts.label_codes(requirement.key), requirement, report)
    for requirement in term.match_fields or ():
        if requirement.key != NAME_FIELD:
            report("matchFields", f"field {requirement.key[:64]!r} is not known")
            return np.zeros(len(facts), dtype=bool)
        mask &= _matching_rows(np.arange(len(facts), dtype=np.int32), facts.index, requirement, report)
    return mask


def _matching_rows(codes: Codes, values: Mapping[str, int], requirement: Requirement, report: FieldReporter) -> Mask:
    """The rows of a label column that match a requirement. Each distinct label value is compared only once."""
    wanted = requirement.values or []
    if requirement.operator in ("In", "NotIn") and not wanted:
        report(requirement.key, f"{requirement.operator} needs values")
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
                report(requirement.key, f"{requirement.operator} needs one integer, got {str(wanted)[:64]}")
                return np.zeros(len(codes), dtype=bool)
            greater = requirement.operator == "Gt"
            numbers = [_integer(value) for value in values]
            good = [n is not None and (n > bound if greater else n < bound) for n in numbers]
            mask: Mask = np.array([*good, False], dtype=bool)[codes]  # code -1 picks the last
            return mask
    report(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
    return np.zeros(len(codes), dtype=bool)


def _any_of(codes: Codes, values: Mapping[str, int], wanted: Iterable[str]) -> Mask:
    """The rows whose label has one of the values."""
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
    """The signed 64-bit integer that a text of decimal digits denotes, or None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


# --- Pods ---
def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match a label selector. A selector of None matches nothing; an empty selector matches
    everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(label_matches(requirement, labels) for requirement in selector.match_expressions or ())


def is_valid(selector: LabelSelector | None, report: FieldReporter) -> bool:
    """Whether every requirement of a label selector is valid. A Pod whose affinity has an invalid selector is not
    scheduled, because the Pods that it must avoid are not known."""
    valid = True
    for requirement in (selector.match_expressions if selector else None) or ():
        if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            report(requirement.key, f"operator {requirement.operator[:32]!r} is not known")
        elif requirement.operator in ("In", "NotIn") and not requirement.values:
            report(requirement.key, f"{requirement.operator} needs values")
        elif requirement.operator not in ("In", "NotIn") and requirement.values:
            report(requirement.key, f"{requirement.operator} needs no values")
        else:
            continue
        valid = False
    return valid


def label_matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement of a label selector. An unknown operator matches nothing."""
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
    """Selects Pods by namespace and labels, for one (anti-)affinity term or topology spread constraint."""

    def __init__(
        self,
        selector: LabelSelector | None,
        namespaces: frozenset[str] | None,
        report: FieldReporter,
        extra: Sequence[Requirement] = (),
    ) -> None:
        """``namespaces``: None selects all namespaces. ``extra``: requirements from matchLabelKeys and
        mismatchLabelKeys."""
        self.valid = is_valid(selector, report)
        """Whether the selector is valid. An invalid selector selects nothing."""
        self.selects_all_labels = selector is not None and not (
            selector.match_labels or selector.match_expressions or extra
        )
        """Whether the selector matches any labels, because it has no requirements."""
        self._selector = selector
        self._namespaces = namespaces
        self._extra = extra

    @property
    def label(self) -> tuple[str, str] | None:
        """One label (key, value) that every selected Pod has, if matchLabels names any, or an expression one value."""
        if self._selector is None:
            return None
        if self._selector.match_labels:
            return next(iter(self._selector.match_labels.items()))
        for requirement in self._selector.match_expressions or ():
            if requirement.operator == "In" and requirement.values and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None

    @property
    def only_namespace(self) -> str | None:
        """The namespace of all selected Pods; None: they may be in several."""
        return next(iter(self._namespaces)) if self._namespaces is not None and len(self._namespaces) == 1 else None

    def selects(self, cls: TaskClass) -> bool:
        """Whether the Pods of a class are selected."""
        if not self.valid or (self._namespaces is not None and cls.namespace not in self._namespaces):
            return False
        return matches(self._selector, cls.labels) and all(label_matches(r, cls.labels) for r in self._extra)

    def weight(self, cls: TaskClass) -> float:
        """1 if the Pods of a class are selected, else 0."""
        return float(self.selects(cls))


def selector_of_term(
    term: PodAffinityTerm, cls: TaskClass, known: Mapping[str, Namespace], report: FieldReporter
) -> PodSelector:
    """The selector of a term of a class. ``known``: all namespaces of the cluster, by name."""
    names: frozenset[str] | None = frozenset(term.namespaces or ())
    valid = is_valid(term.namespace_selector, report)
    if term.namespace_selector is not None:
        chosen = {n for n, o in known.items() if valid and matches(term.namespace_selector, o.metadata.labels or {})}
        empty = not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
        names = None if empty else frozenset(term.namespaces or ()) | chosen
    elif not term.namespaces:
        names = frozenset({cls.namespace})
    extra = [
        *own_label_requirements(term.match_label_keys, cls),
        *own_label_requirements(term.mismatch_label_keys, cls, operator="NotIn"),
    ]
    result = PodSelector(term.label_selector, names, report, extra)
    result.valid = result.valid and valid
    return result


def own_label_requirements(keys: Iterable[str] | None, cls: TaskClass, operator: str = "In") -> list[Requirement]:
    """Requirements that select the Pods with the class's own values of some labels (``NotIn``: with other or no
    values)."""
    return [
        Requirement(key=key, operator=operator, values=[cls.labels[key]]) for key in keys or () if key in cls.labels
    ]


Label = tuple[str, str]


class Selections:
    """The selectors of one namespace. Immutable."""

    def __init__(self, services: Mapping[str, Mapping[str, str]], workloads: Mapping[str, LabelSelector]) -> None:
        """``services``: name -> selector, not empty. ``workloads``: ``Kind/name`` -> selector."""
        self._workloads = workloads
        self._services: dict[Label, list[Mapping[str, str]]] = {}
        """Selectors of Services, by one of their labels."""
        self._workload_labels: dict[Label, list[Mapping[str, str]]] = {}
        """matchLabels of workloads without matchExpressions, by one of the labels."""
        self._expression_keys: set[str] = set()
        """Label keys of workloads with matchExpressions."""
        for selector in services.values():
            self._services.setdefault(next(iter(selector.items())), []).append(selector)
        for wanted in workloads.values():
            labels = wanted.match_labels or {}
            if wanted.match_expressions:
                self._expression_keys.update(labels, (requirement.key for requirement in wanted.match_expressions))
            elif labels:
                self._workload_labels.setdefault(next(iter(labels.items())), []).append(labels)

    def services(self, labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """The selectors of Services that match these labels."""
        return _matching(self._services, labels)

    def workload(self, name: str) -> LabelSelector | None:
        """The selector of a workload (``Kind/name``), or None."""
        return self._workloads.get(name)

    def keys(self, labels: Mapping[str, str]) -> set[str]:
        """The label keys that decide which selectors match a Pod with these labels. The caller must not change the
        set."""
        if not self._services and not self._workload_labels:
            return self._expression_keys
        found = chain(_matching(self._services, labels), _matching(self._workload_labels, labels))
        return self._expression_keys.union(*found)


def _matching(index: Mapping[Label, list[Mapping[str, str]]], labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    for label in labels.items():
        for selector in index.get(label, ()):
            if selector.items() <= labels.items():
                yield selector


NOTHING_SELECTED = Selections({}, {})
