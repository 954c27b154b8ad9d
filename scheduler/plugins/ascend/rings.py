"""Two rings of four chips: which places of a node suit a request best, and which chips are then taken.

A node's chips are a mask of eight bits: bits 0-3 are the chips of the left HCCS ring, bits 4-7 those of the right one.
A family's preferences are a table of groups (``families``); here it is compiled into arrays indexed by mask, so that a
column of nodes is looked up at once. Nothing here knows of nodes, Pods or sessions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RING_SIZE: Final = 4
CHIPS: Final = 2 * RING_SIZE
NONE: Final = 0
ALL: Final = (1 << CHIPS) - 1
LEFT: Final = (1 << RING_SIZE) - 1
RIGHT: Final = ALL & ~LEFT
RANKS: Final = 16
"""Ranks of fitting places are 0 (best) to RANKS - 1."""
UNFIT: Final = RANKS
"""The rank of a mask that has no place for the request."""

Masks = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Group:
    """Places in a ring that has ``chosen`` free chips, best first by how many are free in the other ring."""

    chosen: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The best place for a request on a node with so many free chips in each ring."""

    rank: int
    rings: tuple[int, ...]
    """The ring (0 left, 1 right) or rings that chips are taken from."""
    after: tuple[int, int]
    """Free chips left in each ring afterwards."""


def best_place(groups: Sequence[Group], request: int, left: int, right: int) -> Place | None:
    """The place by the first entry of the groups that one of the rings meets; the left ring where both meet it.

    A request for all chips of a node has no groups: it takes an empty node, or none.
    """
    if request == CHIPS:
        return Place(0, (0, 1), (0, 0)) if left == right == RING_SIZE else None
    rank = 0
    for group in groups:
        for other in group.others:
            if (left, right) == (group.chosen, other):
                return Place(rank, (0,), (left - request, right))
            if (right, left) == (group.chosen, other):
                return Place(rank, (1,), (left, right - request))
            rank += 1
    return None


class RingTable:
    """The answers for one size of request, by mask of free chips."""

    def __init__(self, groups: Sequence[Group], request: int) -> None:
        self.request = request
        self.choice: Masks = np.zeros(ALL + 1, dtype=np.uint8)
        """Shape (256,): the chips that one task takes, 0 where it does not fit."""
        first: NDArray[np.int64] = np.full(ALL + 1, UNFIT, dtype=np.int64)
        for mask in range(ALL + 1):
            place = best_place(groups, request, (mask & LEFT).bit_count(), (mask & RIGHT).bit_count())
            if place is not None:
                self.choice[mask] = lowest(mask & _rings(place.rings), request)
                first[mask] = place.rank
        self.rank = np.empty((CHIPS + 1, ALL + 1), dtype=np.int64)
        """Shape (9, 256): the rank of the next task's place once 0..8 tasks were placed on the free chips given."""
        mask_then: Masks = np.arange(ALL + 1, dtype=np.uint8)
        for placed in range(CHIPS + 1):
            # A node that is full stays full: a mask without a choice must not count as the one before it.
            self.rank[placed] = first[mask_then]
            mask_then = np.where(self.choice[mask_then] > 0, mask_then & ~self.choice[mask_then], np.uint8(NONE))
        self.room = (self.rank < UNFIT).sum(axis=0).astype(np.int64)
        """Shape (256,): how many tasks fit one after the other."""


def compile_tables(groups: Mapping[int, Sequence[Group]]) -> dict[int, RingTable]:
    """Request size -> its table, for every size a family allows."""
    return {request: RingTable(groups[request], request) for request in groups}


def lowest(mask: int, number: int) -> int:
    """The lowest ``number`` chips of a mask (all of it if there are fewer)."""
    result = NONE
    for _ in range(min(number, mask.bit_count())):
        bit = mask & -mask
        result |= bit
        mask ^= bit
    return result


def highest(mask: int, number: int) -> int:
    """The highest ``number`` chips of a mask (all of it if there are fewer)."""
    return mask & ~lowest(mask, max(mask.bit_count() - number, 0))


def ids_of(mask: int) -> list[int]:
    """The chips of a mask, ascending."""
    return [chip for chip in range(CHIPS) if mask >> chip & 1]


def _rings(rings: tuple[int, ...]) -> int:
    result = NONE
    for ring in rings:
        result |= RIGHT if ring else LEFT
    return result
