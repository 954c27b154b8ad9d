"""Required affinity and anti-affinity between Pods (Kubernetes' InterPodAffinity filter), as columns.

Three conditions: the domains of a node hold the Pods that the task wants to be with; they hold none that it wants to
be away from; and none there wants to be away from it. They are of scope CLUSTER, but for keeping away from Pods on the
same host: that is a matter of each node alone.
"""

from collections.abc import Collection, Sequence

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import PodAffinity, PodAffinityTerm
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, Nowhere, Scope
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import CountingFilter, DomainCounts, PodCounts, Weight
from scheduler.plugins.selectors import Complain, selector_of_term
from scheduler.plugins.sociable import Wishes

NO_COMPANY = "node(s) didn't match pod affinity rules"
UNWANTED_COMPANY = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


def required_terms(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()


def inter_pod_affinity(session: Session, counts: PodCounts, cls: TaskClass, complain: Complain) -> list[Filter]:
    """The filters that apply to a class; none for most."""
    affinity = cls.affinity
    filters: list[Filter] = []
    namespaces = session.snapshot.namespaces
    wanted = required_terms(affinity.pod_affinity if affinity else None)
    if wanted:
        selectors = [selector_of_term(term, cls, namespaces, complain) for term in wanted]
        if not all(selector.sound for selector in selectors):
            return [Nowhere(NO_COMPANY)]

        def company(other: TaskClass) -> float:
            return float(all(selector.selects(other) for selector in selectors))

        found = [counts.count(term.topology_key, company, clue=selectors[0].label) for term in wanted]
        filters.append(CompanyFilter(found, cls))
    away: list[AwayFilter] = []
    for term in required_terms(affinity.pod_anti_affinity if affinity else None):
        selector = selector_of_term(term, cls, namespaces, complain)
        if not selector.sound:
            return [Nowhere(UNWANTED_COMPANY)]
        unwanted = counts.count(term.topology_key, selector.one, clue=selector.label)
        away.append(AwayFilter(unwanted, cls, UNWANTED_COMPANY, tuple(away)))
    hostile: dict[str, set[int]] = {}
    for wish in session.once(Wishes).about(cls):
        if not wish.weight:
            hostile.setdefault(wish.key, set()).add(wish.cls.id)
    for key, ids in hostile.items():
        away.append(AwayFilter(counts.count(key, _one_of(ids), clue=ids), cls, UNWELCOME, tuple(away)))
    return [*filters, *away]


def _one_of(ids: Collection[int]) -> Weight:
    return lambda cls: float(cls.id in ids)


class CompanyFilter(CountingFilter):
    """Every term's domain of the node holds a Pod wanted. Where none exists anywhere, a task that would be such a Pod
    itself may be the first."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, found: Sequence[DomainCounts], cls: TaskClass) -> None:
        super().__init__(found, cls, NO_COMPANY)
        self._alone = bool(found[0].weight(cls))

    def room(self, rows: Rows) -> Counts:
        first = self._alone and all(counts.nobody for counts in self.found)
        passes = np.ones(len(rows), dtype=bool)
        for counts in self.found:
            passes &= counts.codes[rows] >= 0 if first else counts.at_nodes(rows) > 0
        return np.where(passes, UNBOUNDED, 0)


class AwayFilter(CountingFilter):
    """The node's domain holds none of the Pods counted, and takes one at most if the class is one of them."""

    unresolvable = False

    def __init__(self, counts: DomainCounts, cls: TaskClass, reason: str, before: Sequence[CountingFilter]) -> None:
        super().__init__([counts], cls, reason, before)
        self.scope = Scope.NODE if counts.apart else Scope.CLUSTER
        self._counts = counts
        self._itself = bool(counts.weight(cls))

    def room(self, rows: Rows) -> Counts:
        free: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        if self._itself:
            free[self._counts.codes[rows] >= 0] = 1
        free[self._counts.at_nodes(rows) > 0] = 0
        return free
