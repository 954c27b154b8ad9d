"""The filter and the score of the plugin: nodes whose free chips fit a request, ranked in the order of the family."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.api.node import Column, Mask, Rows
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.ascend.demand import ChipUse
from scheduler.plugins.ascend.family import UNFIT, placements
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ids_of

_STEP: Final = 1e6
"""The score of one step in the order of a family. It exceeds the sum of other plugins' scores at usual weights (1 to
100): nodeorder gives at most 100 x weight for each of its seven parts, binpack at most 100 x binpack.weight, usage and
task-topology at most 100 x weight each. So other plugins only choose among nodes that the family ranks equally. float64
keeps the digits of the other scores in these sums."""
_SUB_HEALTH: Final = 0.5
"""The cost of a sub-healthy node, in steps: it ranks after other nodes that the family ranks equally."""
_MAX_SCORE: Final = 9e8
"""The largest score. Families with many steps have smaller ones."""


class ChipFilter:
    """Passes nodes that have enough free chips where the family needs them."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ledger: ChipLedger, use: ChipUse, chips: int) -> None:
        """``chips``: the request of one Pod."""
        self._ledger = ledger
        self._use = use
        self._chips = chips
        self._placements = placements(use.family, use.request(chips))
        self._counts_faults = use.family.selection.any_ids and use.without_faults

    def room(self, rows: Rows) -> Counts:
        room = self._placements.room(self._ledger.usable(rows, self._use.without_faults))
        return np.where(self._large(rows), 0, room) if self._counts_faults else room

    def future_room(self, rows: Rows) -> Counts:
        """Returns ``room`` after terminating Pods are deleted and pipelined tasks have taken their chips."""
        room = self._placements.room(self._ledger.future_usable(rows, self._use.without_faults))
        return np.where(self._large(rows, later=True), 0, room) if self._counts_faults else room

    def _large(self, rows: Rows, *, later: bool = False) -> Mask:
        """Returns the nodes with more free chips than a node of the family has; those with a network fault count as
        free. ``later``: after terminating Pods are deleted."""
        usable = self._ledger.future_usable if later else self._ledger.usable
        large: Mask = np.bitwise_count(usable(rows, without_faults=False)) > self._use.family.chips
        return large

    def device_of(self, row: int, uid: str) -> int:
        """Returns the group of the first chip of a task, such as an HCCS ring, if the request needs one group."""
        held = self._ledger.held(row, uid)
        if self._chips > self._use.family.group or not held:
            return -1
        return ids_of(held)[0] // self._use.family.group

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        family, request = self._use.family, self._chips
        if family.selection.any_ids:
            large = self._large(rows)
            number, rows = int(large.sum()), rows[~large]
            if number:
                text = f"node(s) had more free chips than the {family.chips} of a node of the family {family.title}"
                return [(text, number), *(self.reasons(rows) if len(rows) else ())]
        if request <= family.group:
            chips = "1 free chip" if request == 1 else f"{request} free chips"
            return ((family.no_group.format(free=chips), len(rows)),)
        free = np.bitwise_count(self._ledger.usable(rows, self._use.without_faults))
        sizes = np.maximum(self._ledger.capacity + self._ledger.broken, request)[rows]
        numbers = Counter(zip(free.tolist(), sizes.tolist(), strict=True))
        return [(self._reason(number, size), count) for (number, size), count in sorted(numbers.items())]

    def _reason(self, number: int, size: int) -> str:
        """Returns why nodes with ``number`` free chips of ``size`` are refused."""
        request = self._chips
        if number >= request:
            return f"node(s) had {number} of {size} chips free, but not {request} that one Pod may use together"
        if request == self._use.family.chips:
            return f"node(s) had {number} of {size} chips free, all {request} are needed"
        return f"node(s) had {number} of {size} chips free, {request} are needed"


class ChipScore:
    """Ranks nodes in the order of the family: by broken chips, as far as they count, then by penalty."""

    scope = Scope.NODE

    def __init__(self, ledger: ChipLedger, use: ChipUse, chips: int, sub_healthy: Mask | None = None) -> None:
        """``chips``: the request of one Pod; ``sub_healthy``: which nodes are sub-healthy, shape (nodes,); None if none
        is."""
        family = use.family
        self._sub_healthy = sub_healthy
        self._ledger = ledger
        self._use = use
        self._placements = placements(family, use.request(chips))
        self._steps = family.broken_cost * family.chips + family.selection.penalties
        self._weight = min(_STEP, _MAX_SCORE / self._steps)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        ledger, family = self._ledger, self._use.family
        penalty = self._placements.penalty(ledger.usable(rows, self._use.without_faults), ahead)
        broken = family.chips - ledger.capacity[rows] if family.missing_is_broken else ledger.broken[rows]
        steps = self._steps - broken * family.broken_cost - penalty
        score: Column = steps.astype(np.float64) * self._weight
        if self._sub_healthy is not None:
            score -= self._sub_healthy[rows] * (_SUB_HEALTH * self._weight)
        score[penalty == UNFIT] = 0.0
        return score
