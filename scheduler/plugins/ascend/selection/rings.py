"""Two HCCS rings of four chips, ranked together as in table 1 of the NPU affinity scheduling design.

The table is a list of groups per request. All entries of a group come before the next group; an entry is the number of
free chips of the chosen ring and of the other one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.plugins.ascend.family import Choice, Request, Selection
from scheduler.plugins.ascend.masks import first, groups_of, ids_of

RING_SIZE: Final = 4
CHIPS: Final = 2 * RING_SIZE
RANKS: Final = 16
"""Ranks of placements that fit are 0 (best) to RANKS - 1."""


class Group(msgspec.Struct, frozen=True):
    """Placements in a ring with ``chosen`` free chips; ``others``: free chips of the other ring, best first."""

    chosen: int
    others: tuple[int, ...]


def two_rings(groups: Mapping[int, Sequence[Group]]) -> Selection:
    """Chips of the ring that matches the first entry of the request's groups; of the left ring if both match. A request
    for all chips needs a node with all chips free."""

    def select(free: int, request: Request) -> Choice | None:
        if request.chips == CHIPS:
            return Choice(tuple(range(CHIPS)), 0) if free == first(CHIPS) else None
        left, right = groups_of(free, RING_SIZE, CHIPS)
        counts = left.bit_count(), right.bit_count()
        rank = 0
        for group in groups.get(request.chips, ()):
            for other in group.others:
                for ring, found in ((left, counts), (right, counts[::-1])):
                    if found == (group.chosen, other):
                        return Choice(tuple(ids_of(ring)[: request.chips]), rank)
                rank += 1
        return None

    return select
