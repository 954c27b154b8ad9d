"""The cards of one node and what Pods use of them, as immutable values.

A card of any family has slots for Pods, memory and cores, and the amount of each in use. Values are hashable, so nodes
in the same state share cached results (``columns``), and undoing a placement restores an equal value.

A GPU model may have MIG geometries: several groups of instances, by one of which a card is partitioned at a time. An
instance is identified by its group and its position: the instances of a group are numbered in the order in which the
group lists them.
"""

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec


class Instances(msgspec.Struct, frozen=True):
    """Instances of one size."""

    name: str
    """``1g.10gb``."""
    memory: int
    count: int


class MigLayout(msgspec.Struct, frozen=True):
    """One way to partition a card."""

    name: str
    instances: tuple[Instances, ...]

    def memory_at(self, position: int) -> int | None:
        """Returns the memory of the instance at a position; None if the group has no such position."""
        for instances in self.instances:
            if position < instances.count:
                return instances.memory if position >= 0 else None
            position -= instances.count
        return None

    def smallest(self, memory: int, taken: frozenset[int]) -> tuple[int, int] | None:
        """Returns (position, memory) of the smallest free instance with at least ``memory``; the first of equal
        ones."""
        found: tuple[int, int] | None = None
        first = 0
        for instances in self.instances:
            if instances.memory >= memory and (found is None or instances.memory < found[1]):
                free = next((p for p in range(first, first + instances.count) if p not in taken), None)
                found = found if free is None else (free, instances.memory)
            first += instances.count
        return found


class Layouts(msgspec.Struct, frozen=True, eq=False):
    """The groups of a model, in the order in which they are tried. Compared by identity: there is one object per
    model."""

    groups: tuple[MigLayout, ...]

    def find(self, group: str) -> MigLayout | None:
        return next((g for g in self.groups if g.name == group), None)

    def instance(self, memory: int, taken: Sequence[tuple[str, int]]) -> tuple[str, int, int] | None:
        """Returns (group, position, memory) of the instance for a request, None if there is none. ``taken``: (group,
        position) of the instances in use; while there are any, the card keeps its group."""
        current = taken[0][0] if taken else None
        for group in self.groups:
            if current is not None and group.name != current:
                continue
            found = group.smallest(memory, frozenset(place for name, place in taken if name == group.name))
            if found is not None:
                return group.name, *found
        return None


MAX_CARDS: Final = 128
"""Most cards of a node that are read."""
MAX_CONTAINERS: Final = 64
"""Most containers of a Pod that may request cards."""
UNLIMITED: Final = 2**31
ALL_CORES: Final = 100
"""Cores are a percentage of a card, except in families that count them."""
ALL_CARDS: Final = -1
"""The mask of all cards of a node."""
WHOLE_PERCENT: Final = 100
BINPACK: Final = "binpack"
"""The policy that prefers used cards."""
SPREAD: Final = "spread"
"""The policy that prefers idle cards."""
_MAX_SCORE: Final = 100.0


class Part(NamedTuple):
    """A named partition of a card: a MIG instance or a virtual NPU."""

    name: str
    position: int = -1
    """MIG: the position of the instance in its group."""
    state: str = ""
    """NPU: "", ``npu_templates.CUTTING`` or ``npu_templates.CHOSEN``."""
    group: int = -1
    """NPU: the vGroup; -1 while it is unknown."""


class Card(NamedTuple):
    """One card. More may be in use than it has; then nothing fits."""

    slots: int
    """How many containers may use the card; 0 if it cannot be used."""
    memory: int
    cores: int
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    layouts: Layouts | None = None
    """MIG: how the card may be partitioned; None if it is not."""
    parts: tuple[Part, ...] = ()
    """The partitions in use, sorted."""
    link: int = -1
    """Cards with the same number are connected by one network; -1 if unknown."""

    @property
    def free_memory(self) -> int:
        return self.memory - self.used_memory

    @property
    def free_cores(self) -> int:
        return self.cores - self.used_cores


Cards = tuple[Card, ...]


class CardUse(NamedTuple):
    """What one container uses of one card."""

    card: int
    """Index of the card on its node."""
    memory: int = 0
    cores: int = 0
    part: Part | None = None
    requested_memory: int = -1
    """The memory that the Pod's annotation lists; -1: ``memory``. A partition may be larger than the request."""
    slots: int = 1
    """How many containers use it at once."""

    @property
    def reported_memory(self) -> int:
        return self.memory if self.requested_memory < 0 else self.requested_memory


Grant = tuple[tuple[CardUse, ...], ...]
"""The cards that a Pod holds: for each container that requests cards, its part of each card."""


class ContainerKind(IntEnum):
    """How long a container of a Pod runs."""

    APP = 0
    SIDECAR = 1
    """An init container that keeps running beside the containers after it."""
    INIT = 2
    """An init container that ends before the containers after it start."""


class ContainerRequest(NamedTuple):
    """The request of one container: the same amount on each of ``number`` cards."""

    number: int
    memory: int = 0
    cores: int = 0
    percent: int = -1
    """Percentage of each card's memory, instead of ``memory``; -1 if the request is not a percentage."""
    kind: ContainerKind = ContainerKind.APP

    def memory_of(self, card: Card) -> int:
        return self.memory if self.percent < 0 else card.memory * self.percent // 100


CardRequests = tuple[ContainerRequest, ...]
"""The requests of those containers of a Pod that request cards, in the order in which the kubelet allocates devices."""


class CardPlacement(NamedTuple):
    """A possible allocation of a Pod on a node, and its score."""

    grant: Grant
    score: float = 0.0
    held_at_once: Grant = ()
    """What it takes from the cards, if this is less than ``grant``: containers that follow each other use the same."""

    @property
    def held(self) -> Grant:
        """What it takes from the cards."""
        return self.held_at_once or self.grant


def fits(card: Card, memory: int, cores: int) -> bool:
    """Whether a container fits on a card. A request for all cores needs an unused card. A card whose cores are all
    allocated takes no container, even if it requests none."""
    return (
        card.used < card.slots
        and memory <= card.memory - card.used_memory
        and cores <= card.cores - card.used_cores
        and not (cores == card.cores == ALL_CORES and card.used)
        and not (not cores and card.cores and card.used_cores == card.cores)
    )


def charge(cards: Cards, grant: Grant, sign: int = 1) -> Cards:
    """Returns the cards after a grant is allocated (``sign`` 1) or released (-1)."""
    result = list(cards)
    for use in (use for uses in grant for use in uses):
        result[use.card] = charged(result[use.card], use, sign)
    return tuple(result)


def charged(card: Card, use: CardUse, sign: int = 1) -> Card:
    """Returns a card after a use of it is allocated (``sign`` 1) or released (-1)."""
    parts = card.parts
    if use.part is not None:
        rest = list(parts)
        if sign > 0:
            rest.append(use.part)
            rest.sort()
        elif use.part in rest:
            rest.remove(use.part)
        parts = tuple(rest)
    return card._replace(
        used=card.used + sign * use.slots,
        used_memory=card.used_memory + sign * use.memory,
        used_cores=card.used_cores + sign * use.cores,
        parts=parts,
    )


def max_usage(left: Cards, right: Cards) -> Cards:
    """Returns the cards with the larger usage of two states: what fits on them fits in both states."""
    return tuple(
        a
        if a == b
        else a._replace(
            used=max(a.used, b.used),
            used_memory=max(a.used_memory, b.used_memory),
            used_cores=max(a.used_cores, b.used_cores),
            parts=tuple(sorted((Counter(a.parts) | Counter(b.parts)).elements())),
        )
        for a, b in zip(left, right, strict=True)
    )


def mask_of(grant: Grant) -> int:
    """Returns the mask of the cards that a grant uses."""
    mask = 0
    for use in (use for uses in grant for use in uses):
        mask |= 1 << use.card
    return mask


def cards_in(mask: int, number: int) -> list[int]:
    """Returns the indexes of the cards in a mask, ascending. ``number``: cards of the node."""
    return list(range(number)) if mask == ALL_CARDS else [i for i in range(number) if mask >> i & 1]


def card_score(policy: str, card: Card, memory: int) -> float:
    """Returns the score of allocating ``memory`` on a card by a policy, 0 to 100; 0 without a policy ("")."""
    if policy == BINPACK:
        return _MAX_SCORE * (card.used_memory + memory) / card.memory if card.memory else 0.0
    if policy == SPREAD:
        return 0.0 if card.used else _MAX_SCORE
    return 0.0
