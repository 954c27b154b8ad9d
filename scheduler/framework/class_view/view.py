"""The nodes that one class of tasks can use: where tasks fit, the scores, and the best nodes for a run.

A gang of a hundred equal tasks is placed by one call (``runs``). The view considers only the nodes that pass all
filters of scope STATIC, holds a room and a score for each, and refreshes only those that changed since the last call.
So a class with one candidate node costs almost nothing, and many classes can alternate. Where tasks come one by one, as
in a thousand jobs with one Pod, nodes for later tasks are planned too (``plan``).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from time import perf_counter
from typing import NoReturn

import numpy as np

from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.reasons import FitErrors
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Vector
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.candidates import CachedColumn, CandidateNodes, ScoreOrder
from scheduler.framework.class_view.plan import NodePlan
from scheduler.framework.class_view.refusals import Refusals
from scheduler.framework.class_view.runs import MAX_RUN, SHALLOW, Run, RunRules, SearchRules
from scheduler.framework.columns import (
    GRAIN,
    UNBOUNDED,
    Counts,
    Filter,
    FutureFilter,
    Scope,
    Score,
    devices_of,
    is_costly,
    is_grouped_filter,
    is_grouped_score,
)
from scheduler.framework.failures import AnswerError, PluginError

Chooser = Callable[[Rows, Column], int | None]
FEW = 4
"""The number of nodes that a Costly filter checks first."""


class ClassView:
    """How many tasks of one class each node takes, and its score; follows the changes of the session."""

    def __init__(
        self,
        nodes: Nodes,
        cls: TaskClass,
        filters: Sequence[Filter],
        scores: Sequence[Score],
        rules: SearchRules | None = None,
        *,
        check_resources: bool = True,
        chooser: Chooser | None = None,
    ) -> None:
        """``check_resources``: whether to compare amounts (not for best-effort tasks). ``chooser``: chooses one of the
        candidates from rows and scores, or returns None for the best score."""
        began = perf_counter()
        rules = rules or SearchRules()
        self._fail = rules.fail
        self._durations = rules.durations
        self._limit = limit = rules.limit
        self._nodes = nodes
        self._chooser = chooser
        self._request = cls.request
        self._dims = [int(d) for d in np.flatnonzero(cls.request > 0)] if check_resources else []
        self._requested = [(d, float(cls.request[d])) for d in self._dims]
        self._bare = [d for d in (CPU_INDEX, MEMORY_INDEX) if d not in self._dims] if check_resources else []
        self._filters = filters
        self._fixed = [s for s in scores if s.scope is Scope.STATIC]
        self._moving = [s for s in scores if s.scope is Scope.NODE]
        self._wide = [s for s in scores if s.scope is Scope.CLUSTER]
        self._node_filters = [f for f in filters if f.scope is Scope.NODE]
        # A check with isinstance takes as long for a protocol as some columns.
        self._future_filters = [getattr(f, "future_room", f.room) for f in self._node_filters]
        wide_filters = [f for f in filters if f.scope is Scope.CLUSTER]
        self._wide_filters = [f for f in wide_filters if not is_costly(f)]
        self._costly = [f for f in wide_filters if is_costly(f)]
        self._grouped_filters = [f for f in self._wide_filters if is_grouped_filter(f)]
        self._grouped_scores = [s for s in self._wide if is_grouped_score(s)]
        grouped = len(self._grouped_filters) + len(self._grouped_scores)
        wide = len(wide_filters) + len(self._wide)
        self._one_at_a_time = bool(wide > grouped or (wide and limit) or chooser)
        """Whether a placement may change any node's answer, so that filters and scores are evaluated for each task."""
        rows: Rows = np.arange(len(nodes))
        try:
            for condition in filters:
                if condition.scope is Scope.STATIC:
                    rows = rows[condition.room(rows) > 0]
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "room", error)
        self._candidates = CandidateNodes(nodes, rows)
        self._rows = rows
        self._room = CachedColumn(self._candidates, self._room_at)
        self._score = CachedColumn(self._candidates, self._score_at)
        self._order = ScoreOrder(self._candidates, self._score)
        self._future = CachedColumn(self._candidates, lambda at: self._pass_in_future(self._rows[at]))
        self._future_room = CachedColumn(self._candidates, self._has_room_in_future)
        self._plan = NodePlan(nodes, cls, None if wide or limit or chooser else self._sequences)
        self._errors: tuple[int, FitErrors] | None = None
        self._durations.creating_filters += perf_counter() - began

    def include(self, cls: TaskClass) -> None:
        """Shares the view with another class that has the same requests, filters and scores."""
        self._plan.class_ids.add(cls.id)

    @cached_property
    def devices_of(self) -> Callable[[int, str], tuple[int, ...]] | None:
        """``columns.devices_of`` the filters of the class."""
        return devices_of(self._filters)

    @cached_property
    def _refusals(self) -> Refusals:
        return Refusals(self._nodes, self._request, (*self._dims, *self._bare), self._filters, self._fail)

    @cached_property
    def _rules(self) -> RunRules:
        return RunRules(self._ahead, self._grouped_filters, self._grouped_scores, self._fail)

    # --- columns over the nodes looked at ---
    def _room_at(self, at: Rows) -> Counts:
        rows = self._rows[at]
        room = np.minimum(self._room_by_filters(rows), self._room_in(rows, future=False))
        if self._nodes.pipelined[PODS_INDEX].any():  # idle resources may be reserved for pipelined tasks
            np.minimum(room, self._room_in(rows, future=True), out=room)
        return room

    def _score_at(self, at: Rows) -> Column:
        """Returns the sums of the scores of scope STATIC and NODE."""
        return self._graded(self._fixed_score[at], self._rows[at], None)

    @cached_property
    def _fixed_score(self) -> Column:
        return self._sum(self._fixed, self._rows, None)

    def _pass_in_future(self, rows: Rows) -> Mask:
        """Returns whether each row passes the filters of scope STATIC and NODE for one task when terminating tasks have
        exited."""
        passes = np.ones(len(rows), dtype=bool)
        try:
            for room in self._future_filters:
                passes &= room(rows) > 0
        except Exception as error:  # the code of others may raise anything
            condition = self._node_filters[self._future_filters.index(room)]
            self._fail(condition, _method(condition, future=True), error)
        return passes

    def _has_room_in_future(self, at: Rows) -> Mask:
        """Returns a mask of shape (nodes,): whether one task fits, by filters and amounts, when terminating tasks have
        exited."""
        rows = self._rows[at]
        fits: Mask = self._pass_in_future(rows) & (self._room_in(rows, future=True) > 0)
        return fits

    def _room_by_filters(self, rows: Rows) -> Counts:
        room: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        try:
            for condition in self._node_filters:
                np.minimum(room, condition.room(rows), out=room)
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "room", error)
        return room

    def _room_in(self, rows: Rows, *, future: bool) -> Counts:
        """Returns how many tasks fit into the free amounts, or the future ones. A node that is short of cpu or memory
        takes none, even if the task requests neither (Volcano compares every resource of the node)."""
        room: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        for d in self._dims:
            # Whole numbers: rounding cannot lift a quotient to the next one.
            np.minimum(room, np.floor(self._free(d, rows, future) / self._request[d]).astype(np.int64), out=room)
        for d in self._bare:
            room[self._free(d, rows, future) < 0] = 0
        return np.maximum(room, 0, out=room)

    def _free(self, d: int, rows: Rows, future: bool) -> Column:
        nodes = self._nodes
        idle: Column = nodes.idle[d].take(rows)
        return idle + nodes.releasing[d].take(rows) - nodes.pipelined[d].take(rows) if future else idle

    def _graded(self, fixed: Column, rows: Rows, ahead: Counts | None) -> Column:
        """Returns the scores of scope STATIC and NODE, rounded to multiples of GRAIN."""
        graded: Column = np.rint((fixed + self._sum(self._moving, rows, ahead)) / GRAIN) * GRAIN
        return graded

    def _sum(self, scores: Sequence[Score], rows: Rows, ahead: Counts | None) -> Column:
        total: Column = np.zeros(len(rows))
        try:
            for score in scores:
                total += score.values(rows, ahead)
        except Exception as error:  # the code of others may raise anything
            self._fail(score, "values", error)
        return total

    def _wide_pass(self, rows: Rows, *, future: bool = False) -> Rows:
        if not (self._wide_filters or self._costly):
            return rows
        began = perf_counter()
        rows = self._passing(self._costly, self._passing(self._wide_filters, rows, future), future)
        self._durations.filtering += perf_counter() - began
        return rows

    def _passing(self, conditions: Sequence[Filter], rows: Rows, future: bool) -> Rows:
        """Returns the rows that pass all filters, in their order, now or when terminating tasks have exited."""
        try:
            for condition in conditions:
                if not len(rows):
                    break
                room = condition.future_room if future and isinstance(condition, FutureFilter) else condition.room
                rows = rows[room(rows) > 0]
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, _method(condition, future=future), error)
        return rows

    # --- choosing ---
    def choose(self, count: int, within: Rows | None = None) -> list[int]:
        """Returns rows for up to ``count`` tasks of the class, placed one after the other on idle resources; among
        equal scores, the lower row. Returns fewer if the nodes run out. The caller allocates. ``within``: the only
        nodes to consider (ascending); None: all."""
        plan = self._plan
        if not plan.follow(within):
            plan.make(*self._search(max(count, plan.stride), within))
        return plan.places[:count]

    def choose_on(self, row: int, count: int) -> list[int]:
        """Returns ``choose`` of the view of a class that differs from this one in that it is pinned to the row. The
        list is empty if the row has no room, or if there are filters of scope CLUSTER."""
        began, durations = perf_counter(), self._durations
        at = self._candidates.find(np.array([row], dtype=np.intp))
        room = int(self._room.read(at)[0]) if len(at) and not (self._wide_filters or self._costly) else 0
        if room:
            durations.filters.append(durations.creating_filters + perf_counter() - began)
            durations.scores.append(0.0)  # a single candidate is not scored
            durations.creating_filters = 0.0
        return [row] * min(room, count, MAX_RUN)

    def _sequences(self, changed: Collection[int], within: Rows | None) -> list[tuple[int, int, list[float]]]:
        """Returns (row, room, scores) of the rows that take tasks now, as ``plan.Sequences``. There must be no filters
        and scores of scope CLUSTER."""
        rows: Rows = np.array(sorted(changed), dtype=np.intp)
        at = self._candidates.find(rows if within is None else np.intersect1d(rows, within, assume_unique=True))
        room = self._room.read(at)
        at, room = at[room > 0], room[room > 0]
        if not len(at):
            return []
        scores = self._ahead(self._rows[at], 0, min(SHALLOW, int(room.max())))
        return list(zip(self._rows[at].tolist(), room.tolist(), scores, strict=True))

    def _search(self, count: int, within: Rows | None) -> tuple[list[int], list[float]]:
        """Returns places, and the score of each when it is chosen, without the scores of scope CLUSTER. A single
        place has no score, because a single candidate is not scored."""
        durations, began = self._durations, perf_counter()
        durations.filtering = 0.0
        result = self._searched(began, count, within)
        durations.filters.append(durations.creating_filters + durations.filtering)
        durations.scores.append(durations.creating_scores + perf_counter() - began - durations.filtering)
        durations.creating_filters = durations.creating_scores = 0.0
        return result

    def _searched(self, began: float, count: int, within: Rows | None) -> tuple[list[int], list[float]]:
        """Returns what ``_search`` returns. ``began``: when ``_search`` was called; it adds up the durations."""
        room = self._room.read()
        at = self._candidates.all if within is None else self._candidates.find(within)
        at = at[room[at] > 0]
        self._durations.filtering = perf_counter() - began
        if not len(at):
            return [], []
        if self._one_at_a_time or count == 1:
            best = self._pick(self._rows[at], future=False)
            return ([], []) if best is None else ([best], [])
        seen = self._limited(at)
        scores = self._score.read()[seen]
        if np.isnan(scores).any():
            self._refuse_scores(self._rows[seen])
        run = Run(self._rules, self._rows[seen], room[seen], scores, count)
        chosen = run.places()
        if len(seen) < len(at):
            chosen = self._until_full(chosen, room)
        return chosen, run.chosen_scores[: len(chosen)]

    def choose_future(self, within: Rows | None = None) -> int | None:
        """Returns the best row for one task on resources that terminating tasks will release, or None. ``within``: as
        for ``choose``."""
        if within is None:
            return self._pick(self._rows[self._future_room.read()], future=True)
        at = self._candidates.find(within)
        return self._pick(self._rows[at[self._future_room.read(at)]], future=True)

    def admits(self, row: int) -> bool:
        """Returns whether one task fits on the row now."""
        if not self._fits_into(self._nodes.idle[:, row]):
            return False
        at = self._candidates.find(np.array([row], dtype=np.intp))
        try:
            return len(self._wide_pass(self._rows[at])) > 0 and bool(self._room_at(at)[0])
        except PluginError as error:
            error.add_subject(node=self._nodes.names[row])
            raise

    def admits_later(self, row: int) -> bool:
        """Returns whether one task fits on the row when terminating tasks have exited."""
        if not self._fits_into(self._nodes.future_idle_of(row)):
            return False
        rows = self._rows[self._candidates.find(np.array([row], dtype=np.intp))]
        try:
            rows = self._wide_pass(rows, future=True)
            return len(rows) > 0 and bool(self._pass_in_future(rows)[0])
        except PluginError as error:
            error.add_subject(node=self._nodes.names[row])
            raise

    def _fits_into(self, free: Vector) -> bool:
        """Returns whether free amounts of a node are enough for one task: what can be checked without the filters."""
        amounts: list[float] = free.tolist()
        return all(amount <= amounts[d] for d, amount in self._requested) and all(amounts[d] >= 0 for d in self._bare)

    def passes_in_future(self) -> Mask:
        """Returns a mask of shape (nodes,): whether the filters let one task onto the node when terminating tasks have
        exited. Amounts are not compared."""
        passes = np.zeros(len(self._nodes), dtype=bool)
        passes[self._wide_pass(self._rows[self._future.read()], future=True)] = True
        return passes

    def best_first(self, chosen: Mask, among: Mask) -> Iterator[int]:
        """Returns the chosen rows by score, the best first, among equal scores the lower row, without the nodes on
        which no task of the class can ever run. ``chosen`` and ``among`` (all rows in question) are masks of shape
        (nodes,). The result is valid until the next placement."""
        if not self._wide:
            return (int(self._rows[at]) for at in self._order.among(chosen[self._rows]))
        rows = self._rows[among[self._rows]]
        scores = self._score.read(self._candidates.find(rows)) + self._sum(self._wide, rows, None)
        order = rows[np.argsort(-scores, kind="stable")]
        return map(int, order[chosen[order]])

    def _pick(self, rows: Rows, *, future: bool) -> int | None:
        """Returns the best of the rows that pass the filters of scope CLUSTER, or None."""
        if not self._costly or self._wide or self._limit or self._chooser is not None:
            rows = self._limited(self._wide_pass(rows, future=future))
            return self._best_of(rows) if len(rows) else None
        began = perf_counter()
        rows = self._passing(self._wide_filters, rows, future)
        filtered = perf_counter()
        rows = rows[np.argsort(-self._score.read()[self._candidates.find(rows)], kind="stable")]
        ranked = perf_counter()
        start, number, best = 0, FEW, None
        while start < len(rows) and best is None:
            passing = self._passing(self._costly, rows[start : start + number], future)
            best = int(passing[0]) if len(passing) else None
            start, number = start + number, 2 * number
        self._durations.filtering += perf_counter() - ranked + filtered - began
        return best

    def _limited(self, rows: Rows) -> Rows:
        return rows[: self._limit] if self._limit else rows

    def _best_of(self, rows: Rows) -> int:
        """Returns the best of the candidates. There must be at least one."""
        if len(rows) == 1:
            return int(rows[0])
        scores = self._score.read()[self._candidates.find(rows)]
        if self._wide:
            scores = scores + self._sum(self._wide, rows, None)
        chosen = self._chooser(rows, scores) if self._chooser is not None else None
        if chosen is not None:
            return chosen
        best = np.argmax(scores)  # NaN, if there is one
        if np.isnan(scores[best]):
            self._refuse_scores(rows)
        return int(rows[best])

    def _refuse_scores(self, rows: Rows) -> NoReturn:
        """Raises PluginError for the Score whose values make the sums of scores invalid (not numbers)."""
        try:
            for score in (*self._fixed, *self._moving, *self._wide):
                values = score.values(rows, None)
                for row in rows[~np.isfinite(values)]:
                    wrong = values[rows == row][0]
                    raise AnswerError(f"{type(score).__name__} returned {wrong} for node {self._nodes.names[row]}")
        except Exception as error:  # the code of others may raise anything
            self._fail(score, "values", error)
        raise ArithmeticError("the sums of scores are not numbers")

    def _ahead(self, rows: Rows, first: int, depth: int) -> list[list[float]]:
        """Returns the scores of each row with ``first``, ``first`` + 1, ... more tasks of the class on it."""
        fixed = self._fixed_score[self._candidates.find(rows)]
        ahead: Counts = np.tile(np.arange(first, first + depth, dtype=np.int64), len(rows))
        table = self._graded(np.repeat(fixed, depth), np.repeat(rows, depth), ahead)
        result: list[list[float]] = table.reshape(len(rows), depth).tolist()
        return result

    def _until_full(self, chosen: list[int], room: Counts) -> list[int]:
        """Returns the choices up to the one that fills a node. After it, another node becomes a candidate."""
        left = dict(zip(self._rows.tolist(), room.tolist(), strict=True))
        for position, row in enumerate(chosen, start=1):
            left[row] -= 1
            if not left[row]:
                return chosen[:position]
        return chosen

    # --- explaining ---
    def fit_errors(self, names: Sequence[str], within: Rows | None = None) -> FitErrors:
        """Returns why no node takes a task of the class now: the number of nodes for each reason. ``names`` are
        resource names; ``within``: as for ``choose``.

        All jobs that need it share the result while nothing is placed: callers must not change it.
        """
        if within is not None:
            return self._refusals.fit_errors(names, within)
        if self._errors is None or self._errors[0] != len(self._nodes.log):
            every = np.arange(len(self._nodes))
            self._errors = (len(self._nodes.log), self._refusals.fit_errors(names, every))
        return self._errors[1]

    def unresolvable(self) -> Mask:
        """Returns a mask of shape (nodes,): nodes on which evictions cannot make room for this class."""
        return self._refusals.unresolvable()


def _method(condition: Filter, *, future: bool) -> str:
    """Returns the name of the method that returns the room of a Filter now, or when terminating tasks have exited."""
    return "future_room" if future and hasattr(condition, "future_room") else "room"
