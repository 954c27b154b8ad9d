"""Searches the devices of one node for the first combination, in the order of pools, that satisfies all claims of a
Pod.

A backtracking search: each request tries its alternatives in order, and each alternative the devices in order; if the
remaining requests cannot be satisfied, the choice is undone and the next one is tried. The devices of one request are
chosen in ascending order only, because permutations are equivalent. The result is that of kube-scheduler's allocator,
which tries the same choices in the same order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.api import dra
from scheduler.api.pod_rules import tolerates
from scheduler.plugins.predicates.dynamic_resources.books import Books, Pick
from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative, Demand
from scheduler.plugins.predicates.dynamic_resources.devices import Device
from scheduler.plugins.predicates.dynamic_resources.pools import NodePools

Picks = list[list[Pick]]
"""The chosen devices, one list per demand."""
MAX_CACHED = 256
"""Cached combinations of expressions per node."""
CANNOT_ALLOCATE = "cannot allocate all claims"
TIMED_OUT = "timed out trying to allocate devices"


class NodeRejectedError(Exception):
    """The search on a node failed; the message says why."""


class Budget:
    """The number of choices that searches may undo before they time out."""

    def __init__(self, choices: int | None) -> None:
        """``choices``: None for no limit."""
        self._left = choices

    def spend(self) -> None:
        """Counts one undone choice. Raises NodeRejectedError beyond the limit."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise NodeRejectedError(TIMED_OUT)


class Constraint:
    """The state of one constraint among the devices of a claim during a search: the value of an attribute is equal on
    all, or distinct on each."""

    def __init__(self, spec: dra.DeviceConstraint) -> None:
        self._requests: Sequence[str] = spec.requests or ()
        self._must_match = spec.match_attribute is not None
        self._attribute = spec.match_attribute or spec.distinct_attribute or ""
        self._values: Counter[tuple[str, object]] = Counter()

    def add(self, alternative: Alternative, device: Device) -> bool:
        """Adds a device to the chosen devices and returns True, unless this violates the constraint. A device without
        the attribute violates it."""
        if not alternative.listed_in(self._requests):
            return True
        value = device.attribute(self._attribute)
        if value is None or (self._values and (value in self._values) is not self._must_match):
            return False
        self._values[value] += 1
        return True

    def remove(self, alternative: Alternative, device: Device) -> None:
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
"""The choices of one step: each ``next`` undoes the previous choice, makes another and returns the next_step step."""


def selected(pools: NodePools, alternative: Alternative) -> tuple[Device, ...]:
    """The devices on a node that the selectors of a request select, and those where a selector fails. Taking a device
    for which they fail raises an error."""
    found = pools.selected.get(alternative.expressions)
    if found is None:
        if len(pools.selected) >= MAX_CACHED:
            pools.selected.clear()
        found = pools.selected[alternative.expressions] = tuple(d for d in pools.devices if may_select(d, alternative))
    return found


def may_select(device: Device, alternative: Alternative) -> bool:
    """Whether the selectors of a request select a device or fail for it."""
    return _selection(device, alternative) != ""


def _selection(device: Device, alternative: Alternative) -> str | None:
    """None if the device is selected, "" if it is not, else the error of the selector that failed."""
    for owner, expression in alternative.selectors:
        try:
            if not device.selected(expression):
                return ""
        except ExpressionError as error:
            return f"{owner}: {error}"
    return None


class Search:
    """One search; ``run`` may be called once."""

    def __init__(self, books: Books, pools: NodePools, demands: Sequence[Demand], budget: Budget) -> None:
        self._books = books
        self._pools = pools
        self._budget = budget
        self._requests = [(i, alternatives) for i, demand in enumerate(demands) for alternatives in demand.requests]
        self._demands = demands
        self._constraints = [[Constraint(spec) for spec in demand.constraints] for demand in demands]
        self._all: dict[Alternative, tuple[Device, ...]] = {}
        self._claims_of: dict[Device, list[int]] = {}
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

    def _all_selected(self, claim: int, alternative: Alternative) -> tuple[Device, ...]:
        pools, label = self._pools, self._label(claim, alternative)
        if pools.incomplete:
            raise NodeRejectedError(
                f"{label}: asks for all devices, but resource pool {pools.incomplete} is currently being updated"
            )
        if pools.invalid:
            raise NodeRejectedError(
                f"{label}: asks for all devices, but resource pool {pools.invalid} is currently invalid"
            )
        devices = selected(pools, alternative)
        for device in devices:
            problem = _selection(device, alternative)
            if problem:
                raise NodeRejectedError(problem)
        return tuple(device for device in devices if self._books.consumption(device, alternative) is not None)

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
                yield self._devices(position, claim, alternative, alternative.spec.count, 0)

    def _devices(self, position: int, claim: int, alternative: Alternative, missing: int, start: int) -> _Step:
        """Tries the devices, from index ``start``, for the first of the ``missing`` ones."""
        devices = selected(self._pools, alternative)
        for i in range(start, len(devices) - missing + 1):
            if not self._take(claim, alternative, devices[i]):
                continue
            yield (
                self._request(position + 1)
                if missing == 1
                else self._devices(position, claim, alternative, missing - 1, i + 1)
            )
            self._undo(claim)
            self._budget.spend()

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
    def _take(self, claim: int, alternative: Alternative, device: Device) -> bool:
        claims = self._claims_of.get(device, [])
        if (claim in claims) if alternative.spec.admin_access else (claims or not self._books.free(device)):
            return False
        problem = _selection(device, alternative)
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


def _tolerated(device: Device, alternative: Alternative) -> bool:
    """Whether the request tolerates all taints of the device with effect NoSchedule or NoExecute."""
    tolerations = alternative.spec.tolerations or ()
    return all(tolerates(tolerations, taint) for taint in device.taints)


def release(books: Books, picks: Picks) -> None:
    """Releases the devices of a successful search."""
    for chosen in reversed(picks):
        for pick in reversed(chosen):
            books.release(pick)
