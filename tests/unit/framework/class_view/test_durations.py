"""The times of searches, filters and scores are measured separately. The clock of the tests moves only in filters and
scores."""

from collections.abc import Iterable

import numpy as np
import pytest

from scheduler.api.node import Column, Rows
from scheduler.framework.class_view import view
from scheduler.framework.class_view.runs import SearchDurations, SearchRules
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from tests.unit.framework.class_view.test_view import nodes_of, task_class


class Clock:
    now = 0.0


class SlowFilter:
    unresolvable = False

    def __init__(self, clock: Clock, scope: Scope, seconds: float) -> None:
        self.clock, self.scope, self.seconds = clock, scope, seconds

    def room(self, rows: Rows) -> Counts:
        self.clock.now += self.seconds
        return np.full(len(rows), UNBOUNDED, dtype=np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ()


class CostlyFilter(SlowFilter):
    costly = True


class SlowScore:
    def __init__(self, clock: Clock, scope: Scope, seconds: float) -> None:
        self.clock, self.scope, self.seconds = clock, scope, seconds

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        self.clock.now += self.seconds
        return np.zeros(len(rows))


@pytest.mark.parametrize("kind", [SlowFilter, CostlyFilter])
def test_filters_and_scores_of_every_scope_are_measured_apart(
    kind: type[SlowFilter], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, durations, nodes = Clock(), SearchDurations(), nodes_of([4, 4])
    monkeypatch.setattr(view, "perf_counter", lambda: clock.now)
    filters = [SlowFilter(clock, Scope.STATIC, 1), SlowFilter(clock, Scope.NODE, 10), kind(clock, Scope.CLUSTER, 100)]
    scores = [SlowScore(clock, Scope.STATIC, 1000), SlowScore(clock, Scope.NODE, 10_000)]
    found = ClassView(nodes, task_class(1), filters, scores, SearchRules(durations=durations))
    durations.creating_filters += 0.25
    durations.creating_scores += 0.5
    assert found.choose(1) == [0]
    assert (durations.filters, durations.scores) == ([111.25], [11_000.5])
    nodes.hold(0, task_class(1))
    found.choose(1)
    assert (durations.filters[1], durations.scores[1]) == (110, 10_000)  # scope STATIC is not evaluated again


def test_a_search_without_candidates_has_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, durations = Clock(), SearchDurations()
    monkeypatch.setattr(view, "perf_counter", lambda: clock.now)
    slow = [SlowFilter(clock, Scope.NODE, 10)], [SlowScore(clock, Scope.NODE, 100)]
    assert ClassView(nodes_of([1, 1]), task_class(2), *slow, SearchRules(durations=durations)).choose(1) == []
    assert (durations.filters, durations.scores) == ([10], [0])
