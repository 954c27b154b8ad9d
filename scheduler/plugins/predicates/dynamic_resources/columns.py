"""What the devices answer about nodes for one class of tasks: where its claims can be allocated, and which node offers
the better of their alternatives.

As long as every device asked for is of one node, an answer holds until something is placed there; devices that several
nodes can take, and claims that several tasks share, bind all nodes together.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.api.dra import MOST_ALTERNATIVES
from scheduler.api.names import DEVICE_CLASS_QUOTA
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.reasons import Shortage
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.framework.runs import LONGEST
from scheduler.plugins.predicates.dynamic_resources.claims import ClassClaims
from scheduler.plugins.predicates.dynamic_resources.demand import Ask, Demand
from scheduler.plugins.predicates.dynamic_resources.ledger import DeviceLedger
from scheduler.plugins.predicates.dynamic_resources.pools import NodePools
from scheduler.plugins.predicates.dynamic_resources.search import Budget, NodeRefusedError, Picks, give_back, selected
from scheduler.plugins.predicates.dynamic_resources.words import CANNOT_ALLOCATE, NOT_AVAILABLE

FULL: Final = 100
Devices = Callable[[Sequence[Demand]], "DeviceFilter"]
"""The filter for some demands."""
Reach = Callable[[Sequence[str]], Mask]
"""The nodes that can use what claims, by key, have got."""
_Answer = tuple[int, int, int, str]
"""Stamp of the books, how many tasks were tried, how many there is room for, why for none."""


class DeviceFilter:
    """Nodes whose free devices satisfy the claims of a task."""

    scope = Scope.NODE
    unresolvable = True

    def __init__(
        self, ledger: DeviceLedger, demands: Sequence[Demand], cls: TaskClass, nodes: Nodes, budget: Budget
    ) -> None:
        self._ledger = ledger
        self._demands = demands
        self._request = cls.request
        self._nodes = nodes
        self._budget = budget
        self._answers: dict[NodePools, _Answer] = {}

    def room(self, rows: Rows) -> Counts:
        most = self._most(rows)
        room: Counts = np.array(
            [self._ask(row, limit)[2] for row, limit in zip(rows.tolist(), most.tolist(), strict=True)], dtype=np.int64
        )
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return Counter(self._ask(row, 1)[3] for row in rows.tolist()).items()

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        """For each DeviceClass of which more is asked for than any of the nodes has free."""
        pools = list(dict.fromkeys(self._ledger.inventory.at(row) for row in rows.tolist()))
        asked: Counter[str] = Counter()
        first: dict[str, Ask] = {}
        for demand in self._demands:
            for alternatives in demand.requests:
                ask = alternatives[-1]
                if not ask.everything:
                    asked[ask.device_class] += ask.spec.count
                    first.setdefault(ask.device_class, ask)
        for name, number in asked.items():
            most = max((self._free(each, first[name]) for each in pools), default=0)
            if most < number:
                yield Shortage(f"{DEVICE_CLASS_QUOTA}{name}", number * 1000.0, 0.0, most * 1000.0, "Node")

    def _free(self, pools: NodePools, ask: Ask) -> int:
        books = self._ledger.books
        return sum(books.free(device) and books.consumption(device, ask) is not None for device in selected(pools, ask))

    def _most(self, rows: Rows) -> Counts:
        """How many tasks are worth a try: what the nodes have of amounts and Pods, one at least."""
        nodes, request = self._nodes, self._request
        most = np.minimum(nodes.pod_room(rows), LONGEST)
        for d in np.flatnonzero(request > 0):
            if d != PODS_INDEX:
                np.minimum(most, nodes.idle[d, rows] // request[d], out=most)
        return np.maximum(most, 1).astype(np.int64)

    def _ask(self, row: int, most: int) -> _Answer:
        pools = self._ledger.inventory.at(row)
        stamp = self._ledger.books.stamp(pools)
        known = self._answers.get(pools)
        if known is not None and known[0] == stamp and (known[2] < known[1] or most <= known[1]):
            return (stamp, most, min(known[2], most), known[3])
        try:
            room, reason = self._ledger.room(self._demands, row, most, self._budget), CANNOT_ALLOCATE
        except NodeRefusedError as error:
            room, reason = 0, str(error)
        answer = self._answers[pools] = (stamp, most, room, reason)
        return answer


class CommonDeviceFilter(DeviceFilter):
    """The same, where several nodes can take some of the devices: they are alike that see the same pools."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(
        self, ledger: DeviceLedger, demands: Sequence[Demand], cls: TaskClass, nodes: Nodes, budget: Budget
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
            give_back(self._ledger.books, tried.pop())

    def _most(self, rows: Rows) -> Counts:
        return np.ones(len(rows), dtype=np.int64)


class SharedClaimFilter:
    """Nodes for a class whose tasks share claims that were not allocated when the session was opened: what the first
    of them gets is what the others have to reach."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, ledger: DeviceLedger, claims: ClassClaims, devices: Devices, reach: Reach) -> None:
        self._ledger = ledger
        self._claims = claims
        self._devices = devices
        self._reach = reach
        self._kept: tuple[tuple[Demand, ...], DeviceFilter] | None = None

    def room(self, rows: Rows) -> Counts:
        reached = self._reached()[rows]
        room: Counts = np.zeros(len(rows), dtype=np.int64)
        devices = self._now()
        room[reached] = devices.room(rows[reached]) if devices is not None else UNBOUNDED
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        reached = self._reached()[rows]
        devices = self._now()
        if not reached.all():
            yield NOT_AVAILABLE, int((~reached).sum())
        if devices is not None and reached.any():
            yield from devices.reasons(rows[reached])

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        devices = self._now()
        return devices.shortages(rows) if devices is not None else ()

    def _now(self) -> DeviceFilter | None:
        """What the devices say of the claims that are still to be allocated; None: there are none."""
        demands = tuple(wanted.demand for wanted in self._ledger.lacking(self._claims))
        if not demands:
            return None
        if self._kept is None or self._kept[0] != demands:
            self._kept = (demands, self._devices(demands))
        return self._kept[1]

    def _reached(self) -> Mask:
        """The nodes that can use what was given in this session."""
        return self._reach([wanted.key for wanted in self._claims.wanted if wanted.key])


class PreferenceScore:
    """Nodes where the preferred alternatives of requests can be had first (as kube-scheduler's DynamicResources)."""

    scope = Scope.CLUSTER

    def __init__(self, ledger: DeviceLedger, claims: ClassClaims) -> None:
        self._ledger = ledger
        self._claims = claims
        self._answers: dict[NodePools, tuple[int, int]] = {}

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        demands = [wanted.demand for wanted in self._ledger.lacking(self._claims)]
        points = np.array([self._ask(demands, row) for row in rows.tolist()], dtype=np.float64)
        most = points.max(initial=0.0)
        column: Column = np.floor(FULL * points / most) if most else points
        return column

    def _ask(self, demands: Sequence[Demand], row: int) -> int:
        ledger = self._ledger
        pools = ledger.inventory.at(row)
        stamp = ledger.books.stamp(pools)
        known = self._answers.get(pools)
        if known is None or known[0] != stamp:
            known = self._answers[pools] = (stamp, ledger.try_out(demands, row, _points))
        return known[1]


def _points(picks: Picks) -> int:
    """8 for every request that gets what it prefers, 7 for its second choice, and so on."""
    chosen = {(i, pick.ask) for i, claim in enumerate(picks) for pick in claim}
    return sum(MOST_ALTERNATIVES - ask.choice for _, ask in chosen if ask.choice >= 0)
