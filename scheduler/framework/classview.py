"""The nodes as the tasks of one class see them: where they fit, how good each place is, and the best places for a run.

A gang of a hundred equal tasks is placed by one call. The view keeps a room and a score per node and refreshes only
rows that changed since it last looked. When everything that depends on placements depends on the node alone (scope
NODE), placing k tasks one after the other, each on the best node, is a merge of per-node sequences: the score of a node
changes only by being chosen, so the next scores of the k best nodes are computed at once and merged with a heap. The
outcome is, by construction and by test, that of choosing the best node one task at a time.
"""

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.reasons import FitErrors
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, format_amount
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, FutureFilter, Scope, Score

Chooser = Callable[[Rows, Column], int | None]
LONGEST_RUN = 256
"""Tasks placed by one call; bounds the table of scores looked ahead (nodes x tasks) to a few hundred kilobytes."""


class ClassView:
    """Rooms and scores of all nodes for one class of tasks, kept up to date with the session's nodes."""

    def __init__(
        self,
        nodes: Nodes,
        cls: TaskClass,
        filters: Sequence[Filter],
        scores: Sequence[Score],
        *,
        check_resources: bool = True,
        limit: int = 0,
        chooser: Chooser | None = None,
    ) -> None:
        """``check_resources`` False leaves out the comparison of amounts (best-effort tasks); ``limit`` > 0 looks only
        at so many of the nodes that pass (``--percentage-nodes-to-find``), in name order; ``chooser`` has a say in
        which of the candidates is taken (it gets rows and their scores; None leaves it to the best score)."""
        self._nodes = nodes
        self._cls = cls
        self._filters = filters
        self._limit = limit
        self._request = cls.request
        dims = [int(d) for d in np.flatnonzero(cls.request > 0)] if check_resources else []
        self._dims = dims
        self._bare = [d for d in (CPU_INDEX, MEMORY_INDEX) if d not in dims] if check_resources else []
        self._fixed = [s for s in scores if s.scope is Scope.STATIC]
        self._moving = [s for s in scores if s.scope is Scope.NODE]
        self._wide = [s for s in scores if s.scope is Scope.CLUSTER]
        self._node_filters = [f for f in filters if f.scope is not Scope.CLUSTER]
        self._wide_filters = [f for f in filters if f.scope is Scope.CLUSTER]
        self._chooser = chooser
        self.one_at_a_time = bool(self._wide or self._wide_filters or chooser)
        """Any placement may change any node's answer, so runs are placed task by task."""
        self._all: Rows = np.arange(len(nodes))
        self._seen = len(nodes.log)
        self._errors: tuple[int, FitErrors] | None = None
        self._filter_room = self._room_by_filters(self._all)
        self._idle_room = self._room_in(nodes.idle, self._all)
        self._fixed_score = self._sum(self._fixed, self._all, None)
        self._score = self._fixed_score + self._sum(self._moving, self._all, None)

    # --- keeping up ---
    def _sync(self) -> None:
        log = self._nodes.log
        if self._seen == len(log):
            return
        fresh = log[self._seen :]
        self._seen = len(log)
        rows = self._all if len(fresh) >= len(self._all) else np.unique(np.array(fresh, dtype=np.intp))
        self._filter_room[rows] = self._room_by_filters(rows)
        self._idle_room[rows] = self._room_in(self._nodes.idle, rows)
        self._score[rows] = self._fixed_score[rows] + self._sum(self._moving, rows, None)

    def _room_by_filters(self, rows: Rows) -> Counts:
        room: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        for condition in self._node_filters:
            np.minimum(room, condition.room(rows), out=room)
        return room

    def _room_in(self, available: Column, rows: Rows) -> Counts:
        """How many tasks fit into the amounts given, by resources alone. A node short of cpu or memory takes none, even
        if the task asks for neither (Volcano compares every resource it knows of the node)."""
        room: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        for d in self._dims:
            np.minimum(room, (available[d, rows] // self._request[d]).astype(np.int64), out=room)
        for d in self._bare:
            room[available[d, rows] < 0] = 0
        return np.maximum(room, 0, out=room)

    def _sum(self, scores: Sequence[Score], rows: Rows, ahead: Counts | None) -> Column:
        total: Column = np.zeros(len(rows))
        for score in scores:
            total += score.values(rows, ahead)
        return total

    def _wide_pass(self, rows: Rows) -> Rows:
        for condition in self._wide_filters:
            if not len(rows):
                break
            rows = rows[condition.room(rows) > 0]
        return rows

    # --- choosing ---
    def choose(self, count: int) -> list[int]:
        """Rows for up to ``count`` tasks of the class placed one after the other on idle resources, best first, ties to
        the lower row. Fewer (or none) when the nodes run out. Nothing is taken: the caller allocates."""
        self._sync()
        room = np.minimum(self._filter_room, self._idle_room)
        passing = self._wide_pass(np.flatnonzero(room > 0))
        open_rows = self._limited(passing)
        if not len(open_rows):
            return []
        if self.one_at_a_time or count == 1:
            return [self._best_of(open_rows)]
        chosen = self._merge(open_rows, room, min(count, LONGEST_RUN))
        return chosen if len(open_rows) == len(passing) else _until_full(chosen, room)

    def choose_future(self) -> int | None:
        """The best row for one task on resources that terminating tasks will give back, or None."""
        self._sync()
        fits = self._future_room(self._all) & (self._room_in(self._nodes.future_idle(), self._all) > 0)
        rows = self._limited(self._wide_pass(np.flatnonzero(fits)))
        return self._best_of(rows) if len(rows) else None

    def admits(self, row: int) -> tuple[bool, bool]:
        """Whether one task fits on the row now, and whether it would once terminating tasks are gone."""
        self._sync()
        rows = np.array([row], dtype=np.intp)
        if not len(self._wide_pass(rows)):
            return False, False
        future = self._nodes.future_idle_of(row)
        fits = all(self._request[d] <= future[d] for d in self._dims) and all(future[d] >= 0 for d in self._bare)
        now = bool(self._filter_room[row] > 0 and self._idle_room[row] > 0)
        return now, bool(fits and self._future_room(rows)[0])

    def passes_in_future(self) -> NDArray[np.bool_]:
        """Shape (nodes,): where the filters let one task once terminating tasks are gone; amounts are not looked at."""
        self._sync()
        passes = np.zeros(len(self._all), dtype=bool)
        passes[self._wide_pass(np.flatnonzero(self._future_room(self._all)))] = True
        return passes

    def ranked(self, rows: Rows) -> Rows:
        """The rows, which are all that are in question, in the order of their scores, best first, ties to the lower."""
        self._sync()
        scores = self._score[rows] + self._sum(self._wide, rows, None)
        return rows[np.argsort(-scores, kind="stable")]

    def _future_room(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether the filters let one task on each row once terminating tasks are gone."""
        passes = np.ones(len(rows), dtype=bool)
        for condition in self._node_filters:
            answer = condition.future_room if isinstance(condition, FutureFilter) else condition.room
            passes &= answer(rows) > 0
        return passes

    def _limited(self, rows: Rows) -> Rows:
        return rows[: self._limit] if self._limit else rows

    def _best_of(self, rows: Rows) -> int:
        """The best of the candidates (at least one)."""
        if len(rows) == 1:
            return int(rows[0])
        scores = self._score[rows] + self._sum(self._wide, rows, None)
        chosen = self._chooser(rows, scores) if self._chooser is not None else None
        return int(rows[np.argmax(scores)]) if chosen is None else chosen

    def _merge(self, open_rows: Rows, room: Counts, count: int) -> list[int]:
        """The rows that ``count`` one-by-one choices would take. Only the ``count`` best nodes can be chosen: a node
        outside them is reached after each of them was chosen once, and by then all tasks are placed."""
        rows = _best_rows(open_rows, self._score[open_rows], count)
        rooms = np.minimum(room[rows], count)
        depth = int(rooms.max())
        table = self._ahead(rows, depth)
        heads = [(-table[i][0], int(row), i, 0) for i, row in enumerate(rows)]
        heapq.heapify(heads)
        limits = rooms.tolist()
        chosen: list[int] = []
        while heads and len(chosen) < count:
            _, row, i, taken = heads[0]
            chosen.append(row)
            taken += 1
            if taken < limits[i]:
                heapq.heapreplace(heads, (-table[i][taken], row, i, taken))
            else:
                heapq.heappop(heads)
        return chosen

    def _ahead(self, rows: Rows, depth: int) -> list[list[float]]:
        """Scores of each row for the 1st, 2nd, ... ``depth``-th task placed there."""
        if depth == 1 or not self._moving:
            return [[score] * depth for score in self._score[rows].tolist()]
        ahead: Counts = np.tile(np.arange(depth, dtype=np.int64), len(rows))
        repeated = np.repeat(rows, depth)
        table = self._fixed_score[repeated] + self._sum(self._moving, repeated, ahead)
        result: list[list[float]] = table.reshape(len(rows), depth).tolist()
        return result

    # --- explaining ---
    def fit_errors(self, names: Sequence[str]) -> FitErrors:
        """Why no node takes a task of the class now: per reason the number of nodes. ``names`` are resource names.

        The answer is shared by all jobs that ask while nothing is placed: not to be changed.
        """
        self._sync()
        if self._errors is not None and self._errors[0] == self._seen:
            return self._errors[1]
        errors = FitErrors(len(self._all))
        self._errors = (self._seen, errors)
        future = self._nodes.future_idle()
        rest = self._all
        admitted = np.flatnonzero(self._filter_room > 0)
        usable = admitted if len(admitted) else rest
        for d in (*self._dims, *self._bare):
            short = future[d, rest] < self._request[d]
            number = int(short.sum())
            if number:
                errors.reasons[f"Insufficient {names[d]}"] += number
                asked, most = (
                    format_amount(names[d], self._request[d]),
                    format_amount(names[d], future[d, usable].max()),
                )
                errors.shortages.append(f"{names[d]}: asked {asked}, most free on one node {most}")
                rest = rest[~short]
        for condition in self._filters:
            refused = rest[condition.room(rest) < 1]
            if len(refused):
                for reason, number in condition.reasons(refused):
                    errors.reasons[reason] += number
                if condition.unresolvable:  # nothing else is asked of a node that cannot be had at all
                    rest = np.setdiff1d(rest, refused, assume_unique=True)
        return errors

    def unresolvable(self) -> NDArray[np.bool_]:
        """Shape (nodes,): nodes that evicting Pods cannot open to this class."""
        result = np.zeros(len(self._all), dtype=bool)
        for condition in self._filters:
            if condition.unresolvable:
                result |= condition.room(self._all) < 1
        return result


def _until_full(chosen: list[int], room: Counts) -> list[int]:
    """The choices up to the one that fills a node: from there on another node is among those looked at."""
    taken: dict[int, int] = {}
    for position, row in enumerate(chosen, start=1):
        taken[row] = taken.get(row, 0) + 1
        if taken[row] == room[row]:
            return chosen[:position]
    return chosen


def _best_rows(rows: Rows, scores: Column, count: int) -> Rows:
    """The ``count`` rows of highest score, ties to the lower row; in row order."""
    if len(rows) <= count:
        return rows
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    better = scores > threshold
    level = np.flatnonzero(scores == threshold)[: count - int(better.sum())]
    better[level] = True
    best: Rows = rows[better]
    return best
