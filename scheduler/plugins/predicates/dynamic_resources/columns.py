"""Filters and scores for a class of tasks with claims: the nodes where the claims can be allocated, and those that
offer their preferred alternatives.

If each device belongs to one node, the result for a node changes only with placements on it (scope NODE). Devices that
several nodes can take, and claims that several tasks share, make the filter depend on all nodes (scope CLUSTER).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.api.dra import MAX_ALTERNATIVES
from scheduler.api.names import DEVICE_CLASS_QUOTA
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.reasons import Shortage
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.runs import MAX_RUN
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.predicates.dynamic_resources.budget import Budget, NodeRejectedError, OverBudgetError
from scheduler.plugins.predicates.dynamic_resources.claims import ClassClaims
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative, ClaimDemand
from scheduler.plugins.predicates.dynamic_resources.ledger import DeviceLedger
from scheduler.plugins.predicates.dynamic_resources.pools import NodePools
from scheduler.plugins.predicates.dynamic_resources.search import CANNOT_ALLOCATE, Picks, number_free, release

FULL: Final = 100
FilterOf = Callable[[Sequence[ClaimDemand]], "DeviceFilter"]
"""Returns the filter for some demands."""
NodesOf = Callable[[Sequence[str]], Mask]
"""Returns the nodes that can use the allocations of claims, given by key."""
_CachedRoom = tuple[int, int, int, str]
"""Version of the books, number of tasks tried, number of tasks that fit, reason if none fits."""
NOT_AVAILABLE: Final = "resourceclaim not available on the node"


class DeviceFilter:
    """Rejects nodes whose free devices do not satisfy the claims of a task."""

    scope = Scope.NODE
    unresolvable = True

    def __init__(
        self, ledger: DeviceLedger, demands: Sequence[ClaimDemand], cls: TaskClass, nodes: Nodes, budget: Budget
    ) -> None:
        self._ledger = ledger
        self._demands = demands
        self._request = cls.request
        self._nodes = nodes
        self._budget = budget
        self._cached: dict[NodePools, _CachedRoom] = {}

    def room(self, rows: Rows) -> Counts:
        limits = self._limits(rows)
        room: Counts = np.zeros(len(rows), dtype=np.int64)
        for i in self._order(rows):
            room[i] = self._compute(int(rows[i]), int(limits[i]))[2]
        return room

    def _order(self, rows: Rows) -> Sequence[int]:
        """The order in which nodes are searched: from the one at which the budget ended the last attempt, so that each
        has its turn."""
        first = int(np.searchsorted(rows, self._budget.first_row)) if self._budget.first_row else 0
        return [*range(first, len(rows)), *range(first)]

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return Counter(self._compute(row, 1)[3] for row in rows.tolist()).items()

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        """Yields a shortage for each DeviceClass of which more devices are requested than any of the nodes has free."""
        pools = list(dict.fromkeys(self._ledger.inventory.at(row) for row in rows.tolist()))
        requested: Counter[str] = Counter()
        first: dict[str, Alternative] = {}
        for demand in self._demands:
            for alternative, number in demand.least_numbers():
                requested[alternative.device_class] += number
                first.setdefault(alternative.device_class, alternative)
        given = self._ledger.selectors, self._budget
        for name, number in requested.items():
            try:
                free = max((number_free(self._ledger.books, each, first[name], *given) for each in pools), default=0)
            except OverBudgetError:
                return
            if free < number:
                yield Shortage(f"{DEVICE_CLASS_QUOTA}{name}", number * 1000.0, 0.0, free * 1000.0, "Node")

    def _limits(self, rows: Rows) -> Counts:
        """The number of tasks that fit each node by resource amounts and Pod count, at least 1."""
        nodes, request = self._nodes, self._request
        limits = np.minimum(nodes.pod_room(rows), MAX_RUN)
        for d in np.flatnonzero(request > 0):
            if d != PODS_INDEX:
                np.minimum(limits, nodes.idle[d, rows] // request[d], out=limits)
        return np.maximum(limits, 1).astype(np.int64)

    def _compute(self, row: int, limit: int) -> _CachedRoom:
        pools = self._ledger.inventory.at(row)
        version = self._ledger.books.version(pools)
        known = self._cached.get(pools)
        if known is not None and known[0] == version and (known[2] < known[1] or limit <= known[1]):
            return (version, limit, min(known[2], limit), known[3])
        if self._budget.over:
            return (version, limit, 0, self._budget.over)
        self._budget.row = row
        try:
            room, reason = self._ledger.room(self._demands, row, limit, self._budget), CANNOT_ALLOCATE
        except NodeRejectedError as error:
            room, reason = 0, str(error)
        known = self._cached[pools] = (version, limit, room, reason)
        return known


class MultiNodeDeviceFilter(DeviceFilter):
    """A DeviceFilter for devices that several nodes can take. Nodes with the same pools are equivalent."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(
        self, ledger: DeviceLedger, demands: Sequence[ClaimDemand], cls: TaskClass, nodes: Nodes, budget: Budget
    ) -> None:
        super().__init__(ledger, demands, cls, nodes, budget)
        self._codes: dict[NodePools, int] = {}
        self._tried: dict[int, list[Picks]] = {}

    def traits(self, rows: Rows) -> Sequence[Column]:
        codes = self._codes
        at = self._ledger.inventory.at
        return [np.array([codes.setdefault(at(row), len(codes)) for row in rows.tolist()], dtype=np.float64)]

    def place(self, row: int, number: int) -> None:
        tried = self._tried.setdefault(row, [])
        for _ in range(number):
            tried.append(self._ledger.choose(self._demands, row))
        for _ in range(-number):
            release(self._ledger.books, tried.pop())

    def _limits(self, rows: Rows) -> Counts:
        return np.ones(len(rows), dtype=np.int64)


class SharedClaimFilter:
    """The filter for a class whose tasks share claims that were not allocated when the session opened. The devices that
    the first task gets must be accessible to the others."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, ledger: DeviceLedger, claims: ClassClaims, filter_of: FilterOf, nodes_of: NodesOf) -> None:
        self._ledger = ledger
        self._claims = claims
        self._filter_of = filter_of
        self._nodes_of = nodes_of
        self._last: tuple[tuple[ClaimDemand, ...], DeviceFilter] | None = None

    def room(self, rows: Rows) -> Counts:
        accessible = self._accessible()[rows]
        room: Counts = np.zeros(len(rows), dtype=np.int64)
        devices = self._device_filter()
        room[accessible] = devices.room(rows[accessible]) if devices is not None else UNBOUNDED
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        accessible = self._accessible()[rows]
        devices = self._device_filter()
        if not accessible.all():
            yield NOT_AVAILABLE, int((~accessible).sum())
        if devices is not None and accessible.any():
            yield from devices.reasons(rows[accessible])

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        devices, accessible = self._device_filter(), self._accessible()[rows]
        return devices.shortages(rows[accessible]) if devices is not None and accessible.any() else ()

    def _device_filter(self) -> DeviceFilter | None:
        """The filter for the claims that are not allocated yet; None if all are."""
        demands = tuple(claim.demand for claim in self._ledger.unallocated(self._claims))
        if not demands:
            return None
        if self._last is None or self._last[0] != demands:
            self._last = (demands, self._filter_of(demands))
        return self._last[1]

    def _accessible(self) -> Mask:
        """The nodes that can use the devices allocated to the shared claims in this session."""
        return self._nodes_of([claim.key for claim in self._claims.unallocated if claim.key])


class PreferenceScore:
    """Prefers nodes that offer the preferred alternatives of requests (as kube-scheduler's DynamicResources)."""

    scope = Scope.CLUSTER

    def __init__(self, ledger: DeviceLedger, claims: ClassClaims) -> None:
        self._ledger = ledger
        self._claims = claims
        self._cached: dict[NodePools, tuple[int, int]] = {}

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        demands = [claim.demand for claim in self._ledger.unallocated(self._claims)]
        points = np.array([self._points_at(demands, row) for row in rows.tolist()], dtype=np.float64)
        maximum = points.max(initial=0.0)
        column: Column = np.floor(FULL * points / maximum) if maximum else points
        return column

    def _points_at(self, demands: Sequence[ClaimDemand], row: int) -> int:
        ledger = self._ledger
        pools = ledger.inventory.at(row)
        version = ledger.books.version(pools)
        known = self._cached.get(pools)
        if known is None or known[0] != version:
            known = self._cached[pools] = (version, ledger.evaluate(demands, row, _points))
        return known[1]


def _points(picks: Picks) -> int:
    """8 points for each request that gets its first alternative, 7 for the second, and so on."""
    chosen = {(i, pick.alternative) for i, claim in enumerate(picks) for pick in claim}
    return sum(MAX_ALTERNATIVES - alternative.choice for _, alternative in chosen if alternative.choice >= 0)
