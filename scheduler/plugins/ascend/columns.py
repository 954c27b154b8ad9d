"""The filter and the score of the plugin: nodes whose rings fit a request, ranked in the order of the affinity
design."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.rings import CHIPS, RANKS, UNFIT, RingTable

WEIGHT: Final = 1e6
"""The score of one step in the design's order. It exceeds the sum of other plugins' scores at usual weights (1 to 100):
nodeorder gives at most 100 x weight for each of its seven parts, binpack at most 100 x binpack.weight, usage and
task-topology at most 100 x weight each. So other plugins only choose among nodes whose rings rank equally. float64
keeps the digits of the other scores in these sums."""
_STEPS: Final = (CHIPS + 1) * RANKS


class RingFilter:
    """Passes nodes that have enough free chips in one ring (for a request of eight chips: in both)."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ledger: ChipLedger, table: RingTable, distributed: bool) -> None:
        """``distributed``: the job has several NPU Pods, which cannot use chips with a network fault."""
        self._ledger = ledger
        self._table = table
        self._distributed = distributed

    def room(self, rows: Rows) -> Counts:
        room: Counts = self._table.room[self._ledger.usable(rows, self._distributed)]
        return room

    def future_room(self, rows: Rows) -> Counts:
        """Returns ``room`` after terminating Pods are deleted and pipelined tasks have taken their chips."""
        room: Counts = self._table.room[self._ledger.future_usable(rows, self._distributed)]
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        request = self._table.request
        if request < CHIPS:
            chips = "chip" if request == 1 else "chips"
            return ((f"node(s) had no HCCS ring with {request} free {chips}", len(rows)),)
        free = np.bitwise_count(self._ledger.usable(rows, self._distributed))
        numbers = Counter(free.tolist())
        return [
            (f"node(s) had {number} of {CHIPS} chips free, all {CHIPS} are needed", count)
            for number, count in sorted(numbers.items())
        ]


class RingScore:
    """Ranks nodes in the design's order: by number of healthy chips, then by group, then by position in the group.

    The design ranks nodes with eight healthy chips before nodes with seven ("the broken one counts as used"). Nodes
    with fewer follow by the same rule, so that they can be used too.
    """

    scope = Scope.NODE

    def __init__(self, ledger: ChipLedger, table: RingTable) -> None:
        self._ledger = ledger
        self._rank = table.rank

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        free = self._ledger.usable(rows, distributed=False)
        rank = self._rank[0, free] if ahead is None else self._rank[np.minimum(ahead, CHIPS), free]
        broken = CHIPS - self._ledger.capacity[rows].astype(np.int64)
        score: Column = (_STEPS - broken * RANKS - rank) * WEIGHT
        score[rank == UNFIT] = 0.0
        return score
