"""Devices as they are taken in a session.

A claim that several Pods share gets its devices with the first of them that is placed and keeps them until the last is
undone. A Pod that is evicted keeps its devices: they are free when it is gone.
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
from scheduler.plugins.predicates.dynamic_resources.allocation import allocation
from scheduler.plugins.predicates.dynamic_resources.books import Books, Pick
from scheduler.plugins.predicates.dynamic_resources.claims import Claims, ClassClaims, Wanted, own_claim
from scheduler.plugins.predicates.dynamic_resources.demand import Demand
from scheduler.plugins.predicates.dynamic_resources.reservation import ClaimReservation, Consumer, timeout
from scheduler.plugins.predicates.dynamic_resources.search import Budget, NodeRefusedError, Picks, Search, give_back
from scheduler.plugins.predicates.dynamic_resources.words import CANNOT_ALLOCATE


@dataclass(slots=True)
class _Held:
    """What one task got of its own."""

    node: str
    picks: list[tuple[Wanted, list[Pick]]] = field(default_factory=list)


@dataclass(slots=True)
class _Shared:
    """A named claim that tasks of this session use."""

    users: dict[str, Task] = field(default_factory=dict)
    """uid -> task, those with a promise included."""
    binding: dict[str, Task] = field(default_factory=dict)
    """Those without."""
    picks: list[Pick] = field(default_factory=list)
    given: dra.Allocation | None = None
    """What it got in this session."""
    reservations: list[tuple[set[str], Preparation]] = field(default_factory=list)
    """uids of tasks that were told of one, and which."""


class DeviceLedger(Ledger[None]):
    """Who got what in this session."""

    def __init__(self, books: Books, claims: Claims, names: Sequence[str], choices: int | None) -> None:
        """``names``: of nodes, by row. ``choices``: what one search may take back (see ``Budget``)."""
        super().__init__()
        self.inventory = books.inventory
        self.books = books
        self._claims = claims
        self._names = names
        self._choices = choices
        self._held: dict[str, _Held] = {}
        self._shared: dict[str, _Shared] = {}

    # --- questions ---
    def given(self, key: str) -> dra.Allocation | None:
        """What a claim has got, in this session or before."""
        shared = self._shared.get(key)
        return shared.given if shared is not None and shared.given is not None else self._claims.allocation(key)

    def lacking(self, claims: ClassClaims) -> list[Wanted]:
        """What of the claims of a class is still to be allocated for a task."""
        return [w for w in claims.wanted if not w.key or self.given(w.key) is None]

    def room(self, demands: Sequence[Demand], row: int, most: int, budget: Budget) -> int:
        """For how many tasks with the demands the devices of a node suffice, up to ``most``. Raises
        NodeRefusedError."""
        pools = self.inventory.at(row)
        found: list[Picks] = []
        try:
            while len(found) < most:
                picks = Search(self.books, pools, demands, budget).run()
                if picks is None:
                    break
                found.append(picks)
                if all(pick.looks_on for chosen in picks for pick in chosen):
                    return most  # nothing is used up
        except NodeRefusedError:
            if not found:
                raise
        finally:
            for picks in reversed(found):
                give_back(self.books, picks)
        return len(found)

    def try_out(self, demands: Sequence[Demand], row: int, judge: Callable[[Picks], int]) -> int:
        """What is to be said of the devices that a task would get on a node; 0 if it would get none."""
        try:
            picks = self.choose(demands, row)
        except AllocationError:
            return 0
        result = judge(picks)
        give_back(self.books, picks)
        return result

    def choose(self, demands: Sequence[Demand], row: int) -> Picks:
        """Devices of a node for the demands, taken in the books. Raises AllocationError, nothing taken."""
        try:
            picks = Search(self.books, self.inventory.at(row), demands, Budget(self._choices)).run()
        except NodeRefusedError as error:
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
            if number > dra.MOST_CONSUMERS:
                raise AllocationError(
                    f"resourceclaim {key} would be used by {number} Pods, the limit is {dra.MOST_CONSUMERS}"
                )
        lacking = self.lacking(claims)
        chosen = self.choose([wanted.demand for wanted in lacking], row)
        held = self._held[task.uid] = _Held(self._names[row])
        for wanted, picks in zip(lacking, chosen, strict=True):
            if wanted.key:
                shared = self._shared.setdefault(wanted.key, _Shared())
                shared.picks = picks
                shared.given = self._allocation(wanted.key, wanted.demand, picks, held.node)
            else:
                held.picks.append((wanted, picks))
        for key in claims.named:
            shared = self._shared.setdefault(key, _Shared())
            shared.users[task.uid] = task
            if not pipelined:
                shared.binding[task.uid] = task

    def _give_back(self, task: Task, row: int) -> None:
        held = self._held.pop(task.uid)
        for key in self._claims.of_class(task.cls).named:
            shared = self._shared[key]
            del shared.users[task.uid]
            shared.binding.pop(task.uid, None)
            if not shared.users:
                give_back(self.books, [shared.picks])
                del self._shared[key]
        give_back(self.books, [picks for _, picks in held.picks])

    def _evict(self, task: Task, row: int) -> None:
        """Nothing changes: what it holds cannot even be promised."""

    def _spare(self, row: int, held: None) -> None:
        """Nothing has changed."""

    def _users(self, key: str) -> set[str]:
        shared = self._shared.get(key)
        return set(shared.users) if shared is not None else set()

    # --- what is to be written ---
    def _allocation(self, key: str, demand: Demand, picks: Sequence[Pick], node: str) -> dra.Allocation:
        claim = self._claims.get(key)
        uid = claim.metadata.uid if claim is not None else key
        return allocation(uid, demand, picks, node, self._claims.classes)

    def preparations(self, task: Task, row: int) -> list[Preparation]:
        """What has to be so of a task's claims before it is bound."""
        held = self._held[task.uid]
        consumer = Consumer(task.name, task.uid)
        result: list[Preparation] = []
        for wanted, picks in held.picks:
            key = own_claim(task, wanted.entry)
            result.append(self._reservation(key, self._allocation(key, wanted.demand, picks, held.node), (consumer,)))
        result += [self._joint(key, task) for key in self._claims.of_class(task.cls).named]
        return result

    def _joint(self, key: str, task: Task) -> Preparation:
        """One reservation of a shared claim for all tasks of a job that are bound together."""
        shared = self._shared[key]
        for uids, reservation in shared.reservations:
            if task.uid in uids:
                return reservation
        told = {uid for uids, _ in shared.reservations for uid in uids}
        users = [t for t in shared.binding.values() if t.job == task.job and t.uid not in told]
        consumers = tuple(Consumer(t.name, t.uid) for t in users)
        # What was promised and not written yet may be taken back by whoever promised it: then it is written here.
        reservation = self._reservation(key, self._unwritten(key), consumers)
        shared.reservations.append(({t.uid for t in users}, reservation))
        return reservation

    def _unwritten(self, key: str) -> dra.Allocation | None:
        claim = self._claims.get(key)
        return None if claim is not None and claim.status.allocation is not None else self.given(key)

    def _reservation(self, key: str, given: dra.Allocation | None, consumers: tuple[Consumer, ...]) -> ClaimReservation:
        namespace, _, name = key.partition("/")
        claim = self._claims.get(key)
        held = given or self.given(key)
        return ClaimReservation(
            kind=RESOURCE_CLAIM,
            namespace=namespace,
            name=name,
            timeout=timeout(held) if held is not None else timeout(dra.Allocation()),
            uid=claim.metadata.uid if claim is not None else "",
            allocation=given,
            consumers=consumers,
        )
