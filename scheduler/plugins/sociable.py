"""What Pods of other classes wish of the Pods beside them, found by the labels of the class they wish it of.

Affinity works both ways: a Pod already placed may keep another away, or draw it near. With a thousand classes that have
such terms, asking every term about every class would take a million answers; most terms name a label, so they are kept
by it, and a class is asked about only by those that name one of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.api.objects import PodAffinityTerm
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session
from scheduler.plugins.selectors import PodSelector, selector_of_term, unheard


@dataclass(frozen=True, slots=True)
class Wish:
    """One (anti-)affinity term of one class."""

    cls: TaskClass
    key: str
    """Topology key."""
    weight: int
    """Of a preferred term, negative for anti-affinity; 0: a required anti-affinity term."""
    pods: PodSelector


class Wishes:
    """The terms of all sociable classes of a session that others must know of (``Session.once``)."""

    def __init__(self, session: Session) -> None:
        self._by_label: dict[tuple[str, str], list[Wish]] = {}
        self._rest: list[Wish] = []
        namespaces = session.snapshot.namespaces
        for cls in session.snapshot.sociable:
            for term, weight in _terms(cls):
                wish = Wish(cls, term.topology_key, weight, selector_of_term(term, cls, namespaces, unheard))
                label = wish.pods.label
                (self._rest if label is None else self._by_label.setdefault(label, [])).append(wish)

    def about(self, cls: TaskClass) -> Iterator[Wish]:
        """The wishes that speak of the Pods of a class."""
        for wish in self._rest:
            if wish.pods.selects(cls):
                yield wish
        for label in cls.labels.items():
            for wish in self._by_label.get(label, ()):
                if wish.pods.selects(cls):
                    yield wish


def _terms(cls: TaskClass) -> Iterator[tuple[PodAffinityTerm, int]]:
    affinity = cls.affinity
    away = affinity.pod_anti_affinity if affinity else None
    near = affinity.pod_affinity if affinity else None
    if away is not None:
        for term in away.required_during_scheduling_ignored_during_execution or ():
            yield term, 0
    for side, sign in ((near, 1), (away, -1)):
        for wanted in (side.preferred_during_scheduling_ignored_during_execution if side else None) or ():
            if wanted.weight:
                yield wanted.pod_affinity_term, sign * wanted.weight
