"""The filters and scores of a family for one class of tasks.

Results are cached by the state of a node's cards, so nodes in the same state share them. For each state a run is
computed: the placements of tasks of the class one after the other. Equal tasks can then be placed together with the
same result as one by one.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Nodes, Rows
from scheduler.framework.columns import Counts, Scope
from scheduler.plugins.deviceshare.cards import Cards, charge, mask_of
from scheduler.plugins.deviceshare.exclusion import ExclusionRule
from scheduler.plugins.deviceshare.family import DeviceFamily
from scheduler.plugins.deviceshare.ledger import CardLedger

BEST: Final = 8.0
Codes = NDArray[np.int64]


class Runs:
    """The successive placements of tasks of one claim for each state of a node, computed as far as needed."""

    def __init__(self, family: DeviceFamily[Any], claim: Any) -> None:
        self._family = family
        self._claim = claim
        self._codes: dict[tuple[Cards, int, bool], int] = {}
        self._counts: list[int] = [0]
        self._column = np.zeros(1, dtype=np.int64)
        self._scores: list[list[float]] = [[]]
        self._heads: list[tuple[Cards, int, bool]] = [((), 0, False)]
        """Code -> the state after the tasks whose scores are known."""

    def code(self, cards: Cards, eligible: int, exclusive: bool) -> int:
        """Returns the code of a state and the mask of eligible cards; 0 is the code of a node without devices.
        ``exclusive``: no two tasks of the class share a card."""
        key = (cards, eligible, exclusive)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._counts)
            self._counts.append(self._family.room(cards, self._claim, eligible, exclusive))
            self._scores.append([])
            self._heads.append(key)
        return code

    def counts(self, codes: Codes) -> Counts:
        """Returns how many tasks fit, by code, up to the number that is placed at once."""
        if len(self._column) < len(self._counts):
            self._column = np.array(self._counts, dtype=np.int64)
        counts: Counts = self._column[codes]
        return counts

    def scores(self, codes: Codes, ahead: Counts | None) -> Column:
        """Returns the score of the task after ``ahead`` others (None: of the first), by code; 0 if it does not fit."""
        places = itertools.repeat(0) if ahead is None else ahead.tolist()
        return np.array([self._score(code, place) for code, place in zip(codes.tolist(), places, strict=False)])

    def _score(self, code: int, place: int) -> float:
        if place >= self._counts[code]:
            return 0.0
        scores = self._scores[code]
        while len(scores) <= place:
            cards, eligible, exclusive = self._heads[code]
            placement = self._family.place(cards, self._claim, eligible)
            if placement is None:
                return 0.0
            scores.append(placement.score)
            rest = eligible & ~mask_of(placement.grant) if exclusive else eligible
            self._heads[code] = (charge(cards, placement.held), rest, exclusive)
        return scores[place]


class ClaimColumns:
    """How many tasks of classes with one claim fit on each node, and the scores of nodes; follows the ledger."""

    def __init__(self, ledger: CardLedger, claim: Any, exclusion: ExclusionRule | None) -> None:
        self._ledger = ledger
        self._exclusion = exclusion
        self._claim = claim
        self._runs = Runs(ledger.family, claim)
        number = len(ledger.has_devices)
        self.eligible_nodes: NDArray[np.bool_] = np.zeros(number, dtype=bool)
        """Shape (nodes,): nodes with cards that the claim accepts, free or not."""
        self._codes: tuple[Codes, Codes] = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
        self._seen = 0
        if exclusion is None and not ledger.family.names_cards(claim):
            self._read_kinds()
        else:
            rows = list(ledger.node_states)
            self.eligible_nodes[[row for row in rows if self._eligible(row)]] = True
            self._update(rows)

    def _read_kinds(self) -> None:
        """Reads the nodes as they were when the session was opened: those of one kind have one code."""
        nodes, family, rows = self._ledger.nodes, self._ledger.family, np.flatnonzero(self._ledger.has_devices)
        eligible = [family.eligible(self._claim, state.inventory) for state in nodes.kinds]
        self.eligible_nodes[rows] = np.array([mask != 0 for mask in eligible], dtype=bool)[nodes.kind[rows]]
        for later, codes in enumerate(self._codes):
            states = ((state.later if later else state.now) for state in nodes.kinds)
            of_kinds = [
                self._runs.code(cards, mask, False) if mask else 0 for cards, mask in zip(states, eligible, strict=True)
            ]
            codes[rows] = np.array(of_kinds, dtype=np.int64)[nodes.kind[rows]]

    def _eligible(self, row: int) -> int:
        """Returns the mask of the cards of a node that the claim accepts."""
        return self._ledger.family.eligible(self._claim, self._ledger.node_states[row].inventory)

    def _sync(self) -> None:
        fresh = self._ledger.log[self._seen :]
        self._seen = len(self._ledger.log)
        self._update(dict.fromkeys(fresh))

    def _update(self, rows: Iterable[int]) -> None:
        ledger, exclusion = self._ledger, self._exclusion
        for row in rows:
            inventory = ledger.node_states[row].inventory
            exclusive = exclusion is not None and exclusion.excludes_own_class(inventory)
            known: tuple[Cards, int] | None = None
            code, accepted = 0, self._eligible(row)
            for later, codes in enumerate(self._codes):
                eligible = accepted
                if exclusion is not None and eligible:
                    eligible &= ~ledger.excluded_cards(row, exclusion, later=bool(later))
                cards = ledger.usable(row, later=bool(later))
                if known is None or cards is not known[0] or eligible != known[1]:  # often nothing changes later
                    code = self._runs.code(cards, eligible, exclusive) if eligible else 0
                    known = cards, eligible
                codes[row] = code

    def room(self, rows: Rows, *, later: bool) -> Counts:
        self._sync()
        return self._runs.counts(self._codes[later][rows])

    def scores(self, rows: Rows, ahead: Counts | None) -> Column:
        self._sync()
        return self._runs.scores(self._codes[0][rows], ahead)


class CardFilter:
    """Passes nodes with enough free cards for the claim."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, columns: ClaimColumns, description: str) -> None:
        self._columns = columns
        self._description = description

    def room(self, rows: Rows) -> Counts:
        return self._columns.room(rows, later=False)

    def future_room(self, rows: Rows) -> Counts:
        """Returns ``room`` after terminating Pods are deleted and pipelined tasks are placed."""
        return self._columns.room(rows, later=True)

    def reasons(self, rows: Rows) -> Sequence[tuple[str, int]]:
        return ((f"node(s) had no {self._description}", len(rows)),)


class CardScore:
    """Scores nodes by the policy of the family: whole points times the weight."""

    scope = Scope.NODE

    def __init__(self, columns: ClaimColumns, weight: int) -> None:
        self._columns = columns
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        column: Column = np.floor(self._columns.scores(rows, ahead) + 0.5) * self._weight
        return column


class IdleScore:
    """Scores nodes for virtual NPUs as MindCluster does: nodes that need no fallback template first, then the node with
    the least idle amount of a resource."""

    scope = Scope.CLUSTER

    def __init__(self, columns: ClaimColumns, nodes: Nodes, position: int, weight: int) -> None:
        """``position``: index of the resource in vectors."""
        self._columns = columns
        self._nodes = nodes
        self._position = position
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        """Returns 8 for the best node. If some nodes need a fallback template, returns 16 for the best node that needs
        none, and 8 for the nodes before it."""
        column: Column = np.zeros(len(rows))
        order = np.argsort(self._nodes.idle[self._position, rows], kind="stable")
        fallback = self._columns.scores(rows, None)[order] < 1
        if not fallback.any():
            column[order[:1]] = BEST
        else:
            first = int(np.argmin(fallback)) if not fallback.all() else len(order)
            column[order[:first]] = BEST
            column[order[first : first + 1]] = 2 * BEST
        return column * self._weight
