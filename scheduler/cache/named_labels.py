"""The labels of Pods that selectors in other Pods name, and plugins read.

Pods that differ in one of them are in different classes, so what one user's selector names must not divide the Pods of
all others: a gang of 5,000 Pods is placed as one class only as long as nothing tells its Pods apart. So a label counts

- in the namespaces that the term concerns: its own, the listed ones, or all if it has a namespace selector;
- by value only if a selector names the value. Pods with other values differ only from Pods without the label
  (``Exists``, ``NotIn``): they have ``OTHER`` instead.

Labels that plugins read count everywhere, with all values.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from scheduler.api.objects import LabelSelector, PodAffinityTerm, PodSpec

OTHER: Final = "\0"
"""Instead of a value that no selector names; not a valid value of a label."""
MAX_LISTED: Final = 16
"""Namespaces that a term lists, beyond which it counts for all."""
_Values = set[str] | None
"""The values that selectors distinguish; None: all."""
_NO_VALUES: Final[dict[str, _Values]] = {}
Kept = tuple[tuple[str, str], ...]


class NamedLabels:
    """Labels are only added: a selector whose Pods are gone may come again."""

    def __init__(self, keys: Iterable[str]) -> None:
        """``keys``: labels that plugins read."""
        self._everywhere: dict[str, _Values] = {}
        self._in: dict[str, dict[str, _Values]] = {}
        """Namespace -> label -> the values that selectors name there."""
        self.new: dict[str | None, dict[str, _Values]] = {}
        """What was added since ``take_new``, by namespace; None: everywhere."""
        self.read(keys)

    def read(self, keys: Iterable[str]) -> None:
        """Tells all values of some labels apart in all namespaces."""
        for key in keys:
            self._add(None, key, None)

    def name(self, namespace: str, spec: PodSpec) -> None:
        """Adds what the selectors in the spec of a Pod name."""
        for constraint in spec.topology_spread_constraints or ():
            self._name((namespace,), constraint.label_selector)
        for term in _terms(spec):
            self._name(_namespaces(namespace, term), term.label_selector)

    def name_own(self, namespace: str, spec: PodSpec, labels: Mapping[str, str]) -> None:
        """Adds the labels of a Pod whose values its own ``matchLabelKeys`` and ``mismatchLabelKeys`` refer to."""
        for constraint in spec.topology_spread_constraints or ():
            self._name_values((namespace,), constraint.match_label_keys, labels)
        for term in _terms(spec):
            for keys in (term.match_label_keys, term.mismatch_label_keys):
                if keys:
                    self._name_values(_namespaces(namespace, term), keys, labels)

    def kept(self, namespace: str, labels: Mapping[str, str], also: Collection[str] = ()) -> Kept:
        """The labels of a Pod that split classes, in order of their keys. ``also``: keys whose values all count."""
        everywhere, here = self._everywhere, self._in.get(namespace, _NO_VALUES)
        if not also and everywhere.keys().isdisjoint(labels) and here.keys().isdisjoint(labels):
            return ()
        kept = []
        for key in sorted(labels):
            if key in also:
                kept.append((key, labels[key]))
            elif key in everywhere or key in here:
                kept.append((key, self._value(everywhere, here, key, labels[key])))
        return tuple(kept)

    def take_new(self) -> dict[str | None, dict[str, set[str] | None]]:
        """Returns what was added since the last call: by namespace (None: everywhere), the keys, and the values; None:
        Pods with any value are concerned."""
        new, self.new = self.new, {}
        return new

    @staticmethod
    def _value(everywhere: dict[str, _Values], here: dict[str, _Values], key: str, value: str) -> str:
        for values in (everywhere.get(key, ()), here.get(key, ())):
            if values is None or value in values:
                return value
        return OTHER

    # --- adding ---
    def _name(self, namespaces: Iterable[str | None], selector: LabelSelector | None) -> None:
        if selector is None:
            return
        for namespace in namespaces:
            for key, value in (selector.match_labels or {}).items():
                self._add(namespace, key, (value,))
            for requirement in selector.match_expressions or ():
                self._add(namespace, requirement.key, requirement.values or ())

    def _name_values(
        self, namespaces: Iterable[str | None], keys: Iterable[str] | None, labels: Mapping[str, str]
    ) -> None:
        for key in keys or ():
            if key in labels:
                for namespace in namespaces:
                    self._add(namespace, key, (labels[key],))

    def _add(self, namespace: str | None, key: str, values: Iterable[str] | None) -> None:
        known = self._everywhere if namespace is None else self._in.setdefault(namespace, {})
        if key not in known or (values is None and known[key] is not None):
            known[key] = None if values is None else set(values)
            self.new.setdefault(namespace, {})[key] = None
            return
        told_apart = known[key]
        if told_apart is None or values is None:
            return
        added = set(values) - told_apart
        if added:
            told_apart |= added
            new = self.new.setdefault(namespace, {})
            before = new.get(key, set())
            new[key] = None if before is None else before | added


def has_one(labels: Mapping[str, str], of: Mapping[str, Collection[str] | None]) -> bool:
    """Whether labels have one of some keys with one of its values; None: with any value."""
    if of.keys().isdisjoint(labels):
        return False
    return any(key in labels and (values is None or labels[key] in values) for key, values in of.items())


def _terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    """The affinity and anti-affinity terms of a Pod that select other Pods."""
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if affinity is not None:
            yield from affinity.required_during_scheduling_ignored_during_execution or ()
            for preferred in affinity.preferred_during_scheduling_ignored_during_execution or ():
                yield preferred.pod_affinity_term


def _namespaces(own: str, term: PodAffinityTerm) -> tuple[str | None, ...]:
    """The namespaces that a term of a Pod concerns; (None,): all."""
    if term.namespace_selector is not None or len(term.namespaces or ()) > MAX_LISTED:
        return (None,)
    return tuple(term.namespaces or (own,))
