"""Amounts of resources as vectors: one position per resource name, the same for every vector of a cluster.

Units: cpu in milli-cores, memory in bytes, ``pods`` in Pods, every other resource (ephemeral-storage, hugepages,
extended resources) in thousandths of its unit. Volcano's Resource is a pair of numbers and a map; the meaning of each
comparison below is that of its counterpart there, for vectors in which an absent resource is written 0 (or infinity,
where "not set" means "unlimited").
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.amount import Amount, Family
from scheduler.api.names import CPU, MEMORY, PODS
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError, format_milli, parse_quantity

Vector = NDArray[np.float64]
CPU_INDEX: Final = 0
MEMORY_INDEX: Final = 1
PODS_INDEX: Final = 2
SMALLEST: Final = 0.1
"""Amounts closer than this are equal (Volcano's minResource)."""


class Dimensions:
    """The resource names of a cluster, in the order of the vectors' positions. Grows, never shrinks or reorders."""

    def __init__(self) -> None:
        self.names: list[str] = [CPU, MEMORY, PODS]
        self._index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.width = 8
        """Length of every vector; at least the number of names."""
        self.uncounted: frozenset[str] = frozenset()
        """Resources that are left out of every vector: a plugin alone decides about them."""

    def copy(self) -> "Dimensions":
        """The dimensions as they are now: what is learnt later does not change them."""
        result = Dimensions()
        result.names, result._index, result.width = list(self.names), dict(self._index), self.width
        result.uncounted = self.uncounted
        return result

    def index(self, name: str) -> int:
        """The position of a resource, given one if it is new. ``width`` may have grown afterwards."""
        position = self._index.get(name)
        if position is None:
            position = self._index[name] = len(self.names)
            self.names.append(name)
            if position >= self.width:
                self.width *= 2
        return position

    def find(self, name: str) -> int | None:
        """The position of a resource already known, or None."""
        return self._index.get(name)

    def has_extended(self, vector: Vector) -> bool:
        """Whether a vector has any of an extended resource (cards and chips are counted by such)."""
        names = self.names
        return any("/" in names[position] for position in np.flatnonzero(vector[: len(names)]))

    def zeros(self) -> Vector:
        return np.zeros(self.width)

    def fit(self, vector: Vector) -> Vector:
        """The vector, lengthened with zeros if the width has grown since it was made."""
        if len(vector) == self.width:
            return vector
        wide = np.zeros(self.width)
        wide[: len(vector)] = vector
        return wide

    def vector(self, amounts: Mapping[str, Quantity] | None) -> Vector:
        """A ResourceList as a vector; absent resources are 0.

        Names that Volcano does not count (``count/...``, ``requests.``, ``limits.``) are left out, as those that are
        ``uncounted``. Raises QuantityError naming the resource when an amount, of these as well, is malformed or
        negative.
        """
        parsed: list[tuple[int, int]] = []
        for name, quantity in (amounts or {}).items():
            if not counted(name):
                continue
            try:
                amount = parse_quantity(quantity, scale_of(name))
            except QuantityError as error:
                raise QuantityError(f"{name}: {error}") from None
            if amount < 0:
                raise QuantityError(f"{name}: negative amount {str(quantity)[:64]}")
            if name not in self.uncounted:  # it may be counted some day, and must not be found malformed only then
                parsed.append((self.index(name), amount))
        result = np.zeros(self.width)
        for position, amount in parsed:
            result[position] = amount
        return result

    def limits(self, amounts: Mapping[str, Quantity] | None) -> Vector:
        """A ResourceList as a vector of upper bounds; absent resources are unlimited (infinity)."""
        vector = self.vector(amounts)
        listed = np.zeros(self.width, dtype=bool)
        for name in amounts or {}:
            if counted(name) and name not in self.uncounted:
                listed[self.index(name)] = True
        return np.where(listed, vector, np.inf)

    def to_list(self, vector: Vector) -> dict[str, str]:
        """A vector as a ResourceList in Kubernetes' canonical form (``4Gi``, ``3k``): cpu always and memory always,
        others where not zero."""
        return {
            name: _canonical(name, vector[position])
            for position, name in enumerate(self.names)
            if position in (CPU_INDEX, MEMORY_INDEX) or vector[position]
        }

    def numbers(self, position: int, **amounts: float) -> str:
        """Amounts of one resource for people: ``cpu: asked 4, limit 2500m`` (underscores in names become spaces)."""
        name = self.names[position]
        parts = (f"{what.replace('_', ' ')} {format_amount(name, amount)}" for what, amount in amounts.items())
        return f"{name}: {', '.join(parts)}"


def format_amount(name: str, amount: float) -> str:
    """An amount in the vector's units as Kubernetes writes it: ``1500m`` cpu, ``2`` cards, bytes of memory."""
    return str(int(amount)) if scale_of(name) == 1 else format_milli(amount)


def _canonical(name: str, amount: float) -> str:
    family = Family.BINARY if name == MEMORY else Family.DECIMAL
    return str(Amount(int(amount) * (10**9 // scale_of(name)), family))


def scale_of(name: str) -> int:
    """How many of the vector's units make one unit of the resource."""
    return 1 if name in (MEMORY, PODS) else 1000


def counted(name: str) -> bool:
    """Whether a resource of this name takes part in scheduling (quota-style keys of PodGroups do not)."""
    return not name.startswith(("count/", "requests.", "limits."))


def less_equal(left: Vector, right: Vector) -> bool:
    """left <= right in every resource, absent ones counting 0 (Volcano's LessEqual with Zero)."""
    return bool((left < right + SMALLEST).all())


def exceeded(left: Vector, right: Vector, request: Vector) -> list[int]:
    """Positions of the requested resources (never ``pods``) in which left > right, strictly compared (what Volcano's
    LessEqualWithDimensionAndResourcesName finds)."""
    over = (request > 0) & (left > right)
    over[PODS_INDEX] = False
    return [int(i) for i in np.flatnonzero(over)] if over.any() else []


def is_empty(vector: Vector) -> bool:
    """No resource but ``pods`` is asked for: the test for a best-effort task."""
    pods = vector[PODS_INDEX]
    return bool((vector < SMALLEST).sum() + (pods >= SMALLEST) == len(vector))


def share(left: float, right: float) -> float:
    """left / right, with 0 / 0 = 0 and x / 0 = 1."""
    if right == 0:
        return 0.0 if left == 0 else 1.0
    return left / right


def shares(left: Vector, right: Vector) -> Vector:
    """Position by position ``share``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Vector = np.where(right == 0, np.where(left == 0, 0.0, 1.0), left / right)
    return result
