"""Cards of one node and what Pods have of them, as values: charging a card gives a new card.

Whatever a family calls its devices, a card has places for Pods, memory and cores, and knows how much of each is in use.
Values are compared and hashed whole, so nodes in the same state share every answer (``columns``), and a placement that
is undone restores the state it was made in.
"""

from collections import Counter
from typing import Final, NamedTuple

from scheduler.plugins.deviceshare.partitions import Layouts

MOST_CARDS: Final = 128
"""Cards of a node that are looked at."""
UNLIMITED: Final = 2**31
ALL_CORES: Final = 100
"""Cores are per cent of a card, except where a family counts them."""
EVERY_CARD: Final = -1
"""The mask of all cards, however many there are."""
WHOLE_PERCENT: Final = 100


class Part(NamedTuple):
    """A named piece cut out of a card: a MIG instance, a virtual NPU."""

    name: str
    position: int = -1
    """MIG: the place of the instance in its group."""
    state: str = ""
    """NPU: how far the cutting has come."""
    group: int = -1
    """NPU: the vGroup, once it is known."""


class Card(NamedTuple):
    """One card. Where more is in use than there is, nothing fits any more."""

    slots: int
    """How many Pods (or containers of one Pod) may have something of it; 0: it is of no use."""
    memory: int
    cores: int
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    layouts: Layouts | None = None
    """MIG: how it may be cut; None: it is not cut."""
    parts: tuple[Part, ...] = ()
    """What is cut out of it, in order."""
    link: int = -1
    """Cards of one number are joined by a network of their own; -1: not known."""

    @property
    def free_memory(self) -> int:
        return self.memory - self.used_memory

    @property
    def free_cores(self) -> int:
        return self.cores - self.used_cores


Cards = tuple[Card, ...]


class Use(NamedTuple):
    """What one container has of one card."""

    card: int
    """The card's place among those of its node."""
    memory: int = 0
    cores: int = 0
    part: Part | None = None
    asked_memory: int = -1
    """What the Pod is told it has; -1: ``memory``. A part may be larger than what was asked for."""

    @property
    def told_memory(self) -> int:
        return self.memory if self.asked_memory < 0 else self.asked_memory


Grant = tuple[tuple[Use, ...], ...]
"""What a Pod has: for each container that asks for cards, what it has of which."""


class Share(NamedTuple):
    """What one container asks for: the same of each of a number of cards."""

    number: int
    memory: int = 0
    cores: int = 0
    percent: int = -1
    """Of each card's memory, in place of ``memory``; -1: not asked for so."""

    def memory_of(self, card: Card) -> int:
        return self.memory if self.percent < 0 else card.memory * self.percent // 100


Asked = tuple[Share, ...]
"""What the containers of a Pod ask for, those only that ask for cards."""


class Placement(NamedTuple):
    """Where a Pod would go on a node, and how good that is."""

    grant: Grant
    score: float = 0.0


def fits(card: Card, memory: int, cores: int) -> bool:
    """Whether a container may have so much of a card. All cores of a whole card mean the card for itself; and a card
    whose cores are all given takes nobody, not even one who asks for none."""
    return (
        card.used < card.slots
        and memory <= card.memory - card.used_memory
        and cores <= card.cores - card.used_cores
        and not (cores == card.cores == ALL_CORES and card.used)
        and not (not cores and card.cores and card.used_cores == card.cores)
    )


def charge(cards: Cards, grant: Grant, sign: int = 1) -> Cards:
    """The cards once a grant was taken (1) or given back (-1)."""
    result = list(cards)
    for use in (use for uses in grant for use in uses):
        result[use.card] = _charged(result[use.card], use, sign)
    return tuple(result)


def _charged(card: Card, use: Use, sign: int) -> Card:
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
        used=card.used + sign,
        used_memory=card.used_memory + sign * use.memory,
        used_cores=card.used_cores + sign * use.cores,
        parts=parts,
    )


def fuller(left: Cards, right: Cards) -> Cards:
    """Cards of which as much is in use as in the fuller one of two states of theirs: what fits here fits in both."""
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
    """The cards of which a grant has something."""
    mask = 0
    for use in (use for uses in grant for use in uses):
        mask |= 1 << use.card
    return mask


def cards_in(mask: int, number: int) -> list[int]:
    """The cards of a mask, of so many, ascending."""
    return list(range(number)) if mask == EVERY_CARD else [i for i in range(number) if mask >> i & 1]
