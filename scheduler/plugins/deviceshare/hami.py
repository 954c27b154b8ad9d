"""NPUs shared through HAMi's device plugin: partitioned by template, or shared by software (``hami-core``).

Each NPU model is a family with its own resources and annotations. A node registers its NPUs as JSON. A request for a
partition is rounded up to the next template; a request for several NPUs gets whole ones only.

The device plugin takes what is to be allocated from a list with an entry for each container, init containers first; the
entries of containers without NPUs are empty. What is allocated is listed as Volcano lists and reads it: without empty
entries.
"""

import json
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.names import (
    BIND_ALLOCATING,
    HAMI_ALLOCATED_SUFFIX,
    HAMI_BIND_PHASE,
    HAMI_BIND_TIME,
    HAMI_CORE,
    HAMI_CORE_NODE,
    HAMI_NODE,
    HAMI_NODE_LOCK,
    HAMI_PREFIX,
    HAMI_REGISTER_PREFIX,
    HAMI_TIME,
    HAMI_TO_ALLOCATE_SUFFIX,
    HUAWEI_PREFIX,
    PREDICATE_TIME,
    VNPU_MODE,
)
from scheduler.api.objects import ConfigMap, Container, Node
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.deviceshare.cards import (
    ALL_CARDS,
    ALL_CORES,
    MAX_CONTAINERS,
    SPREAD,
    CardPlacement,
    CardRequests,
    Cards,
    CardUse,
    ContainerKind,
    ContainerRequest,
    Grant,
    card_score,
    fits,
)
from scheduler.plugins.deviceshare.containers import (
    ContainerFamily,
    card_request,
    description_of,
    held_of,
    in_allocation_order,
    requests_of,
)
from scheduler.plugins.deviceshare.device_config import NpuModel
from scheduler.plugins.deviceshare.family import FamilyInventory, has_allocatable, pod_room
from scheduler.plugins.deviceshare.wire import format_uses, parse_npus

LINKED_PREFIX: Final = "Ascend910"
"""Prefix of the models whose NPUs may be connected by networks."""
LINKED_WEIGHT: Final = 10


class NpuClaim(msgspec.Struct, frozen=True):
    """The requests of the containers. If NPUs are partitioned, ``memory`` is that of the template."""

    containers: CardRequests
    soft: bool
    """Shared by software, not partitioned."""
    title: str
    """Name of one card, for messages."""
    problem: str = ""
    """Why no node can satisfy the request, or ""."""
    unserved: ClassVar[str] = ""
    """The device plugin serves all containers."""

    @property
    def description(self) -> str:
        return self.problem or description_of(self.containers, self._description)

    def _description(self, request: ContainerRequest) -> str:
        number, cores = request.number, request.cores
        memory = "all" if request.percent >= 0 else f"{request.memory}"
        if number == 1 and cores:
            return f"{self.title} with {memory} of its memory and {cores} of its cores free"
        if number == 1:
            return f"{self.title} with {memory} of its memory free"
        if cores:
            return f"{number} {self.title}s with {memory} of their memory and {cores} of their cores free"
        return f"{number} {self.title}s with {memory} of their memory free"


class HamiNpu(ContainerFamily[NpuClaim]):
    """The family of one NPU model."""

    def __init__(self, model: NpuModel, policy: str, now: float, *, soft: bool, locks: bool) -> None:
        self.name = model.name
        self.title = f"{model.name} NPUs"
        self.lock = HAMI_NODE_LOCK if locks else ""
        self._model = model
        self._policy = policy
        self._soft = soft
        self._now = str(int(now))
        self.held_key = f"{HAMI_PREFIX}{model.name}{HAMI_ALLOCATED_SUFFIX}"
        self.register_key = f"{HAMI_REGISTER_PREFIX}{model.name}"

    @property
    def key(self) -> Hashable:
        return self._model, self._soft

    # --- Pods ---
    def claim(self, cls: TaskClass) -> NpuClaim | None:
        soft = cls.annotations.get(VNPU_MODE) == HAMI_CORE
        requests = requests_of(cls.spec, self._card_request)
        if not requests:
            return None
        problem = ""
        if len(requests) > MAX_CONTAINERS:
            problem = f"{self.name} for {len(requests)} containers of a Pod: at most {MAX_CONTAINERS} may ask for some"
        containers = []
        for request in requests[:MAX_CONTAINERS]:
            if soft or request.percent >= 0:
                containers.append(request)
                continue
            trimmed = self._model.trimmed(request.memory)
            if trimmed is None:
                problem = f"{self.name} with {request.memory} of memory: a chip has {self._model.capacity}"
            elif request.number > 1 and trimmed[0] != self._model.allocatable:
                problem = (
                    f"{request.number} {self.title} with {request.memory} of memory each: several are had whole only"
                )
            else:
                containers.append(request._replace(memory=trimmed[0]))
        return NpuClaim(tuple(containers), soft, f"{self.name} NPU", problem)

    def _card_request(self, container: Container) -> ContainerRequest | None:
        model = self._model
        return card_request(container, model.resource, model.memory_resource, model.core_resource)

    def annotations(
        self, task: Task, claim: NpuClaim, node: Node, inventory: FamilyInventory, grant: Grant
    ) -> dict[str, str]:
        entries = [f"{format_uses(uses, inventory.names, self.name)};" for uses in grant]
        left = iter(entries)
        by_position = (
            ";" if self._card_request(container) is None else next(left)
            for container, _ in in_allocation_order(task.cls.spec)
        )
        every = dict.fromkeys(use for uses in grant for use in uses)
        runtime = [self._runtime(claim, inventory.names[use.card], use) for use in every]
        return {
            f"{HAMI_PREFIX}{self.name}{HAMI_TO_ALLOCATE_SUFFIX}": "".join(by_position),
            self.held_key: "".join(entries),
            f"{HUAWEI_PREFIX}{self.name}": json.dumps(runtime, separators=(",", ":")),
            PREDICATE_TIME: self._now,
            HAMI_NODE: node.metadata.name,
            HAMI_TIME: self._now,
            HAMI_BIND_PHASE: BIND_ALLOCATING,
            HAMI_BIND_TIME: self._now,
        }

    def _runtime(self, claim: NpuClaim, name: str, use: CardUse) -> dict[str, Any]:
        """Returns the entry of one NPU for the container runtime, without zero and empty values."""
        if claim.soft:
            rest: dict[str, Any] = {"memory": use.memory, "core": use.cores}
        else:
            trimmed = self._model.trimmed(use.memory)
            rest = {"temp": trimmed[1] if trimmed is not None else ""}
        return {"UUID": name, **{key: value for key, value in rest.items() if value}}

    # --- nodes ---
    def has(self, node: Node) -> bool:
        return self.register_key in (node.metadata.annotations or {}) and has_allocatable(node, self._model.resource)

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        annotations = node.metadata.annotations or {}
        soft = annotations[HAMI_CORE_NODE] == "true" if HAMI_CORE_NODE in annotations else self._soft
        return replace(super().read(node, source, tasks), mode=HAMI_CORE if soft else "")

    def _registered(self, text: str) -> FamilyInventory:
        return parse_npus(text, self.name, self.name.startswith(LINKED_PREFIX))

    def eligible(self, claim: NpuClaim, inventory: FamilyInventory) -> int:
        return 0 if claim.soft and inventory.mode != HAMI_CORE else ALL_CARDS

    def place(self, cards: Cards, claim: NpuClaim, eligible: int) -> CardPlacement | None:
        return None if claim.problem or not eligible else place(cards, claim, self._policy, self._model.allocatable)

    def room(self, cards: Cards, claim: NpuClaim, eligible: int, exclusive: bool) -> int:
        if claim.problem or not eligible:
            return 0
        (request, *more) = claim.containers
        if more or claim.soft or (request.number > 1 and self._policy == SPREAD) or any(c.link >= 0 for c in cards):
            return super().room(cards, claim, eligible, exclusive)
        if request.percent >= 0:
            request = request._replace(memory=self._model.allocatable, percent=-1)
        return pod_room(cards, request, card_order(cards, self._policy), exclusive=exclusive)


@lru_cache(maxsize=16384)
def place(cards: Cards, claim: NpuClaim, policy: str, allocatable: int) -> CardPlacement | None:
    """Places one container after the other, each on separate NPUs, in the order of the policy. If all NPUs are
    connected by networks, those of the network with the most fitting NPUs come first.

    Init containers, which end before the others start, are placed last: rather on NPUs of the Pod. The device plugin
    reads the amounts by NPU, not by container, so that only containers with equal amounts use the same NPU.
    """
    order = card_order(cards, policy)
    linked = all(card.link >= 0 for card in cards)
    taken: set[int] = set()
    grant: list[tuple[CardUse, ...]] = [()] * len(claim.containers)
    score = 0.0
    numbers = range(len(claim.containers))
    for number in sorted(numbers, key=lambda number: claim.containers[number].kind is ContainerKind.INIT):
        request = claim.containers[number]
        own: set[CardUse] = set()
        if request.kind is ContainerKind.INIT:
            before = zip(claim.containers[:number], grant, strict=False)
            beside = {use for other, uses in before if other.kind is ContainerKind.SIDECAR for use in uses}
            own = {use for uses in grant for use in uses} - beside
        fitting = []
        for i in order:
            card = cards[i]._replace(cores=ALL_CORES) if claim.soft else cards[i]
            memory = request.memory if request.percent < 0 else (card.memory if claim.soft else allocatable)
            use = CardUse(i, memory, request.cores)
            if (i not in taken or use in own) and fits(card, memory, request.cores):
                fitting.append(use)
        if linked:
            sizes = _network_sizes(cards, fitting)
            fitting.sort(key=lambda use: (-sizes[cards[use.card].link], cards[use.card].link))
        fitting.sort(key=lambda use: use not in own)
        uses = tuple(fitting[: request.number])
        if len(uses) < request.number:
            return None
        taken.update(use.card for use in uses)
        score += card_score(policy, cards[uses[0].card], 0)
        grant[number] = uses
    if linked:
        sizes = _network_sizes(cards, [uses[0] for uses in grant])
        score += max(sizes.values()) / len(grant) * LINKED_WEIGHT
    return CardPlacement(tuple(grant), score, held_of(claim.containers, tuple(grant)))


def card_order(cards: Cards, policy: str) -> list[int]:
    """Returns the cards in the order of the policy, in which they are tried."""
    return sorted(range(len(cards)), key=lambda i: -card_score(policy, cards[i], 0))


def _network_sizes(cards: Cards, uses: Sequence[CardUse]) -> dict[int, int]:
    """Returns network -> number of its cards in ``uses``."""
    sizes: dict[int, int] = {}
    for use in uses:
        link = cards[use.card].link
        sizes[link] = sizes.get(link, 0) + 1
    return sizes
