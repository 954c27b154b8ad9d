"""Two rings of four chips: the preferred ring for a request, and the chips that it takes.

The chips of a node are a mask of eight bits: bits 0-3 are the chips of the left HCCS ring, bits 4-7 those of the right
one. The preferences of a family are a table of groups (``families``). This module compiles it into arrays indexed by
mask, so that one array operation looks up a column of nodes. It does not depend on nodes, Pods or sessions.
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
"""Ranks of placements that fit are 0 (best) to RANKS - 1."""
UNFIT: Final = RANKS
"""The rank of a mask in which the request does not fit."""

Masks = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Group:
    """Placements in a ring with ``chosen`` free chips; ``others``: free chips of the other ring, best first."""

    chosen: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RingPlacement:
    """The best placement of a request on a node, given the free chips of each ring."""

    rank: int
    rings: tuple[int, ...]
    """The ring (0 left, 1 right) or rings of the chips taken."""
    after: tuple[int, int]
    """Free chips left in each ring afterwards."""


def best_placement(groups: Sequence[Group], request: int, left: int, right: int) -> RingPlacement | None:
    """Returns the placement for the first entry of the groups that a ring matches; the left ring if both match.

    A request for all chips of a node has no groups: it needs a node with all chips free.
    """
    if request == CHIPS:
        return RingPlacement(0, (0, 1), (0, 0)) if left == right == RING_SIZE else None
    rank = 0
    for group in groups:
        for other in group.others:
            if (left, right) == (group.chosen, other):
                return RingPlacement(rank, (0,), (left - request, right))
            if (right, left) == (group.chosen, other):
                return RingPlacement(rank, (1,), (left, right - request))
            rank += 1
    return None


class RingTable:
    """The placements of one size of request, indexed by the mask of free chips."""

    def __init__(self, groups: Sequence[Group], request: int) -> None:
        self.request = request
        self.choice: Masks = np.zeros(ALL + 1, dtype=np.uint8)
        """Shape (256,): the chips that one task takes; 0 if it does not fit."""
        first: NDArray[np.int64] = np.full(ALL + 1, UNFIT, dtype=np.int64)
        for mask in range(ALL + 1):
            place = best_placement(groups, request, (mask & LEFT).bit_count(), (mask & RIGHT).bit_count())
            if place is not None:
                self.choice[mask] = lowest(mask & _rings(place.rings), request)
                first[mask] = place.rank
        self.rank = np.empty((CHIPS + 1, ALL + 1), dtype=np.int64)
        """Shape (9, 256): the rank of the next task's placement after 0 to 8 tasks have taken chips of the mask."""
        mask_then: Masks = np.arange(ALL + 1, dtype=np.uint8)
        for placed in range(CHIPS + 1):
            # If no further task fits, none fits after it either.
            self.rank[placed] = first[mask_then]
            mask_then = np.where(self.choice[mask_then] > 0, mask_then & ~self.choice[mask_then], np.uint8(NONE))
        self.room = (self.rank < UNFIT).sum(axis=0).astype(np.int64)
        """Shape (256,): the number of tasks that fit one after the other."""


def compile_tables(groups: Mapping[int, Sequence[Group]]) -> dict[int, RingTable]:
    """Returns request size -> its table, for every size that a family allows."""
    return {request: RingTable(groups[request], request) for request in groups}


def lowest(mask: int, number: int) -> int:
    """Returns the lowest ``number`` chips of a mask (all if it has fewer)."""
    result = NONE
    for _ in range(min(number, mask.bit_count())):
        bit = mask & -mask
        result |= bit
        mask ^= bit
    return result


def highest(mask: int, number: int) -> int:
    """Returns the highest ``number`` chips of a mask (all if it has fewer)."""
    return mask & ~lowest(mask, max(mask.bit_count() - number, 0))


def ids_of(mask: int) -> list[int]:
    """Returns the ids of the chips in a mask, ascending."""
    return [chip for chip in range(CHIPS) if mask >> chip & 1]


def _rings(rings: tuple[int, ...]) -> int:
    result = NONE
    for ring in rings:
        result |= RIGHT if ring else LEFT
    return result
