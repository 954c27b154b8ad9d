"""What a family answers about nodes for one class of tasks: how many fit, and how good each place is.

Answers belong to the state of a node's cards, not to the node: nodes in one state are looked at once. For each state a
run is worked out, the places that tasks of the class would get one after the other, so that equal tasks are placed
together with the outcome of one by one.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Nodes, Rows
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.deviceshare.cards import Cards, charge, mask_of
from scheduler.plugins.deviceshare.family import Family
from scheduler.plugins.deviceshare.ledger import CardLedger
from scheduler.plugins.deviceshare.separation import Shuns

BEST: Final = 8.0
Codes = NDArray[np.int64]


class Runs:
    """The places of tasks of one claim, one after the other, by the state of a node. Worked out as far as needed."""

    def __init__(self, family: Family[Any], claim: Any) -> None:
        self._family = family
        self._claim = claim
        self._codes: dict[tuple[Cards, int, bool], int] = {}
        self._rooms: list[int] = [0]
        self._column = np.zeros(1, dtype=np.int64)
        self._scores: list[list[float]] = [[]]
        self._heads: list[tuple[Cards, int, bool]] = [((), 0, False)]
        """The states after the tasks of which the scores are known."""

    def code(self, cards: Cards, eligible: int, apart: bool) -> int:
        """The number of a state, with the mask of cards in question; 0 is that of a node without devices. ``apart``: no
        two tasks of the class share a card."""
        key = (cards, eligible, apart)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._rooms)
            self._rooms.append(self._family.room(cards, self._claim, eligible, apart))
            self._scores.append([])
            self._heads.append(key)
        return code

    def rooms(self, codes: Codes) -> Counts:
        """How many tasks fit, by code; no more than are placed at once count."""
        if len(self._column) < len(self._rooms):
            self._column = np.array(self._rooms, dtype=np.int64)
        rooms: Counts = self._column[codes]
        return rooms

    def scores(self, codes: Codes, ahead: Counts | None) -> Column:
        """The score of the task after ``ahead`` others (None: of the first), by code; 0 where it does not fit."""
        places = itertools.repeat(0) if ahead is None else ahead.tolist()
        return np.array([self._score(code, place) for code, place in zip(codes.tolist(), places, strict=False)])

    def _score(self, code: int, place: int) -> float:
        if place >= self._rooms[code]:
            return 0.0
        scores = self._scores[code]
        while len(scores) <= place:
            cards, eligible, apart = self._heads[code]
            placement = self._family.place(cards, self._claim, eligible)
            if placement is None:
                return 0.0
            scores.append(placement.score)
            rest = eligible & ~mask_of(placement.grant) if apart else eligible
            self._heads[code] = (charge(cards, placement.grant), rest, apart)
        return scores[place]


class ClaimColumns:
    """The answers for classes of one claim, kept up to date with the ledger."""

    def __init__(self, ledger: CardLedger, claim: Any, shuns: Shuns | None) -> None:
        self._ledger = ledger
        self._shuns = shuns
        family = ledger.family
        self._eligible = {row: family.eligible(claim, reading.inventory) for row, reading in ledger.readings.items()}
        self.suits: NDArray[np.bool_] = np.zeros(len(ledger.has_devices), dtype=bool)
        """Shape (nodes,): nodes with cards that the claim is content with, free or not."""
        self.suits[[row for row, mask in self._eligible.items() if mask]] = True
        self._runs = Runs(family, claim)
        self._codes: tuple[Codes, Codes] = (
            np.zeros(len(ledger.has_devices), dtype=np.int64),
            np.zeros(len(ledger.has_devices), dtype=np.int64),
        )
        self._seen = len(ledger.log)
        self._look(ledger.readings)

    def _sync(self) -> None:
        fresh = self._ledger.log[self._seen :]
        self._seen = len(self._ledger.log)
        self._look(dict.fromkeys(fresh))

    def _look(self, rows: Iterable[int]) -> None:
        ledger, shuns = self._ledger, self._shuns
        for row in rows:
            inventory = ledger.readings[row].inventory
            apart = shuns is not None and shuns.each_other(inventory)
            known: tuple[Cards, int] | None = None
            code = 0
            for later, codes in enumerate(self._codes):
                eligible = self._eligible[row]
                if shuns is not None and eligible:
                    eligible &= ~ledger.barred(row, shuns, later=bool(later))
                cards = ledger.usable(row, later=bool(later))
                if known is None or cards is not known[0] or eligible != known[1]:  # often nothing changes later
                    code = self._runs.code(cards, eligible, apart) if eligible else 0
                    known = cards, eligible
                codes[row] = code

    def room(self, rows: Rows, *, later: bool) -> Counts:
        self._sync()
        return self._runs.rooms(self._codes[later][rows])

    def scores(self, rows: Rows, ahead: Counts | None) -> Column:
        self._sync()
        return self._runs.scores(self._codes[0][rows], ahead)


class CardFilter:
    """Nodes with the cards that are asked for."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, columns: ClaimColumns, words: str) -> None:
        self._columns = columns
        self._words = words

    def room(self, rows: Rows) -> Counts:
        return self._columns.room(rows, later=False)

    def future_room(self, rows: Rows) -> Counts:
        """As ``room``, once terminating Pods are gone and what others were promised is taken."""
        return self._columns.room(rows, later=True)

    def reasons(self, rows: Rows) -> Sequence[tuple[str, int]]:
        return ((f"node(s) had no {self._words}", len(rows)),)


class CardScore:
    """Nodes by the policy of the family, rounded to whole points, times the weight."""

    scope = Scope.NODE

    def __init__(self, columns: ClaimColumns, weight: int) -> None:
        self._columns = columns
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        column: Column = np.floor(self._columns.scores(rows, ahead) + 0.5) * self._weight
        return column


class IdleScore:
    """The node with least of a resource idle, of those where nothing less than what was asked for has to do: as
    MindCluster ranks nodes for virtual NPUs."""

    scope = Scope.CLUSTER

    def __init__(self, columns: ClaimColumns, nodes: Nodes, position: int, weight: int) -> None:
        """``position``: of the resource in vectors."""
        self._columns = columns
        self._nodes = nodes
        self._position = position
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        """With lesser templates about: the best node that needs none has 16, those before it 8; else the best has 8."""
        column: Column = np.zeros(len(rows))
        order = np.argsort(self._nodes.idle[self._position, rows], kind="stable")
        lesser = self._columns.scores(rows, None)[order] < 1
        if not lesser.any():
            column[order[:1]] = BEST
        else:
            first = int(np.argmin(lesser)) if not lesser.all() else len(order)
            column[order[:first]] = BEST
            column[order[first : first + 1]] = 2 * BEST
        return column * self._weight
