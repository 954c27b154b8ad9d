"""ResourceClaims as a session finds them: what they ask for, what they got, what sessions before have promised them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from scheduler.api import dra
from scheduler.api.quantity import QuantityError
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import PodClaim, Task, TaskClass
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.demand import Demand, DemandError, read_demand
from scheduler.plugins.predicates.dynamic_resources.reservation import ClaimReservation

Report = Callable[[Malformed], None]


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A claim of the Pods of a class that was not allocated when the session was opened."""

    entry: PodClaim
    key: str
    """Of the claim, if it is one for all of them; "": each has its own."""
    demand: Demand


@dataclass(frozen=True, slots=True, eq=False)
class ClassClaims:
    """The claims of the waiting Pods of one class."""

    problem: str
    """Why none of them can be placed, or ""."""
    wanted: tuple[Wanted, ...] = ()
    allocated: tuple[str, ...] = ()
    """Keys of those that have their devices."""

    @property
    def named(self) -> list[str]:
        """Keys of the claims that are not each Pod's own."""
        return [*self.allocated, *(wanted.key for wanted in self.wanted if wanted.key)]


class Claims:
    """All claims of one session."""

    def __init__(self, snapshot: Snapshot, books: Books, report: Report) -> None:
        """What allocations hold is taken in the books."""
        self._claims = snapshot.resource_claims
        self.classes = snapshot.device_classes
        self._promised: dict[str, dra.Allocation] = {}
        self._consumers: dict[str, set[str]] = {}
        self._shapes: dict[tuple[str, bytes], Demand | DemandError] = {}
        self._of_class: dict[int, ClassClaims] = {}
        self._read_promises(snapshot)
        for key, allocation in self._allocations():
            try:
                books.occupy(allocation.devices.results or ())
            except QuantityError as error:
                namespace, _, name = key.partition("/")
                report(Malformed("ResourceClaim", namespace, name, "status.allocation", str(error)))

    def _read_promises(self, snapshot: Snapshot) -> None:
        for bind in snapshot.preparing:
            for preparation in bind.preparations:
                if not isinstance(preparation, ClaimReservation):
                    continue
                key = f"{preparation.namespace}/{preparation.name}"
                claim = self._claims.get(key)
                if claim is None or claim.metadata.uid != preparation.uid:
                    continue
                if preparation.allocation is not None:
                    self._promised[key] = preparation.allocation
                self._consumers.setdefault(key, set()).update(consumer.uid for consumer in preparation.consumers)

    def _allocations(self) -> Iterator[tuple[str, dra.Allocation]]:
        for key, claim in self._claims.items():
            allocation = claim.status.allocation or self._promised.get(key)
            if allocation is not None:
                yield key, allocation

    # --- one claim ---
    def get(self, key: str) -> dra.ResourceClaim | None:
        return self._claims.get(key)

    def allocation(self, key: str) -> dra.Allocation | None:
        """What a claim has got, or was promised by a session before."""
        claim = self._claims.get(key)
        return (claim.status.allocation if claim is not None else None) or self._promised.get(key)

    def consumers(self, key: str) -> set[str]:
        """uids of the Pods for which a claim is reserved, or will be."""
        known = self._consumers.get(key)
        if known is None:
            known = self._consumers[key] = set()
        claim = self._claims.get(key)
        if claim is not None:
            known.update(reference.uid for reference in claim.status.reserved_for or ())
        return known

    # --- the claims of a class ---
    def of_class(self, cls: TaskClass) -> ClassClaims:
        found = self._of_class.get(cls.id)
        if found is None:
            found = self._of_class[cls.id] = self._read(cls)
        return found

    def _read(self, cls: TaskClass) -> ClassClaims:
        wanted: list[Wanted] = []
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
            wanted.append(Wanted(entry, key, demand))
        return ClassClaims("", tuple(wanted), tuple(allocated))

    def _problem(self, entry: PodClaim, key: str) -> str:
        if entry.problem:
            return f"{entry.problem} (claim {entry.entry} of the Pod)"
        if not entry.claim:
            return ""
        claim = self._claims.get(key)
        if claim is None:
            return f'resourceclaim "{entry.claim}" not found'
        return f'resourceclaim "{entry.claim}" is being deleted' if claim.metadata.deletion_timestamp else ""

    def _demand(self, title: str, shape: bytes) -> Demand:
        """Raises DemandError."""
        known = self._shapes.get((title, shape))
        if known is None:
            try:
                known = read_demand(title, msgspec.json.decode(shape, type=dra.ResourceClaimSpec), self.classes)
            except DemandError as error:
                known = error
            self._shapes[title, shape] = known
        if isinstance(known, DemandError):
            raise known
        return known


def own_claim(task: Task, entry: PodClaim) -> str:
    """The key of the claim that was made for a Pod by an entry of its spec."""
    return f"{task.namespace}/{task.device_claims[entry.entry]}"
