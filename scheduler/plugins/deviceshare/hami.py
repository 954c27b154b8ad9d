"""NPUs shared through HAMi's device plugin: cut by template, or shared without cutting (``hami-core``).

Each model of NPU is a family of its own, with its own resources and annotations. A node registers its NPUs as JSON.
Cut by template, what is asked for is rounded up to the next size; several NPUs are had whole or not at all.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

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
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.deviceshare.cards import (
    ALL_CORES,
    EVERY_CARD,
    WHOLE_PERCENT,
    Asked,
    Card,
    Cards,
    Grant,
    Placement,
    Share,
    Use,
    fits,
)
from scheduler.plugins.deviceshare.device_config import NpuModel
from scheduler.plugins.deviceshare.family import (
    Inventory,
    asked,
    asked_or_requested,
    node_problem,
    pod_problem,
    reports,
)
from scheduler.plugins.deviceshare.hami_register import parse_npus
from scheduler.plugins.deviceshare.policy import SPREAD, card_score
from scheduler.plugins.deviceshare.rooms import pod_room, try_room
from scheduler.plugins.deviceshare.wire import WireError, format_uses, parse_uses

LINKED_PREFIX: Final = "Ascend910"
"""Models that may be joined by networks."""
LINKED_WEIGHT: Final = 10


@dataclass(frozen=True, slots=True)
class NpuClaim:
    """What the containers ask for. ``memory`` is that of the template, where it is cut."""

    containers: Asked
    soft: bool
    """To be shared without cutting."""
    title: str
    """Of one card, for messages."""
    problem: str = ""
    """Why no node can serve it."""

    @property
    def words(self) -> str:
        return self.problem or " and ".join(self._words(share) for share in self.containers)

    def _words(self, share: Share) -> str:
        number, owner = (self.title, "its") if share.number == 1 else (f"{share.number} {self.title}s", "their")
        memory = "all" if share.percent >= 0 else share.memory
        cores = f" and {share.cores} of {owner} cores" if share.cores else ""
        return f"{number} with {memory} of {owner} memory{cores} free"


class HamiNpu:
    """One model."""

    def __init__(self, model: NpuModel, policy: str, now: float, *, soft: bool, locks: bool) -> None:
        self.name = model.word
        self.title = f"{model.word} NPUs"
        self.lock = HAMI_NODE_LOCK if locks else ""
        self._model = model
        self._policy = policy
        self._soft = soft
        self._now = str(int(now))
        self._held_key = f"{HAMI_PREFIX}{model.word}{HAMI_ALLOCATED_SUFFIX}"
        self._register_key = f"{HAMI_REGISTER_PREFIX}{model.word}"

    @property
    def key(self) -> Hashable:
        return self._model, self._soft

    # --- Pods ---
    def claim(self, cls: TaskClass) -> NpuClaim | None:
        soft = cls.annotations.get(VNPU_MODE) == HAMI_CORE
        shares = [share for c in cls.spec.containers if (share := self._share(c)) is not None]
        if not shares:
            return None
        problem = ""
        containers = []
        for share in shares:
            if soft or share.percent >= 0:
                containers.append(share)
                continue
            trimmed = self._model.trimmed(share.memory)
            if trimmed is None:
                problem = f"{self.name} with {share.memory} of memory: a chip has {self._model.capacity}"
            elif share.number > 1 and trimmed[0] != self._model.allocatable:
                problem = f"{share.number} {self.title} with {share.memory} of memory each: several are had whole only"
            else:
                containers.append(share._replace(memory=trimmed[0]))
        return NpuClaim(tuple(containers), soft, f"{self.name} NPU", problem)

    def _share(self, container: Container) -> Share | None:
        model = self._model
        number = asked(container, model.resource)
        if number == 0 or (number is None and asked(container, model.memory_resource) is None):
            return None
        memory = asked_or_requested(container, model.memory_resource) or 0
        cores = asked_or_requested(container, model.core_resource) or 0
        return Share(1 if number is None else number, memory, cores, -1 if memory else WHOLE_PERCENT)

    def annotations(
        self, task: Task, claim: NpuClaim, node: Node, inventory: Inventory, grant: Grant
    ) -> dict[str, str]:
        listed = "".join(f"{format_uses(uses, inventory.names, self.name)};" for uses in grant)
        runtime = [self._runtime(claim, inventory.names[use.card], use) for uses in grant for use in uses]
        return {
            f"{HAMI_PREFIX}{self.name}{HAMI_TO_ALLOCATE_SUFFIX}": listed,
            self._held_key: listed,
            f"{HUAWEI_PREFIX}{self.name}": json.dumps(runtime, separators=(",", ":")),
            PREDICATE_TIME: self._now,
            HAMI_NODE: node.metadata.name,
            HAMI_TIME: self._now,
            HAMI_BIND_PHASE: BIND_ALLOCATING,
            HAMI_BIND_TIME: self._now,
        }

    def _runtime(self, claim: NpuClaim, name: str, use: Use) -> dict[str, Any]:
        """What the container runtime is told of one NPU; what is zero or empty is left out."""
        if claim.soft:
            rest: dict[str, Any] = {"memory": use.memory, "core": use.cores}
        else:
            trimmed = self._model.trimmed(use.memory)
            rest = {"temp": trimmed[1] if trimmed is not None else ""}
        return {"UUID": name, **{key: value for key, value in rest.items() if value}}

    # --- nodes ---
    def has(self, node: Node) -> bool:
        return self._register_key in (node.metadata.annotations or {}) and reports(node, self._model.resource)

    def source(self, node: str, config_maps: Mapping[str, ConfigMap]) -> None:
        return None

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> Inventory:
        annotations = node.metadata.annotations or {}
        text = annotations.get(self._register_key, "")
        problems: list[Malformed] = []
        try:
            cards, names = parse_npus(text, self.name.startswith(LINKED_PREFIX))
        except WireError as error:
            problems.append(node_problem(node, self._register_key, str(error)))
            return Inventory((), (), problems=tuple(problems))
        places = {name: i for i, name in enumerate(names)}
        grants: dict[str, Grant] = {}
        for task in tasks:
            if self._held_key in task.annotations:
                try:
                    listed = parse_uses(task.annotations[self._held_key])
                except WireError as error:
                    problems.append(pod_problem(task, self._held_key, str(error)))
                    continue
                grants[task.uid] = tuple(
                    tuple(Use(places[name], memory, cores) for name, memory, cores in uses if name in places)
                    for uses in listed
                )
        soft = annotations[HAMI_CORE_NODE] == "true" if HAMI_CORE_NODE in annotations else self._soft
        return Inventory(cards, names, grants, tuple(problems), mode=HAMI_CORE if soft else "")

    def most(self, claim: NpuClaim, card: Card) -> Asked:
        return tuple(share._replace(memory=share.memory_of(card)) for share in claim.containers)

    def eligible(self, claim: NpuClaim, inventory: Inventory) -> int:
        return 0 if claim.soft and inventory.mode != HAMI_CORE else EVERY_CARD

    def place(self, cards: Cards, claim: NpuClaim, eligible: int) -> Placement | None:
        return None if claim.problem or not eligible else place(cards, claim, self._policy, self._model.allocatable)

    def room(self, cards: Cards, claim: NpuClaim, eligible: int, apart: bool) -> int:
        if claim.problem or not eligible:
            return 0
        (share, *more) = claim.containers
        if more or claim.soft or (share.number > 1 and self._policy == SPREAD) or any(c.link >= 0 for c in cards):
            return try_room(self, cards, claim, eligible, apart)
        if share.percent >= 0:
            share = share._replace(memory=self._model.allocatable, percent=-1)
        return pod_room(cards, share, tried(cards, self._policy), apart=apart)


@lru_cache(maxsize=16384)
def place(cards: Cards, claim: NpuClaim, policy: str, allocatable: int) -> Placement | None:
    """One container after the other, each on NPUs of its own, best first by the policy, ties to the first. NPUs joined
    by networks are taken from that with most fitting ones."""
    order = tried(cards, policy)
    linked = all(card.link >= 0 for card in cards)
    taken: set[int] = set()
    grant: list[tuple[Use, ...]] = []
    score = 0.0
    for share in claim.containers:
        fitting = []
        for i in order:
            card = cards[i]._replace(cores=ALL_CORES) if claim.soft else cards[i]
            memory = share.memory if share.percent < 0 else (card.memory if claim.soft else allocatable)
            if i not in taken and fits(card, memory, share.cores):
                fitting.append(Use(i, memory, share.cores))
        if linked:
            sizes = _sizes(cards, fitting)
            fitting.sort(key=lambda use: (-sizes[cards[use.card].link], cards[use.card].link))
        uses = tuple(fitting[: share.number])
        if len(uses) < share.number:
            return None
        taken.update(use.card for use in uses)
        score += card_score(policy, cards[uses[0].card], 0)
        grant.append(uses)
    if linked:
        sizes = _sizes(cards, [uses[0] for uses in grant])
        score += max(sizes.values()) / len(grant) * LINKED_WEIGHT
    return Placement(tuple(grant), score)


def tried(cards: Cards, policy: str) -> list[int]:
    """The cards in the order in which they are tried."""
    return sorted(range(len(cards)), key=lambda i: -card_score(policy, cards[i], 0))


def _sizes(cards: Cards, uses: Sequence[Use]) -> dict[int, int]:
    """Network -> number of cards of it."""
    sizes: dict[int, int] = {}
    for use in uses:
        link = cards[use.card].link
        sizes[link] = sizes.get(link, 0) + 1
    return sizes
