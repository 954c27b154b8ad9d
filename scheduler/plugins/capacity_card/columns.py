"""What the plugin answers about nodes for Pods that may use one of several cards: which of them the quota still allows,
and which the Pod would rather have."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import numpy as np

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.capacity_card.discovery import Inventory

WEIGHT: Final = 1e9
"""One step in the order in which a Pod names its cards. It stands above the scores of other plugins: those in the
customary range add up to some thousands, the ranks of Ascend nodes to less than 1e9, so they choose among the nodes of
one card only. With at most 64 names float64 keeps five decimal places of what is added to it."""


class Room(Protocol):
    def __call__(self, *, now: bool) -> int:
        """How many more Pods may have a card: now, or once terminating tasks are gone."""


class QuotaFilter:
    """Nodes of cards of which the queue's quota is not used up. Every placement may use up one."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(
        self, inventory: Inventory, resource: str, room: Mapping[str, Room], reason: Callable[[str], str]
    ) -> None:
        """``room``: by card; nodes of other cards are not looked at. ``reason``: why a card is refused."""
        self._names = inventory.names
        self._codes = inventory.column(resource)
        self._room = {inventory.code(card): function for card, function in room.items() if inventory.code(card) >= 0}
        self._reason = reason

    def room(self, rows: Rows) -> Counts:
        return self._rooms(rows, now=True)

    def future_room(self, rows: Rows) -> Counts:
        return self._rooms(rows, now=False)

    def _rooms(self, rows: Rows, *, now: bool) -> Counts:
        by_code: Counts = np.full(len(self._names) + 1, UNBOUNDED, dtype=np.int64)  # the last stands for code -1
        for code, room in self._room.items():
            by_code[code] = room(now=now)
        result: Counts = by_code[self._codes[rows]]
        return result

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self._codes[rows], minlength=len(self._names))
        return [(self._reason(self._names[code]), number) for code, number in enumerate(numbers.tolist()) if number]


def preference(inventory: Inventory, resource: str, cards: tuple[str, ...]) -> Column:
    """Shape (nodes,): WEIGHT for every place by which a node's card stands before the last of the cards."""
    score: Column = np.zeros(len(inventory.column(resource)))
    column = inventory.column(resource)
    for place, card in enumerate(reversed(cards)):
        score[column == inventory.code(card)] = place * WEIGHT
    return score
