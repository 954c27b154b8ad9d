"""Required affinity and anti-affinity between Pods (Kubernetes' InterPodAffinity filter), as columns.

Three conditions, each of scope CLUSTER: the domains of a node hold the Pods that the task wants to be with; they hold
none that it wants to be away from; and none there wants to be away from it.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import PodAffinity, PodAffinityTerm
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import DomainCounts, PodCounts, Selects
from scheduler.plugins.selectors import Complain, selector_of_term

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

        def company(other: TaskClass) -> bool:
            return all(selector.selects(other) for selector in selectors)

        found = [counts.count(term.topology_key, company) for term in wanted]
        filters.append(CompanyFilter(found, alone=company(cls)))
    for term in required_terms(affinity.pod_anti_affinity if affinity else None):
        selector = selector_of_term(term, cls, namespaces, complain)
        filters.append(AwayFilter(counts.count(term.topology_key, selector.selects), UNWANTED_COMPANY))
    hostile: dict[str, set[int]] = {}
    for other in session.snapshot.sociable:
        for term in required_terms(other.affinity.pod_anti_affinity if other.affinity else None):
            if selector_of_term(term, other, namespaces, complain).selects(cls):
                hostile.setdefault(term.topology_key, set()).add(other.id)
    for key, ids in hostile.items():
        filters.append(AwayFilter(counts.count(key, _one_of(ids)), UNWELCOME))
    return filters


def _one_of(ids: Collection[int]) -> Selects:
    return lambda cls: cls.id in ids


class CompanyFilter:
    """Every term's domain of the node holds a Pod wanted. Where none exists anywhere, a task that would be such a Pod
    itself may be the first."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, found: Sequence[DomainCounts], *, alone: bool) -> None:
        self._found = found
        self._alone = alone

    def room(self, rows: Rows) -> Counts:
        first = self._alone and all(counts.total == 0 for counts in self._found)
        passes = np.ones(len(rows), dtype=bool)
        for counts in self._found:
            passes &= counts.codes[rows] >= 0 if first else counts.at_nodes(rows) > 0
        return np.where(passes, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((NO_COMPANY, len(rows)),)


class AwayFilter:
    """The node's domain holds none of the Pods counted."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(self, counts: DomainCounts, reason: str) -> None:
        self._counts = counts
        self._reason = reason

    def room(self, rows: Rows) -> Counts:
        return np.where(self._counts.at_nodes(rows) > 0, 0, UNBOUNDED)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((self._reason, len(rows)),)
