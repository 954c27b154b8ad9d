"""The selectors of Services and workloads, by namespace.

Kubernetes spreads the Pods of a Service or ReplicaSet by default, without topology spread constraints.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from scheduler.api.objects import LabelSelector

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
