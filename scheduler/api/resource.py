"""Resource amounts as vectors. All vectors of a cluster have the same position for each resource name.

Units: cpu in milli-cores, memory in bytes, ``pods`` in Pods, every other resource (ephemeral-storage, hugepages,
extended resources) in thousandths of its unit. Volcano's Resource is a pair of numbers and a map. Each comparison
below has the meaning of its counterpart there, for vectors in which an absent resource is 0 (or infinity, where "not
set" means "unlimited").
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import CPU, MEMORY, OTHER_RESOURCES, PODS
from scheduler.api.objects import Quantity
from scheduler.api.quantity import ExactAmount, QuantityError, SuffixFamily, format_milli, parse_quantity

Vector = NDArray[np.float64]
CPU_INDEX: Final = 0
MEMORY_INDEX: Final = 1
PODS_INDEX: Final = 2
SMALLEST: Final = 0.1
"""Amounts that differ by less are equal (Volcano's minResource)."""


MAX_UNDECLARED: Final = 64
"""Resources with a position of their own that only Pods and PodGroups name."""


class Dimensions:
    """The resource names of a cluster, in the order of their positions in vectors. Names are only appended.

    Nodes and Queues declare resources. Of the names that only Pods and PodGroups use, the first 64 have positions of
    their own, and the others share one (``OTHER_RESOURCES``), of which no node has any: otherwise, users could make all
    vectors as long as they like. When a node or Queue declares one of those, it gets its own position.
    """

    def __init__(self) -> None:
        self.names: list[str] = [CPU, MEMORY, PODS]
        self._index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self._undeclared: set[str] = set()
        """Names with positions of their own that nothing has declared."""
        self._others: set[str] = set()
        """Names that share the position of ``OTHER_RESOURCES``."""
        self.moved = False
        """Whether a name has left that position, so that all vectors must be computed again."""
        self.width = 8
        """Length of every vector; at least the number of names."""
        self.uncounted: frozenset[str] = frozenset()
        """Resources that are left out of all vectors, because a plugin alone counts them."""
        self._nothing = np.zeros(0)

    def copy(self) -> "Dimensions":
        """A copy that later names do not change."""
        result = Dimensions()
        result.names, result._index, result.width = list(self.names), dict(self._index), self.width
        result._undeclared, result._others = set(self._undeclared), set(self._others)
        result.uncounted = self.uncounted
        return result

    def index(self, name: str) -> int:
        """Returns the position of a resource. A new resource is appended, which may increase ``width``."""
        position = self._index.get(name)
        if position is not None:
            return position
        if len(self._undeclared) < MAX_UNDECLARED:
            self._undeclared.add(name)
            return self._append(name)
        self._others.add(name)
        return self._append(OTHER_RESOURCES)

    def declare(self, names: Iterable[str]) -> None:
        """Gives resources that nodes have, or that Queues limit, positions of their own."""
        for name in names:
            self._undeclared.discard(name)
            if name in self._others:
                self._others.remove(name)
                self.moved = True
            if name not in self._index and counted(name):
                self._append(name)

    def _append(self, name: str) -> int:
        """Returns the position of a resource, which is appended unless it has one."""
        position = self._index.get(name)
        if position is None:
            position = self._index[name] = len(self.names)
            self.names.append(name)
            if position >= self.width:
                self.width *= 2
        return position

    def find(self, name: str) -> int | None:
        """Returns the position of a known resource, or None."""
        return self._index.get(name)

    def has_extended(self, vector: Vector) -> bool:
        """Whether a vector has an extended resource (such as cards and chips)."""
        names = self.names
        return any("/" in names[position] for position in np.flatnonzero(vector[: len(names)]))

    def zeros(self) -> Vector:
        return np.zeros(self.width)

    @property
    def nothing(self) -> Vector:
        """A vector of zeros that all callers share. It cannot be changed."""
        if len(self._nothing) != self.width:
            self._nothing = self.zeros()
            self._nothing.setflags(write=False)
        return self._nothing

    def fit(self, vector: Vector) -> Vector:
        """Returns the vector, padded with zeros if the width has grown since it was created."""
        if len(vector) == self.width:
            return vector
        wide = np.zeros(self.width)
        wide[: len(vector)] = vector
        return wide

    def vector(self, amounts: Mapping[str, Quantity] | None) -> Vector:
        """Converts a ResourceList to a vector; absent resources are 0.

        Names that Volcano does not count (``count/...``, ``requests.``, ``limits.``) and ``uncounted`` resources are
        left out. Raises QuantityError, which names the resource, if an amount is malformed or negative. Amounts of
        ``uncounted`` resources are checked too.
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
            if name not in self.uncounted:  # checked anyway, because it may be counted later
                parsed.append((self.index(name), amount))
        result = np.zeros(self.width)
        for position, amount in parsed:
            result[position] += amount  # several, if their names have no position of their own
        return result

    def limits(self, amounts: Mapping[str, Quantity] | None) -> Vector:
        """Converts a ResourceList to a vector of upper bounds; absent resources are unlimited (infinity)."""
        vector = self.vector(amounts)
        listed = np.zeros(self.width, dtype=bool)
        for name in amounts or {}:
            if counted(name) and name not in self.uncounted:
                listed[self.index(name)] = True
        return np.where(listed, vector, np.inf)

    def to_list(self, vector: Vector) -> dict[str, str]:
        """Converts a vector to a ResourceList in Kubernetes' canonical form (``4Gi``, ``3k``), with cpu, memory, and
        other resources that are not zero."""
        return {
            name: _canonical(name, vector[position])
            for position, name in enumerate(self.names)
            if position in (CPU_INDEX, MEMORY_INDEX) or vector[position]
        }

    def listed(self, vector: Vector) -> dict[str, str]:
        """Converts a vector to a ResourceList of the amounts that are not zero, without ``pods``."""
        return {
            name: _canonical(name, vector[position])
            for position, name in enumerate(self.names)
            if position != PODS_INDEX and vector[position] >= SMALLEST
        }

    def numbers(self, position: int, **amounts: float) -> str:
        """Formats amounts of one resource: ``cpu: asked 4, limit 2500m``. Underscores in keywords become spaces."""
        name = self.names[position]
        parts = (f"{what.replace('_', ' ')} {format_amount(name, amount)}" for what, amount in amounts.items())
        return f"{name}: {', '.join(parts)}"


def format_amount(name: str, amount: float) -> str:
    """Formats an amount in the units of vectors as Kubernetes does: ``1500m`` cpu, ``2`` cards, bytes of memory."""
    return str(int(amount)) if scale_of(name) == 1 else format_milli(amount)


def _canonical(name: str, amount: float) -> str:
    family = SuffixFamily.BINARY if name == MEMORY else SuffixFamily.DECIMAL
    return str(ExactAmount(int(amount) * (10**9 // scale_of(name)), family))


def scale_of(name: str) -> int:
    """Number of vector units in one unit of the resource."""
    return 1 if name in (MEMORY, PODS) else 1000


def counted(name: str) -> bool:
    """Whether the scheduler counts a resource. It does not count the quota-style keys of PodGroups."""
    return not name.startswith(("count/", "requests.", "limits."))


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes itself; extended resources are of another domain."""
    return "/" not in name or "kubernetes.io/" in name


def less_equal(left: Vector, right: Vector) -> bool:
    """Whether left <= right in every resource; absent resources are 0 (Volcano's LessEqual with Zero)."""
    return bool((left < right + SMALLEST).all())


def exceeded(left: Vector, right: Vector, request: Vector) -> list[int]:
    """Positions of the requested resources (except ``pods``) with left > right, compared without tolerance (Volcano's
    LessEqualWithDimensionAndResourcesName)."""
    over = (request > 0) & (left > right)
    over[PODS_INDEX] = False
    return [int(i) for i in np.flatnonzero(over)] if over.any() else []


def is_empty(vector: Vector) -> bool:
    """Whether a request has no resource except ``pods``, as a best-effort task does."""
    pods = vector[PODS_INDEX]
    return bool((vector < SMALLEST).sum() + (pods >= SMALLEST) == len(vector))


def share(left: float, right: float) -> float:
    """left / right, with 0 / 0 = 0 and x / 0 = 1."""
    if right == 0:
        return 0.0 if left == 0 else 1.0
    return left / right


def largest_share(left: Vector, right: Vector) -> float:
    """The largest left / right over the resources whose right is at least SMALLEST; 0 if there are none."""
    counted = right >= SMALLEST
    return float((left[counted] / right[counted]).max()) if counted.any() else 0.0
