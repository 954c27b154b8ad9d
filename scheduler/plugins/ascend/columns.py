"""What the plugin answers about nodes for one class of tasks: a filter by rings, and a score in the design's order."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.rings import CHIPS, RANKS, UNFIT, RingTable

WEIGHT: Final = 1e6
"""One step in the design's order of places. It competes with the scores that other plugins add up: nodeorder gives at
most 100 x weight for each of its seven parts, binpack at most 100 x binpack.weight, usage, task-topology and the like
at most 100 x weight each. With usual weights (1 to 100) their sum stays below one step, so they only choose among nodes
whose rings are in equal state, and float64 still holds their digits."""
_STEPS: Final = (CHIPS + 1) * RANKS


class RingFilter:
    """Nodes with a place for the request in one ring (or, for a whole node, in both)."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ledger: ChipLedger, table: RingTable, several: bool) -> None:
        """``several``: for a job of several NPU Pods, to which chips with a network fault are closed."""
        self._ledger = ledger
        self._table = table
        self._several = several

    def room(self, rows: Rows) -> Counts:
        room: Counts = self._table.room[self._ledger.usable(rows, self._several)]
        return room

    def future_room(self, rows: Rows) -> Counts:
        """As ``room``, once terminating Pods are gone and what others were promised is taken."""
        room: Counts = self._table.room[self._ledger.promisable(rows, self._several)]
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        request = self._table.request
        if request < CHIPS:
            chips = "chip" if request == 1 else "chips"
            return ((f"node(s) had no HCCS ring with {request} free {chips}", len(rows)),)
        free = np.bitwise_count(self._ledger.usable(rows, self._several))
        numbers = Counter(free.tolist())
        return [
            (f"node(s) had {number} of {CHIPS} chips free, all {CHIPS} are needed", count)
            for number, count in sorted(numbers.items())
        ]


class RingScore:
    """Nodes in the design's order: more chips in working order first, then by group, then by place in the group.

    The design names nodes of eight chips and, after them, of seven ("the broken one counts as used"); nodes with fewer
    follow in the same manner, so that they stay of use.
    """

    scope = Scope.NODE

    def __init__(self, ledger: ChipLedger, table: RingTable) -> None:
        self._ledger = ledger
        self._rank = table.rank

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        free = self._ledger.usable(rows, several=False)
        rank = self._rank[0, free] if ahead is None else self._rank[np.minimum(ahead, CHIPS), free]
        broken = CHIPS - self._ledger.capacity[rows].astype(np.int64)
        score: Column = (_STEPS - broken * RANKS - rank) * WEIGHT
        score[rank == UNFIT] = 0.0
        return score
