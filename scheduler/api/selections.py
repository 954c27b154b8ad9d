"""Who selects Pods by their labels besides the Pods themselves: Services and the workloads that make Pods.

Kubernetes spreads the Pods of a Service or ReplicaSet although they ask for nothing. Of these objects only the
selectors are kept, by namespace.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from scheduler.api.objects import LabelSelector

Label = tuple[str, str]


class Selections:
    """The selectors of one namespace. Immutable."""

    def __init__(self, services: Mapping[str, Mapping[str, str]], workloads: Mapping[str, LabelSelector]) -> None:
        """``services``: by name, none of them empty. ``workloads``: by ``Kind/name``."""
        self._workloads = workloads
        self._services: dict[Label, list[Mapping[str, str]]] = {}
        """By one of the labels."""
        self._plain: dict[Label, list[Mapping[str, str]]] = {}
        """Of workloads that name labels only."""
        self._always: set[str] = set()
        """Keys of which a workload says more than a value."""
        for selector in services.values():
            self._services.setdefault(next(iter(selector.items())), []).append(selector)
        for wanted in workloads.values():
            labels = wanted.match_labels or {}
            if wanted.match_expressions:
                self._always.update(labels, (requirement.key for requirement in wanted.match_expressions))
            elif labels:
                self._plain.setdefault(next(iter(labels.items())), []).append(labels)

    def services(self, labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """The selectors of the Services that select Pods with these labels."""
        return _meeting(self._services, labels)

    def workload(self, name: str) -> LabelSelector | None:
        """The selector of a workload (``Kind/name``)."""
        return self._workloads.get(name)

    def keys(self, labels: Mapping[str, str]) -> set[str]:
        """The label keys that have to be known of a Pod with these labels to tell who selects it. Not to be changed."""
        if not self._services and not self._plain:
            return self._always
        found = chain(_meeting(self._services, labels), _meeting(self._plain, labels))
        return self._always.union(*found)


def _meeting(index: Mapping[Label, list[Mapping[str, str]]], labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    for label in labels.items():
        for selector in index.get(label, ()):
            if selector.items() <= labels.items():
                yield selector


NOTHING_SELECTED = Selections({}, {})
