"""The filter and the score of nodes for Pods with alternative cards: by the remaining quota, and by preference."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import numpy as np

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.capacity_card.discovery import CardColumn

WEIGHT: Final = 1e9
"""The score of one step in the order in which a Pod names its cards. It exceeds the scores of other plugins: usual
scores add up to some thousands, the ranks of Ascend nodes to less than 1e9. Other plugins therefore choose only among
the nodes of one card. With at most 64 names float64 keeps five decimal places of the other scores."""


class Room(Protocol):
    def __call__(self, *, now: bool) -> int:
        """Returns how many more Pods may use a card: now, or after terminating tasks are deleted."""


class QuotaFilter:
    """Passes nodes whose card has quota left in the queue. Each placement may exhaust a quota."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(self, cards: CardColumn, room: Mapping[str, Room], reason: Callable[[str], str]) -> None:
        """``room``: by card; nodes with other cards pass. ``reason``: returns why a card is refused."""
        self._names = cards.names
        self._codes = cards.codes
        self._room = {code: room[card] for code, card in enumerate(cards.names) if card in room}
        self._reason = reason

    def room(self, rows: Rows) -> Counts:
        return self._per_node(rows, now=True)

    def future_room(self, rows: Rows) -> Counts:
        return self._per_node(rows, now=False)

    def _per_node(self, rows: Rows, *, now: bool) -> Counts:
        by_code: Counts = np.full(len(self._names) + 1, UNBOUNDED, dtype=np.int64)  # the last element is for code -1
        for code, room in self._room.items():
            by_code[code] = room(now=now)
        result: Counts = by_code[self._codes[rows]]
        return result

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self._codes[rows], minlength=len(self._names))
        return [(self._reason(self._names[code]), number) for code, number in enumerate(numbers.tolist()) if number]


def card_preference(column: CardColumn, cards: tuple[str, ...]) -> Column:
    """Returns WEIGHT times the number of cards listed after the card of the node; shape (nodes,)."""
    score: Column = np.zeros(len(column.codes) - 1)
    for place, card in enumerate(reversed(cards)):
        score[column.passes((card,))] = place * WEIGHT
    return score
