"""The devices that the tasks of a session take.

A claim that several Pods share is allocated when the first of them is placed, and released when the last of these
placements is undone. An evicted Pod keeps its devices until it has terminated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scheduler.api import dra
from scheduler.api.job import Job
from scheduler.api.kinds import RESOURCE_CLAIM
from scheduler.api.preparation import Preparation
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.dynamic_resources.allocation import ClaimReservation, Consumer, allocation, timeout
from scheduler.plugins.predicates.dynamic_resources.books import Books, Pick
from scheduler.plugins.predicates.dynamic_resources.budget import Budget, NodeRejectedError, SessionBudget
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.claims import Claims, ClassClaims, UnallocatedClaim, own_claim
from scheduler.plugins.predicates.dynamic_resources.demand import ClaimDemand
from scheduler.plugins.predicates.dynamic_resources.search import CANNOT_ALLOCATE, Picks, Search, release


@dataclass(slots=True)
class _OwnDevices:
    """The devices of a task's own claims."""

    node: str
    picks: list[tuple[UnallocatedClaim, list[Pick]]] = field(default_factory=list)


@dataclass(slots=True)
class _SharedClaim:
    """A claim that several tasks of this session may use."""

    users: dict[str, Task] = field(default_factory=dict)
    """uid -> task, including pipelined tasks."""
    allocated: dict[str, Task] = field(default_factory=dict)
    """uid -> task, without pipelined tasks."""
    picks: list[Pick] = field(default_factory=list)
    allocation: dra.Allocation | None = None
    """The allocation that this session made."""
    reservations: list[tuple[set[str], Preparation]] = field(default_factory=list)
    """uids of tasks, and the preparation that reserves the claim for them."""


class DeviceLedger(Ledger[None]):
    """The devices that each task of the session holds."""

    def __init__(
        self, books: Books, claims: Claims, selectors: Selectors, names: Sequence[str], choices: int | None
    ) -> None:
        """``names``: the names of the nodes, by row. ``choices``: the limit of one search (see ``Budget``)."""
        super().__init__()
        self.selectors = selectors
        self.inventory = books.inventory
        self.books = books
        self._claims = claims
        self._names = names
        self._choices = choices
        self._own: dict[str, _OwnDevices] = {}
        self._shared: dict[str, _SharedClaim] = {}

    # --- queries ---
    def allocation(self, key: str) -> dra.Allocation | None:
        """The allocation of a claim, made in this session or before."""
        shared = self._shared.get(key)
        return (
            shared.allocation if shared is not None and shared.allocation is not None else self._claims.allocation(key)
        )

    def unallocated(self, claims: ClassClaims) -> list[UnallocatedClaim]:
        """The claims of a class that are not allocated yet."""
        return [c for c in claims.unallocated if not c.key or self.allocation(c.key) is None]

    def room(self, demands: Sequence[ClaimDemand], row: int, limit: int, budget: Budget) -> int:
        """The number of tasks with the demands for which the devices of a node suffice, at most ``limit``. Raises
        NodeRejectedError."""
        pools = self.inventory.at(row)
        found: list[Picks] = []
        try:
            while len(found) < limit:
                picks = Search(self.books, pools, demands, self.selectors, budget).run()
                if picks is None:
                    break
                found.append(picks)
                if all(pick.admin_access for chosen in picks for pick in chosen):
                    return limit  # administrator access uses no device
        except NodeRejectedError:
            if not found:
                raise
        finally:
            for picks in reversed(found):
                release(self.books, picks)
        return len(found)

    def evaluate(self, demands: Sequence[ClaimDemand], row: int, score: Callable[[Picks], int]) -> int:
        """The score of the devices that a task would get on a node; 0 if its claims cannot be allocated there."""
        try:
            picks = self.choose(demands, row)
        except AllocationError:
            return 0
        result = score(picks)
        release(self.books, picks)
        return result

    def choose(self, demands: Sequence[ClaimDemand], row: int) -> Picks:
        """Chooses devices of a node for the demands, and takes them in the books. Raises AllocationError; then it takes
        nothing."""
        # The filter has found, within the budget of the Pods, that this search succeeds.
        budget = Budget(self._choices, SessionBudget(), "")
        try:
            picks = Search(self.books, self.inventory.at(row), demands, self.selectors, budget).run()
        except NodeRejectedError as error:
            raise AllocationError(f"node {self._names[row]}: {error}") from None
        if picks is None:
            raise AllocationError(f"node {self._names[row]}: {CANNOT_ALLOCATE}")
        return picks

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return bool(cls.device_claims)

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        claims = self._claims.of_class(task.cls)
        if claims.problem:
            raise AllocationError(claims.problem)
        for key in claims.named:
            number = len(self._claims.consumers(key) | self._users(key) | {task.uid})
            if number > dra.MAX_CONSUMERS:
                raise AllocationError(
                    f"resourceclaim {key} would be used by {number} Pods, the limit is {dra.MAX_CONSUMERS}"
                )
        unallocated = self.unallocated(claims)
        chosen = self.choose([claim.demand for claim in unallocated], row)
        own = self._own[task.uid] = _OwnDevices(self._names[row])
        for claim, picks in zip(unallocated, chosen, strict=True):
            if claim.key:
                shared = self._shared.setdefault(claim.key, _SharedClaim())
                shared.picks = picks
                shared.allocation = self._allocation(claim.key, claim.demand, picks, own.node)
            else:
                own.picks.append((claim, picks))
        for key in claims.named:
            shared = self._shared.setdefault(key, _SharedClaim())
            shared.users[task.uid] = task
            if not pipelined:
                shared.allocated[task.uid] = task

    def _release(self, task: Task, row: int) -> None:
        own = self._own.pop(task.uid)
        for key in self._claims.of_class(task.cls).named:
            shared = self._shared[key]
            del shared.users[task.uid]
            shared.allocated.pop(task.uid, None)
            if not shared.users:
                release(self.books, [shared.picks])
                del self._shared[key]
        release(self.books, [picks for _, picks in own.picks])

    def _evict(self, task: Task, row: int) -> None:
        """Does nothing: the devices of an evicted task cannot be given to pipelined tasks."""

    def _restore(self, row: int, held: None) -> None:
        """Does nothing, as ``_evict``."""

    def _users(self, key: str) -> set[str]:
        shared = self._shared.get(key)
        return set(shared.users) if shared is not None else set()

    # --- preparations ---
    def _allocation(self, key: str, demand: ClaimDemand, picks: Sequence[Pick], node: str) -> dra.Allocation:
        claim = self._claims.get(key)
        uid = claim.metadata.uid if claim is not None else key
        return allocation(uid, demand, picks, node, self._claims.classes)

    def preparations(self, task: Task, row: int) -> list[Preparation]:
        """The preparations of a task's claims before its binding."""
        own = self._own[task.uid]
        consumer = Consumer(task.name, task.uid)
        result: list[Preparation] = []
        for claim, picks in own.picks:
            key = own_claim(task, claim.entry)
            result.append(self._reservation(key, self._allocation(key, claim.demand, picks, own.node), (consumer,)))
        result += [self._shared_reservation(key, task) for key in self._claims.of_class(task.cls).named]
        return result

    def _shared_reservation(self, key: str, task: Task) -> Preparation:
        """Returns one reservation of a shared claim for all tasks of a job that are bound together."""
        shared = self._shared[key]
        for uids, reservation in shared.reservations:
            if task.uid in uids:
                return reservation
        reserved = {uid for uids, _ in shared.reservations for uid in uids}
        users = [t for t in shared.allocated.values() if t.job == task.job and t.uid not in reserved]
        consumers = tuple(Consumer(t.name, t.uid) for t in users)
        # A waiting binding may undo an allocation that it has not written yet; this preparation then writes it.
        reservation = self._reservation(key, self._unwritten(key), consumers)
        shared.reservations.append(({t.uid for t in users}, reservation))
        return reservation

    def _unwritten(self, key: str) -> dra.Allocation | None:
        claim = self._claims.get(key)
        return None if claim is not None and claim.status.allocation is not None else self.allocation(key)

    def _reservation(self, key: str, new: dra.Allocation | None, consumers: tuple[Consumer, ...]) -> ClaimReservation:
        namespace, _, name = key.partition("/")
        claim = self._claims.get(key)
        allocated = new or self.allocation(key)
        return ClaimReservation(
            kind=RESOURCE_CLAIM,
            namespace=namespace,
            name=name,
            timeout=timeout(allocated or dra.Allocation()),
            uid=claim.metadata.uid if claim is not None else "",
            allocation=new,
            consumers=consumers,
        )
