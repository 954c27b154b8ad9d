"""The (anti-)affinity terms of all task classes, looked up by the classes whose Pods they select.

Affinity works in both directions: the term of a Pod that is already placed can exclude an incoming Pod or raise a
node's score for it. Matching each term of a thousand classes against each class would take a million comparisons.
Most terms name a label, so terms are indexed by it, and a class is matched only against terms that name one of its
labels and against the terms that name none. Those are indexed by namespace, so that what a user writes concerns the
Pods of other namespaces only if it says so.
"""

from collections.abc import Iterator, Sequence

import msgspec

from scheduler.api.kinds import NAMESPACE
from scheduler.api.objects import PodAffinityTerm
from scheduler.api.selectors import PodSelector, ignore_field, selector_of_term
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session


class AffinityTerm(msgspec.Struct, frozen=True):
    """One (anti-)affinity term of one class."""

    cls: TaskClass
    """The class that has the term."""
    key: str
    """Topology key."""
    weight: int
    """Of a preferred term, negative for anti-affinity; 0 for a required anti-affinity term."""
    pods: PodSelector


class AffinityTerms:
    """The terms of a session's classes that concern other Pods: preferred terms, and required anti-affinity. Plugins
    share one index through ``Session.once``."""

    def __init__(self, session: Session) -> None:
        self._by_label: dict[tuple[str, str], list[AffinityTerm]] = {}
        self._without_label: dict[str | None, list[AffinityTerm]] = {}
        """By the only namespace whose Pods they select; None: they may select those of several."""
        self._selecting: dict[tuple[object, ...], list[AffinityTerm]] = {}
        """Namespace and labels of classes -> the terms that select them."""
        namespaces = session.snapshot.objects[NAMESPACE]
        for cls in session.snapshot.affinity_classes:
            for term, weight in _terms(cls):
                selector = selector_of_term(term, cls, namespaces, ignore_field)
                indexed = AffinityTerm(cls, term.topology_key, weight, selector)
                label = selector.label
                if label is not None:
                    self._by_label.setdefault(label, []).append(indexed)
                else:
                    self._without_label.setdefault(selector.only_namespace, []).append(indexed)

    def selecting(self, cls: TaskClass) -> Sequence[AffinityTerm]:
        """The terms that select the Pods of a class. They depend on its namespace and labels only, so they are found
        once for the classes that differ in something else."""
        key = (cls.namespace, *cls.labels.items())
        found = self._selecting.get(key)
        if found is None:
            found = self._selecting[key] = [term for term in self._candidates(cls) if term.pods.selects(cls)]
        return found

    def _candidates(self, cls: TaskClass) -> Iterator[AffinityTerm]:
        for namespace in (None, cls.namespace):
            yield from self._without_label.get(namespace, ())
        for label in cls.labels.items():
            yield from self._by_label.get(label, ())


def _terms(cls: TaskClass) -> Iterator[tuple[PodAffinityTerm, int]]:
    pod_affinity = cls.affinity.pod_affinity if cls.affinity else None
    anti_affinity = cls.affinity.pod_anti_affinity if cls.affinity else None
    if anti_affinity is not None:
        for term in anti_affinity.required_during_scheduling_ignored_during_execution or ():
            yield term, 0
    for terms, sign in ((pod_affinity, 1), (anti_affinity, -1)):
        for preferred in (terms.preferred_during_scheduling_ignored_during_execution if terms else None) or ():
            if preferred.weight:
                yield preferred.pod_affinity_term, sign * preferred.weight
