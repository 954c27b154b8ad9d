"""A run: nodes for several equal tasks, each task placed on the best node, one after the other.

Two properties make this cheap. Answers of scope STATIC and NODE (room, most scores) change only when the node itself is
chosen, so each node is a known sequence of scores. Filters and scores of scope CLUSTER give the same answer for all
nodes of a group, so they are evaluated for one node of each group. The next task is placed on the best of the best
nodes of all groups. The result equals, by construction and by test, evaluating every node for every task.

``SearchRules`` say how a session searches for nodes, and ``SearchDurations`` how long that takes. They count filters
and scores apart, as Volcano's stages Predicate and Scoring. A search finds nodes for all equal tasks that are placed
together. The creation of filters and scores of a class counts to the next search, which is in most cases the first one
of that class.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import ColumnFailure, Counts, Grouped, GroupedFilter, GroupedScore


@dataclass(slots=True)
class SearchDurations:
    """Durations in seconds."""

    filters: list[float] = field(default_factory=list)
    """What each search spent in filters."""
    scores: list[float] = field(default_factory=list)
    """What each search spent in scores."""
    creating_filters: float = 0.0
    """What the creation of filters took that no search counts yet."""
    creating_scores: float = 0.0
    """What the creation of scores took that no search counts yet."""
    filtering: float = 0.0
    """What the current search has spent in filters."""


def _raise(column: object, method: str, error: Exception, row: int | None = None) -> NoReturn:
    raise error


class SearchRules(msgspec.Struct, frozen=True):
    """What all views of a session have in common. They share it because they are many: each attribute of a view costs
    time."""

    limit: int = 0
    """The largest number of candidate nodes, in the order of names (``--percentage-nodes-to-find``); 0: no limit."""
    durations: SearchDurations = msgspec.field(default_factory=SearchDurations)
    """Where searches are recorded."""
    fail: ColumnFailure = _raise
    """Raises exceptions of filters and scores; by default unchanged."""


Ahead = Callable[[Rows, int, int], list[list[float]]]
"""ahead(rows, first, depth): the scores of each row with ``first``, ``first`` + 1, ... more tasks on it."""
Groups = NDArray[np.intp]
MAX_RUN = 256
"""The maximum number of tasks of one run. It bounds the cost of a run that places none."""
SHALLOW, DEEP, MANY = 3, 32, 32
"""How many scores are computed ahead: SHALLOW on every candidate; DEEP on a node that was chosen that often, and on the
next MANY nodes."""


class RunRules(msgspec.Struct, frozen=True):
    """What all runs of a class have in common. The filters and scores have scope CLUSTER."""

    ahead: Ahead
    filters: Sequence[GroupedFilter]
    scores: Sequence[GroupedScore]
    fail: ColumnFailure


class Run:
    """Nodes for up to ``count`` tasks, best first. A run leaves filters and scores unchanged."""

    def __init__(self, rules: RunRules, rows: Rows, room: Counts, score: Column, count: int) -> None:
        """``rows``: the nodes with room, ascending; ``room`` and ``score`` (scopes STATIC and NODE) of each."""
        self._ahead = ahead = rules.ahead
        self._filters = rules.filters
        self._scores = rules.scores
        self._fail = rules.fail
        self._count = count = min(count, MAX_RUN)
        self._conditions: list[Grouped] = [*rules.filters, *rules.scores]
        groups = self._groups(rows)
        sizes = np.bincount(groups)
        within = _best(groups, sizes, score, count)
        self._sizes: Counts = sizes.astype(np.int64)
        """The number of candidates in each group, including those that rank too low to be chosen."""
        best = rows[within]
        self._room: dict[int, int] = dict(zip(best.tolist(), np.minimum(room[within], count).tolist(), strict=True))
        depth = min(SHALLOW, max(self._room.values()))
        self._table: dict[int, list[float]] = dict(zip(best.tolist(), ahead(best, 0, depth), strict=True))
        self._heads: list[list[tuple[float, int]]] = [[] for _ in sizes]
        for group, negative, row in zip(groups[within].tolist(), (-score[within]).tolist(), best.tolist(), strict=True):
            self._heads[group].append((negative, row))
        for heads in self._heads:
            heapq.heapify(heads)
        self._tops: Rows = np.array([heads[0][1] for heads in self._heads], dtype=np.intp)
        self._bests: Column = np.array([-heads[0][0] for heads in self._heads])
        self._moves = any(condition.moves for condition in self._conditions)
        self._numbers = {traits: group for group, traits in enumerate(self._traits(self._tops))} if self._moves else {}
        self._taken: dict[int, int] = {}
        self.chosen_scores: list[float] = []
        """The score of each place, without the scores of scope CLUSTER, when it was chosen."""

    def places(self) -> list[int]:
        """Returns the rows in the order of the tasks; fewer than ``count`` if the nodes run out."""
        self.chosen_scores.clear()
        chosen: list[int] = []
        try:
            while len(chosen) < self._count and (group := self._best_group()) is not None:
                chosen.append(self._take(group))
        finally:
            for row in chosen:
                self._place(row, -1)
        return chosen

    def _best_group(self) -> int | None:
        """Returns the group whose best node gets the next task."""
        if not self._conditions:
            return 0 if self._heads[0] else None
        live = np.flatnonzero(self._sizes)
        rows = self._tops[live]
        try:
            for condition in self._filters:
                passes = condition.room(rows) > 0
                live, rows = live[passes], rows[passes]
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "room", error)
        if len(live) < 2:
            return int(live[0]) if len(live) else None
        total = self._bests[live]
        if self._scores:
            sizes, wide = self._sizes[live], np.zeros(len(live))
            try:
                for score in self._scores:
                    wide += score.of_groups(rows, sizes)
            except Exception as error:  # the code of others may raise anything
                self._fail(score, "of_groups", error)
            total = total + wide
        first = np.flatnonzero(total == total.max())
        return int(live[first[np.argmin(rows[first])]])

    def _take(self, group: int) -> int:
        """Places one more task on the best node of a group."""
        heads = self._heads[group]
        negative, row = heads[0]
        self.chosen_scores.append(-negative)
        taken = self._taken[row] = self._taken.get(row, 0) + 1
        self._place(row, 1)
        goes_on = taken < self._room[row]
        target = self._number(row) if goes_on and self._moves else group
        if goes_on and target == group:
            heapq.heapreplace(heads, (-self._score_after(row, taken, heads), row))
        else:
            heapq.heappop(heads)
            self._sizes[group] -= 1
            if goes_on:
                heapq.heappush(self._heads[target], (-self._score_after(row, taken, heads), row))
                self._sizes[target] += 1
                self._lead(target)
        self._lead(group)
        return row

    def _place(self, row: int, number: int) -> None:
        try:
            for condition in self._conditions:
                condition.place(row, number)
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "place", error, row)

    def _lead(self, group: int) -> None:
        """Updates the best node of a group."""
        heads = self._heads[group]
        if heads and self._conditions:
            self._bests[group], self._tops[group] = -heads[0][0], heads[0][1]

    def _score_after(self, row: int, taken: int, heads: Sequence[tuple[float, int]]) -> float:
        """Returns the score of a node with ``taken`` more tasks. ``heads``: the scores and rows of the best nodes of
        its group; those of the first ones are computed as well, because they will be needed soon."""
        table = self._table
        first = len(table[row])
        if taken >= first:
            others = (other for _, other in heads[:MANY] if other != row and len(table[other]) == first)
            rows = sorted((row, *others))
            depth = min(DEEP, max(self._room[one] for one in rows) - first)
            for one, scores in zip(rows, self._ahead(np.array(rows, dtype=np.intp), first, depth), strict=True):
                table[one] += scores
        return table[row][taken]

    def _groups(self, rows: Rows) -> Groups:
        """Returns the group of each row: 0, 1, ... for each combination of traits that occurs."""
        groups: Groups = np.zeros(len(rows), dtype=np.intp)
        try:
            for condition in self._conditions:
                for column in condition.traits(rows):
                    low = column.min()
                    width = int(column.max() - low) + 1
                    if width > 1:
                        groups = _renumbered(groups * width + (column - low).astype(np.intp))
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "traits", error)
        return groups

    def _traits(self, rows: Rows) -> list[tuple[float, ...]]:
        columns: list[list[float]] = []
        try:
            for condition in self._conditions:
                columns += [column.tolist() for column in condition.traits(rows)]
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "traits", error)
        return list(zip(*columns, strict=True))

    def _number(self, row: int) -> int:
        """Returns the group of a node according to its current traits."""
        (traits,) = self._traits(np.array([row], dtype=np.intp))
        number = self._numbers.get(traits)
        if number is None:
            number = self._numbers[traits] = len(self._heads)
            self._heads.append([])
            self._sizes, self._tops = np.append(self._sizes, 0), np.append(self._tops, row)
            self._bests = np.append(self._bests, 0.0)
        return number


def _renumbered(groups: Groups) -> Groups:
    if groups.max() < 8 * len(groups):
        occurs = np.zeros(int(groups.max()) + 1, dtype=np.intp)
        occurs[groups] = 1
        numbers: Groups = (np.cumsum(occurs) - 1)[groups]
        return numbers
    inverse: Groups = np.unique(groups, return_inverse=True)[1]
    return inverse


def _best(groups: Groups, sizes: NDArray[np.intp], score: Column, count: int) -> Rows:
    """Returns the positions of the ``count`` best nodes of each group, the first among equals. No other node of the
    group can be chosen: each of these would be chosen before it, and then all tasks are placed."""
    if len(groups) <= count:
        return np.arange(len(groups))
    if len(sizes) == 1:
        return _highest(score, count)
    order = np.lexsort((-score, groups))
    starts = np.cumsum(sizes) - sizes
    return order[np.arange(len(order)) - np.repeat(starts, sizes) < count]


def _highest(score: Column, count: int) -> Rows:
    """Returns the positions of the ``count`` highest scores, the first among equals; in ascending order."""
    return np.sort(np.argsort(-score, kind="stable")[:count])
