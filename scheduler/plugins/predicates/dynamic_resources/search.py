"""The search for devices on one node: the first combination, in the order of pools, that satisfies all claims of a Pod.

Every request tries its alternatives in turn, every alternative the devices in their order; what leads nowhere is given
back and the next is tried. Devices of one request are taken in ascending order only, since their order makes no
difference. The outcome is that of kube-scheduler's allocator, which tries the same in the same order.
"""

from collections.abc import Iterator, Sequence

from scheduler.api import dra
from scheduler.api.tolerations import tolerates
from scheduler.plugins.predicates.dynamic_resources.books import Books, Pick
from scheduler.plugins.predicates.dynamic_resources.constraints import Constraint
from scheduler.plugins.predicates.dynamic_resources.demand import Ask, Demand
from scheduler.plugins.predicates.dynamic_resources.devices import Device
from scheduler.plugins.predicates.dynamic_resources.expressions import ExpressionError
from scheduler.plugins.predicates.dynamic_resources.pools import NodePools

Picks = list[list[Pick]]
"""What was chosen, a list for each demand."""
MOST_REMEMBERED = 256
"""Combinations of expressions of which a node's answer is kept."""
TIMED_OUT = "timed out trying to allocate devices"


class NodeRefusedError(Exception):
    """The devices of one node cannot be chosen from, for the reason given."""


class Budget:
    """How many choices may be taken back before a search is given up."""

    def __init__(self, choices: int | None) -> None:
        """None: any number."""
        self._left = choices

    def spend(self) -> None:
        """Raises NodeRefusedError when it is used up."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise NodeRefusedError(TIMED_OUT)


class _Found:
    """Everything is chosen."""


_FOUND = _Found()
_Frame = Iterator["_Frame | _Found"]
"""Choices at one point: each ``next`` takes back the choice before, makes another and gives what comes after it."""


def selected(pools: NodePools, ask: Ask) -> tuple[Device, ...]:
    """The devices on a node that the selectors of a request select, or err on: who takes one is told."""
    found = pools.chosen.get(ask.expressions)
    if found is None:
        if len(pools.chosen) >= MOST_REMEMBERED:
            pools.chosen.clear()
        found = pools.chosen[ask.expressions] = tuple(d for d in pools.devices if may_select(d, ask))
    return found


def may_select(device: Device, ask: Ask) -> bool:
    """Whether the selectors of a request select a device, or err on it."""
    return _verdict(device, ask) != ""


def _verdict(device: Device, ask: Ask) -> str | None:
    """None: selected; "": not selected; else why that cannot be said."""
    for owner, expression in ask.selectors:
        try:
            if not device.selected(expression):
                return ""
        except ExpressionError as error:
            return f"{owner}: {error}"
    return None


class Search:
    """One search. ``run`` once."""

    def __init__(self, books: Books, pools: NodePools, demands: Sequence[Demand], budget: Budget) -> None:
        self._books = books
        self._pools = pools
        self._budget = budget
        self._requests = [(i, alternatives) for i, demand in enumerate(demands) for alternatives in demand.requests]
        self._demands = demands
        self._constraints = [[Constraint(spec) for spec in demand.constraints] for demand in demands]
        self._all: dict[Ask, tuple[Device, ...]] = {}
        self._holders: dict[Device, list[int]] = {}
        """Devices chosen for one claim alone -> the claims they were chosen for; administrators' access included."""
        self._picks: Picks = [[] for _ in demands]

    def run(self) -> Picks | None:
        """The devices, which are taken in the books; None (and nothing taken) if there is no way. Raises
        NodeRefusedError, nothing taken."""
        self._check()
        frames: list[_Frame] = [self._request(0)]
        try:
            while frames:
                following = next(frames[-1], None)
                if following is None:
                    frames.pop()
                elif isinstance(following, _Found):
                    return self._picks
                else:
                    frames.append(following)
        except NodeRefusedError:
            for claim, picks in enumerate(self._picks):
                while picks:
                    self._give_back(claim)
            raise
        if self._pools.invalid:
            raise NodeRefusedError("invalid resource pools were encountered")
        return None

    def _check(self) -> None:
        """Count what is asked for. Raises NodeRefusedError where that is too much, or cannot be said."""
        for claim, demand in enumerate(self._demands):
            least = 0
            for alternatives in demand.requests:
                for ask in alternatives:
                    if ask.everything:
                        self._all[ask] = self._everything(claim, ask)
                least += min(map(self._number, alternatives))
            if least > dra.MOST_RESULTS:
                raise NodeRefusedError(
                    f"claim {demand.title}: number of requested devices {least} exceeds the claim limit of "
                    f"{dra.MOST_RESULTS}"
                )

    def _where(self, claim: int, ask: Ask) -> str:
        return f"claim {self._demands[claim].title}, request {ask.name}"

    def _everything(self, claim: int, ask: Ask) -> tuple[Device, ...]:
        pools, where = self._pools, self._where(claim, ask)
        if pools.incomplete:
            raise NodeRefusedError(
                f"{where}: asks for all devices, but resource pool {pools.incomplete} is currently being updated"
            )
        if pools.invalid:
            raise NodeRefusedError(
                f"{where}: asks for all devices, but resource pool {pools.invalid} is currently invalid"
            )
        devices = selected(pools, ask)
        for device in devices:
            problem = _verdict(device, ask)
            if problem:
                raise NodeRefusedError(problem)
        return tuple(device for device in devices if self._books.consumption(device, ask) is not None)

    def _number(self, ask: Ask) -> int:
        return len(self._all[ask]) if ask.everything else ask.spec.count

    # --- frames ---
    def _request(self, position: int) -> _Frame:
        """The alternatives of one request."""
        if position == len(self._requests):
            yield _FOUND
            return
        claim, alternatives = self._requests[position]
        for ask in alternatives:
            if len(self._picks[claim]) + self._number(ask) > dra.MOST_RESULTS:
                continue
            if ask.everything:
                yield self._take_all(position, claim, ask)
            else:
                yield self._devices(position, claim, ask, ask.spec.count, 0)

    def _devices(self, position: int, claim: int, ask: Ask, missing: int, start: int) -> _Frame:
        """The devices for one of those still missing."""
        devices = selected(self._pools, ask)
        for i in range(start, len(devices) - missing + 1):
            if not self._take(claim, ask, devices[i]):
                continue
            yield (
                self._request(position + 1) if missing == 1 else self._devices(position, claim, ask, missing - 1, i + 1)
            )
            self._give_back(claim)
            self._budget.spend()

    def _take_all(self, position: int, claim: int, ask: Ask) -> _Frame:
        devices = self._all[ask]
        if not devices:
            return  # "all" means one at least
        taken = 0
        for device in devices:
            if not self._take(claim, ask, device):
                break
            taken += 1
        else:
            yield self._request(position + 1)
        for _ in range(taken):
            self._give_back(claim)

    # --- one device ---
    def _take(self, claim: int, ask: Ask, device: Device) -> bool:
        holders = self._holders.get(device, [])
        if (claim in holders) if ask.spec.admin_access else (holders or not self._books.free(device)):
            return False
        problem = _verdict(device, ask)
        if problem:
            raise NodeRefusedError(problem)
        consumed = self._books.consumption(device, ask)
        if consumed is None or not self._books.counters_left(device) or not _tolerated(device, ask):
            return False
        constraints = self._constraints[claim]
        for i, constraint in enumerate(constraints):
            if not constraint.add(ask, device):
                for joined in constraints[:i]:
                    joined.remove(ask, device)
                if ask.everything:
                    raise NodeRefusedError(
                        f"{self._where(claim, ask)}: cannot add device {'/'.join(device.id)} because a claim "
                        "constraint would not be satisfied"
                    )
                return False
        pick = Pick(device, ask, consumed if device.shared else {})
        self._books.take(pick)
        self._picks[claim].append(pick)
        if not device.shared:
            self._holders.setdefault(device, []).append(claim)
        return True

    def _give_back(self, claim: int) -> None:
        """Undo the last choice for a claim."""
        pick = self._picks[claim].pop()
        self._books.give_back(pick)
        if not pick.device.shared:
            self._holders[pick.device].remove(claim)
        for constraint in self._constraints[claim]:
            constraint.remove(pick.ask, pick.device)


def _tolerated(device: Device, ask: Ask) -> bool:
    """Whether the request tolerates every taint that keeps claims off the device."""
    tolerations = ask.spec.tolerations or ()
    return all(tolerates(tolerations, taint) for taint in device.taints)


def give_back(books: Books, picks: Picks) -> None:
    """Undo a search that found something."""
    for chosen in reversed(picks):
        for pick in reversed(chosen):
            books.give_back(pick)
