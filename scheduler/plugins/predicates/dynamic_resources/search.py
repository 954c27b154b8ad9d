"""Searches the devices of one node for the first combination, in the order of pools, that satisfies all claims of a
Pod.

A backtracking search: each request tries its alternatives in order, and each alternative the devices in order; if the
remaining requests cannot be satisfied, the choice is undone and the next one is tried. The devices of one request are
chosen in ascending order only, because permutations are equivalent. The result is that of kube-scheduler's allocator,
which tries the same choices in the same order.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import msgspec

from scheduler.api import dra
from scheduler.api.pod_rules import tolerates
from scheduler.plugins.predicates.dynamic_resources.books import Books, Pick
from scheduler.plugins.predicates.dynamic_resources.budget import TRY_STEPS, Budget, NodeRejectedError
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative, ClaimDemand
from scheduler.plugins.predicates.dynamic_resources.devices import SlicedDevice
from scheduler.plugins.predicates.dynamic_resources.pools import NodePools

Picks = list[list[Pick]]
"""The chosen devices, one list per demand."""
MAX_CACHED: Final = 256
"""Requests whose selected devices are kept for each node: at least those of one claim."""
CANNOT_ALLOCATE = "cannot allocate all claims"


class Constraint:
    """The state of one constraint among the devices of a claim during a search: the value of an attribute is equal on
    all, or distinct on each."""

    def __init__(self, spec: dra.DeviceConstraint) -> None:
        self._requests: Sequence[str] = spec.requests or ()
        self._must_match = spec.match_attribute is not None
        self._attribute = spec.match_attribute or spec.distinct_attribute or ""
        self._values: Counter[tuple[str, object]] = Counter()

    def add(self, alternative: Alternative, device: SlicedDevice) -> bool:
        """Adds a device to the chosen devices and returns True, unless this violates the constraint. A device without
        the attribute violates it."""
        if not alternative.listed_in(self._requests):
            return True
        value = device.attribute(self._attribute)
        if value is None or (self._values and (value in self._values) is not self._must_match):
            return False
        self._values[value] += 1
        return True

    def remove(self, alternative: Alternative, device: SlicedDevice) -> None:
        """Undoes an ``add`` that returned True."""
        value = device.attribute(self._attribute) if alternative.listed_in(self._requests) else None
        if value is not None:
            self._values[value] -= 1
            if not self._values[value]:
                del self._values[value]


class _Found:
    """Marks that all requests are satisfied."""


_FOUND = _Found()
_Step = Iterator["_Step | _Found"]
"""The choices of one step: each ``next`` undoes the previous choice, makes another and returns the next step."""


class Selected(msgspec.Struct, frozen=True, eq=False):
    """The devices on a node that the selectors of a request select."""

    devices: tuple[SlicedDevice, ...]
    """The devices that are selected, and those for which a selector fails."""
    errors: dict[SlicedDevice, str]
    """Device -> the error of the selector that fails for it. A search that takes the device ends with it."""


def selected(pools: NodePools, alternative: Alternative, selectors: Selectors, budget: Budget) -> Selected:
    """The devices on a node that the selectors of a request select. Raises OverBudgetError."""
    kept = pools.selected
    found: Selected | None = kept.pop(alternative.expressions, None)
    if found is None:
        found = _select(pools.devices, alternative, selectors, budget)
        if len(kept) >= MAX_CACHED:
            del kept[next(iter(kept))]
    kept[alternative.expressions] = found
    return found


def _select(
    devices: tuple[SlicedDevice, ...], alternative: Alternative, selectors: Selectors, budget: Budget
) -> Selected:
    """Evaluates one selector after the other for all devices that are left, so that each is compiled once."""
    left, errors = devices, dict[SlicedDevice, str]()
    for owner, expression in alternative.selectors:
        kept = []
        for device in left:
            result = True if device in errors else selectors.result(expression, device, budget)
            if isinstance(result, ExpressionError):
                errors[device] = f"{owner}: {result}"
            if result:
                kept.append(device)
        if len(kept) < len(left):
            left = tuple(kept)
    return Selected(left, errors)


def may_select(device: SlicedDevice, alternative: Alternative, selectors: Selectors, budget: Budget) -> bool:
    """Whether the selectors of a request select a device or fail for it. Raises OverBudgetError."""
    return bool(_select((device,), alternative, selectors, budget).devices)


def number_free(books: Books, pools: NodePools, alternative: Alternative, selectors: Selectors, budget: Budget) -> int:
    """How many of the devices on a node that the selectors of a request select are free. Raises OverBudgetError."""
    found = selected(pools, alternative, selectors, budget).devices
    return sum(books.free(device) and books.consumption(device, alternative) is not None for device in found)


class Search:
    """One search; ``run`` may be called once."""

    def __init__(
        self, books: Books, pools: NodePools, demands: Sequence[ClaimDemand], selectors: Selectors, budget: Budget
    ) -> None:
        self._books = books
        self._select: Callable[[Alternative], Selected] = cache(lambda one: selected(pools, one, selectors, budget))
        self._pools = pools
        self._budget = budget
        self._requests = [(i, alternatives) for i, demand in enumerate(demands) for alternatives in demand.requests]
        self._demands = demands
        self._constraints = [[Constraint(spec) for spec in demand.constraints] for demand in demands]
        self._all: dict[Alternative, tuple[SlicedDevice, ...]] = {}
        self._claims_of: dict[SlicedDevice, list[int]] = {}
        """Device that is not shared -> the claims for which it is chosen, including administrator access."""
        self._picks: Picks = [[] for _ in demands]

    def run(self) -> Picks | None:
        """Returns the devices, which are taken in the books, or None if no combination satisfies the claims. Raises
        NodeRejectedError. In the last two cases no device is taken."""
        self._check()
        steps: list[_Step] = [self._request(0)]
        try:
            while steps:
                next_step = next(steps[-1], None)
                if next_step is None:
                    steps.pop()
                elif isinstance(next_step, _Found):
                    self._budget.give_back(TRY_STEPS * sum(map(len, self._picks)))
                    return self._picks
                else:
                    steps.append(next_step)
        except NodeRejectedError:
            for claim, picks in enumerate(self._picks):
                while picks:
                    self._undo(claim)
            raise
        if self._pools.invalid:
            raise NodeRejectedError("invalid resource pools were encountered")
        return None

    def _check(self) -> None:
        """Raises NodeRejectedError if the claims request too many devices, or if their number cannot be determined."""
        for claim, demand in enumerate(self._demands):
            minimum = 0
            for alternatives in demand.requests:
                for alternative in alternatives:
                    if alternative.all_devices:
                        self._all[alternative] = self._all_selected(claim, alternative)
                minimum += min(map(self._number, alternatives))
            if minimum > dra.MAX_RESULTS:
                raise NodeRejectedError(
                    f"claim {demand.title}: number of requested devices {minimum} exceeds the claim limit of "
                    f"{dra.MAX_RESULTS}"
                )

    def _label(self, claim: int, alternative: Alternative) -> str:
        return f"claim {self._demands[claim].title}, request {alternative.name}"

    def _all_selected(self, claim: int, alternative: Alternative) -> tuple[SlicedDevice, ...]:
        pools, label = self._pools, self._label(claim, alternative)
        if pools.incomplete:
            raise NodeRejectedError(
                f"{label}: asks for all devices, but resource pool {pools.incomplete} is currently being updated"
            )
        if pools.invalid:
            raise NodeRejectedError(
                f"{label}: asks for all devices, but resource pool {pools.invalid} is currently invalid"
            )
        found = self._select(alternative)
        for device in found.devices:
            if device in found.errors:
                raise NodeRejectedError(found.errors[device])
        return tuple(device for device in found.devices if self._books.consumption(device, alternative) is not None)

    def _number(self, alternative: Alternative) -> int:
        return len(self._all[alternative]) if alternative.all_devices else alternative.spec.count

    # --- steps ---
    def _request(self, position: int) -> _Step:
        """Tries the alternatives of one request."""
        if position == len(self._requests):
            yield _FOUND
            return
        claim, alternatives = self._requests[position]
        for alternative in alternatives:
            if len(self._picks[claim]) + self._number(alternative) > dra.MAX_RESULTS:
                continue
            if alternative.all_devices:
                yield self._take_all(position, claim, alternative)
            else:
                yield self._some(position, claim, alternative)

    def _some(self, position: int, claim: int, alternative: Alternative) -> _Step:
        """Tries the devices for a request for a number of them."""
        found, missing = self._select(alternative), alternative.spec.count
        self._budget.spend(len(found.devices))
        devices: Sequence[SlicedDevice] = [
            device for device in found.devices if self._is_free(claim, alternative, device)
        ]
        if len(devices) >= missing or found.errors:
            yield self._devices(position, claim, alternative, devices, missing, 0)

    def _devices(
        self,
        position: int,
        claim: int,
        alternative: Alternative,
        devices: Sequence[SlicedDevice],
        missing: int,
        start: int,
    ) -> _Step:
        """Tries the devices, from index ``start``, for the first of the ``missing`` ones."""
        for i in range(start, len(devices) - missing + 1):
            if not self._take(claim, alternative, devices[i]):
                continue
            yield (
                self._request(position + 1)
                if missing == 1
                else self._devices(position, claim, alternative, devices, missing - 1, i + 1)
            )
            self._undo(claim)
            self._budget.undo_choice()

    def _take_all(self, position: int, claim: int, alternative: Alternative) -> _Step:
        devices = self._all[alternative]
        if not devices:
            return  # "all" requires at least one device
        taken = 0
        for device in devices:
            if not self._take(claim, alternative, device):
                break
            taken += 1
        else:
            yield self._request(position + 1)
        for _ in range(taken):
            self._undo(claim)

    # --- one device ---
    def _is_free(self, claim: int, alternative: Alternative, device: SlicedDevice) -> bool:
        """Whether no other claim has the device. With administrator access it may be anyone's but this claim's."""
        claims = self._claims_of.get(device, ())
        return claim not in claims if alternative.spec.admin_access else not claims and self._books.free(device)

    def _take(self, claim: int, alternative: Alternative, device: SlicedDevice) -> bool:
        if not self._is_free(claim, alternative, device):
            return False
        self._budget.spend(TRY_STEPS)
        problem = self._select(alternative).errors.get(device)
        if problem:
            raise NodeRejectedError(problem)
        consumed = self._books.consumption(device, alternative)
        if consumed is None or not self._books.counters_suffice(device) or not _tolerated(device, alternative):
            return False
        constraints = self._constraints[claim]
        for i, constraint in enumerate(constraints):
            if not constraint.add(alternative, device):
                for earlier in constraints[:i]:
                    earlier.remove(alternative, device)
                if alternative.all_devices:
                    raise NodeRejectedError(
                        f"{self._label(claim, alternative)}: cannot add device {'/'.join(device.id)} because a claim "
                        "constraint would not be satisfied"
                    )
                return False
        pick = Pick(device, alternative, consumed if device.shared else {})
        self._books.take(pick)
        self._picks[claim].append(pick)
        if not device.shared:
            self._claims_of.setdefault(device, []).append(claim)
        return True

    def _undo(self, claim: int) -> None:
        """Undoes the last choice for a claim."""
        pick = self._picks[claim].pop()
        self._books.release(pick)
        if not pick.device.shared:
            self._claims_of[pick.device].remove(claim)
        for constraint in self._constraints[claim]:
            constraint.remove(pick.alternative, pick.device)


def _tolerated(device: SlicedDevice, alternative: Alternative) -> bool:
    """Whether the request tolerates all taints of the device with effect NoSchedule or NoExecute."""
    tolerations = alternative.spec.tolerations or ()
    return all(tolerates(tolerations, taint) for taint in device.taints)


def release(books: Books, picks: Picks) -> None:
    """Releases the devices of a successful search."""
    for chosen in reversed(picks):
        for pick in reversed(chosen):
            books.release(pick)
