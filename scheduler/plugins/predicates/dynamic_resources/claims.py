"""The ResourceClaims of a session: their demands, their allocations, and the allocations of bindings that still
wait."""

from collections.abc import Callable

import msgspec

from scheduler.api import dra
from scheduler.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from scheduler.api.quantity import QuantityError
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import PodClaim, Task, TaskClass
from scheduler.plugins.predicates.dynamic_resources.allocation import ClaimReservation
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.demand import ClaimDemand, DemandError, read_demand

Report = Callable[[Malformed], None]


class UnallocatedClaim(msgspec.Struct, frozen=True, eq=False):
    """A claim of the Pods of a class that was not allocated when the session opened."""

    entry: PodClaim
    key: str
    """The key of the claim, if all Pods share it; "" if each Pod has its own claim."""
    demand: ClaimDemand


class ClassClaims(msgspec.Struct, frozen=True, eq=False):
    """The claims of the pending Pods of one class."""

    problem: str
    """Why no node can run the Pods, or ""."""
    unallocated: tuple[UnallocatedClaim, ...] = ()
    allocated: tuple[str, ...] = ()
    """Keys of the claims that are allocated."""

    @property
    def named(self) -> list[str]:
        """Keys of the claims that all Pods of the class share."""
        return [*self.allocated, *(claim.key for claim in self.unallocated if claim.key)]


class Claims:
    """All claims of one session."""

    def __init__(self, snapshot: Snapshot, books: Books, report: Report) -> None:
        """Takes the devices of all existing allocations in the books."""
        self._claims = snapshot.objects[RESOURCE_CLAIM]
        self.classes = snapshot.objects[DEVICE_CLASS]
        self._pending: dict[str, dra.Allocation] = {}
        self._consumers: dict[str, set[str]] = {}
        self._shapes: dict[tuple[str, bytes], ClaimDemand | DemandError] = {}
        self._of_class: dict[int, ClassClaims] = {}
        self._read_pending(snapshot)
        for key, claim in self._claims.items():
            allocation = claim.status.allocation or self._pending.get(key)
            if allocation is None:
                continue
            try:
                books.take_allocated(allocation.devices.results or ())
            except QuantityError as error:
                namespace, _, name = key.partition("/")
                report(Malformed("ResourceClaim", namespace, name, "status.allocation", str(error)))

    def _read_pending(self, snapshot: Snapshot) -> None:
        for bind in snapshot.preparing:
            for preparation in bind.preparations:
                if not isinstance(preparation, ClaimReservation):
                    continue
                key = f"{preparation.namespace}/{preparation.name}"
                claim = self._claims.get(key)
                if claim is None or claim.metadata.uid != preparation.uid:
                    continue
                if preparation.allocation is not None:
                    self._pending[key] = preparation.allocation
                self._consumers.setdefault(key, set()).update(consumer.uid for consumer in preparation.consumers)

    # --- one claim ---
    def get(self, key: str) -> dra.ResourceClaim | None:
        return self._claims.get(key)

    def allocation(self, key: str) -> dra.Allocation | None:
        """The allocation of a claim, which may be part of a binding that still waits."""
        claim = self._claims.get(key)
        return (claim.status.allocation if claim is not None else None) or self._pending.get(key)

    def consumers(self, key: str) -> set[str]:
        """The uids of the Pods for which a claim is reserved, or will be by a waiting binding."""
        known = self._consumers.setdefault(key, set())
        claim = self._claims.get(key)
        if claim is not None:
            known.update(reference.uid for reference in claim.status.reserved_for or ())
        return known

    # --- the claims of a class ---
    def has_read(self, cls: TaskClass) -> bool:
        """Whether ``of_class`` has been called for a class, so that it takes no time."""
        return cls.id in self._of_class

    def size(self, cls: TaskClass) -> int:
        """The bytes that reading the claims of a class depends on, about."""
        total = 0
        for entry in cls.device_claims:
            claim = None if entry.shape else self._claims.get(f"{cls.namespace}/{entry.claim}")
            total += len(entry.shape)
            for request in (claim.spec.devices.requests or ()) if claim is not None else ():
                for alternative in (request.exactly, *(request.first_available or ())):
                    selectors = (alternative.selectors or ()) if alternative is not None else ()
                    total += 100 + sum(len(s.cel.expression) for s in selectors if s.cel is not None)
        return total

    def of_class(self, cls: TaskClass) -> ClassClaims:
        found = self._of_class.get(cls.id)
        if found is None:
            found = self._of_class[cls.id] = self._read(cls)
        return found

    def _read(self, cls: TaskClass) -> ClassClaims:
        unallocated: list[UnallocatedClaim] = []
        allocated: list[str] = []
        for entry in cls.device_claims:
            key = f"{cls.namespace}/{entry.claim}" if entry.claim else ""
            problem = self._problem(entry, key)
            if problem:
                return ClassClaims(problem)
            if key and self.allocation(key) is not None:
                allocated.append(key)
                continue
            try:
                demand = self._demand(key or entry.entry, entry.shape or msgspec.json.encode(self._claims[key].spec))
            except DemandError as error:
                return ClassClaims(str(error))
            unallocated.append(UnallocatedClaim(entry, key, demand))
        return ClassClaims("", tuple(unallocated), tuple(allocated))

    def _problem(self, entry: PodClaim, key: str) -> str:
        if entry.problem:
            return f"{entry.problem} (claim {entry.entry} of the Pod)"
        if not entry.claim:
            return ""
        claim = self._claims.get(key)
        if claim is None:
            return f'resourceclaim "{entry.claim}" not found'
        return f'resourceclaim "{entry.claim}" is being deleted' if claim.metadata.deletion_timestamp else ""

    def _demand(self, title: str, shape: bytes) -> ClaimDemand:
        """Returns the demand of a claim, which is read once for equal claims. Raises DemandError."""
        demand = self._shapes.get((title, shape))
        if demand is None:
            try:
                demand = read_demand(title, msgspec.json.decode(shape, type=dra.ResourceClaimSpec), self.classes)
            except DemandError as error:
                demand = error
            self._shapes[title, shape] = demand
        if isinstance(demand, DemandError):
            raise demand
        return demand


def own_claim(task: Task, entry: PodClaim) -> str:
    """The key of the claim that was generated for an entry of a Pod's spec."""
    return f"{task.namespace}/{task.device_claims[entry.entry]}"
