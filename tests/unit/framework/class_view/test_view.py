"""Placing a run of equal tasks by one call is placing them one after the other, each on the best node."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.class_view import runs
from scheduler.framework.class_view.runs import SearchRules
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.columns import GRAIN, UNBOUNDED, Counts, Filter, MaskFilter, Scope, Score, StaticScore
from tests.examples import examples


# --- a small world ---
def task_class(cpu: int, memory: int = 0, number: int = 0) -> TaskClass:
    request = np.zeros(8)
    request[[CPU_INDEX, MEMORY_INDEX, PODS_INDEX]] = cpu, memory, 1
    return TaskClass(number, "default", {}, {}, PodSpec(), request, not (cpu or memory), (float(cpu), float(memory)))


def nodes_of(cpus: list[int], memory: int = 40, pods: int = 100) -> Nodes:
    names = [f"n{i:02}" for i in range(len(cpus))]
    table = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=name)) for name in names]), 8)
    table.allocatable[CPU_INDEX], table.allocatable[MEMORY_INDEX], table.allocatable[PODS_INDEX] = cpus, memory, pods
    table.idle[:] = table.allocatable
    return table


class Used:
    """A NODE score of the cpu in use after one more task: packs (sign 1) or spreads (-1), in steps so that many tie."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, cls: TaskClass, sign: int, step: int) -> None:
        self.nodes, self.cls, self.sign, self.step = nodes, cls, sign, step

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        more = 1 if ahead is None else ahead + 1
        used = self.nodes.used[CPU_INDEX, rows] + self.cls.request[CPU_INDEX] * more
        result: Column = self.sign * np.floor(used / self.step) / 3
        return result


class Jagged:
    """A NODE score that rises and falls with every placement."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes, self.seed = nodes, seed

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        held = self.nodes.used[PODS_INDEX, rows] + (0 if ahead is None else ahead)
        result: Column = np.asarray((held * 7 + rows * 3 + self.seed) % 5, dtype=float)
        return result


class PodLimit:
    """A NODE filter: so many Pods a node."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, nodes: Nodes, most: int) -> None:
        self.nodes, self.most = nodes, most

    def room(self, rows: Rows) -> Counts:
        room: Counts = np.maximum(self.most - self.nodes.used[PODS_INDEX, rows], 0).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return (("node(s) pod number exceeded", len(rows)),)


class Apart:
    """A CLUSTER filter: no two tasks on neighbouring rows."""

    scope = Scope.CLUSTER
    unresolvable = False

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def room(self, rows: Rows) -> Counts:
        held = self.nodes.used[PODS_INDEX] > 0
        near = held | np.roll(held, 1) | np.roll(held, -1)
        result: Counts = np.where(near[rows], 0, UNBOUNDED)
        return result

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return (("too near", len(rows)),)


class ApartForAPrice(Apart):
    """The same, each answer at a price."""

    costly = True

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self.asked: list[int] = []

    def room(self, rows: Rows) -> Counts:
        self.asked += rows.tolist()
        return super().room(rows)


def one_at_a_time(
    nodes: Nodes, cls: TaskClass, filters: list[Filter], scores: list[Score], count: int, limit: int = 0
) -> list[int]:
    """The definition: look at every node for every task; the best takes it, the first among equals."""
    chosen: list[int] = []
    dims = [d for d in range(8) if cls.request[d] > 0]
    for _ in range(count):
        passing = [
            row
            for row in range(len(nodes))
            if all(nodes.idle[d, row] >= cls.request[d] for d in dims)
            and nodes.idle[CPU_INDEX, row] >= 0
            and nodes.idle[MEMORY_INDEX, row] >= 0
            and all(f.room(np.array([row]))[0] > 0 for f in filters)
        ]
        passing = passing[:limit] if limit else passing
        if not passing:
            break
        rows = np.array(passing)
        fixed = sum((s.values(rows, None) for s in scores if s.scope is Scope.STATIC), np.zeros(len(rows)))
        total = fixed + sum((s.values(rows, None) for s in scores if s.scope is Scope.NODE), np.zeros(len(rows)))
        best = passing[int(np.argmax(np.rint(total / GRAIN)))]
        nodes.hold(best, cls)
        chosen.append(best)
    return chosen


def placed_by(view: ClassView, nodes: Nodes, cls: TaskClass, count: int) -> list[int]:
    """Runs as the allocate action places them: choose, take, choose again until nothing is left."""
    chosen: list[int] = []
    while len(chosen) < count and (rows := view.choose(count - len(chosen))):
        for row in rows:
            nodes.hold(row, cls)
        chosen += rows
    return chosen


World = tuple[list[int], list[tuple[int, int]], int, list[str], int, list[bool], list[int]]
CPUS = st.lists(st.integers(0, 12), min_size=1, max_size=9)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    cpus = draw(CPUS)
    rows = st.integers(0, len(cpus) - 1)
    before = draw(st.lists(st.tuples(rows, st.integers(1, 3)), max_size=4))
    cpu = draw(st.integers(0, 4))
    scores = draw(st.lists(st.sampled_from(["pack", "spread", "jagged", "static"]), max_size=3))
    most = draw(st.integers(1, 12))
    mask = draw(st.lists(st.booleans(), min_size=len(cpus), max_size=len(cpus)))
    static = draw(st.lists(st.integers(0, 3), min_size=len(cpus), max_size=len(cpus)))
    return cpus, before, cpu, scores, most, mask, static


def build(
    world: World,
) -> tuple[Nodes, TaskClass, list[Filter], list[Score]]:
    cpus, before, cpu, kinds, most, mask, static = world
    nodes, cls = nodes_of(cpus), task_class(cpu)
    for row, amount in before:
        nodes.hold(row, task_class(amount))
    made: dict[str, Score] = {
        "pack": Used(nodes, cls, 1, 2),
        "spread": Used(nodes, cls, -1, 1),
        "jagged": Jagged(nodes, cpu),
        "static": StaticScore(np.array(static, dtype=float)),
    }
    passes: NDArray[np.bool_] = np.array(mask)
    filters: list[Filter] = [PodLimit(nodes, most), MaskFilter(passes, "not that one")]
    return nodes, cls, filters, [made[kind] for kind in kinds]


# --- properties ---
@settings(max_examples=examples(150), deadline=None)
@given(worlds(), st.integers(1, 30), st.sampled_from([0, 1, 2, 3]))
def test_a_run_is_placed_as_its_tasks_would_be_one_by_one(world: World, count: int, limit: int) -> None:
    fast, slow = build(world), build(world)
    expected = one_at_a_time(*slow, count, limit)
    view = ClassView(*fast, SearchRules(limit=limit))
    assert placed_by(view, fast[0], fast[1], count) == expected


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3), st.integers(1, 6)), max_size=5))
def test_a_view_keeps_up_with_placements_of_others(world: World, others: list[tuple[int, int, int]]) -> None:
    fast, slow = build(world), build(world)
    view = ClassView(*fast)
    for row, amount, count in others:
        for nodes in (fast[0], slow[0]):
            nodes.hold(row % len(nodes), task_class(amount, number=1))
        assert placed_by(view, fast[0], fast[1], count) == one_at_a_time(*slow, count)


@settings(max_examples=examples(300), deadline=None)
@given(
    worlds(),
    st.lists(st.tuples(st.sampled_from(["one", "two", "other", "leaves", "undone"]), st.integers(0, 8)), max_size=40),
)
def test_tasks_that_come_one_by_one_are_placed_the_same_while_others_are_placed_and_leave(
    world: World, steps: list[tuple[str, int]]
) -> None:
    fast, slow = build(world), build(world)
    view, cls, other = ClassView(*fast), fast[1], task_class(2, number=1)
    others: list[int] = []
    for step, number in steps:
        row = number % len(fast[0])
        if step in ("one", "two"):
            count = 1 if step == "one" else 2
            assert placed_by(view, fast[0], cls, count) == one_at_a_time(*slow, count)
        elif step == "undone":
            for chosen in view.choose(2):
                fast[0].hold(chosen, cls)
                fast[0].hold(chosen, cls, -1)
        elif step == "other" or others:
            others += [row] if step == "other" else []
            for nodes in (fast[0], slow[0]):
                nodes.hold(row if step == "other" else others[0], other, 1 if step == "other" else -1)
            others = others if step == "other" else others[1:]


@settings(max_examples=examples(40), deadline=None)
@given(worlds(), st.integers(1, 6))
def test_with_a_filter_that_depends_on_other_nodes(world: World, count: int) -> None:
    fast, slow = build(world), build(world)
    fast[2].append(Apart(fast[0]))
    slow[2].append(Apart(slow[0]))
    for limit in (0, 1):
        view = ClassView(*fast, SearchRules(limit=limit))
        assert placed_by(view, fast[0], fast[1], count) == one_at_a_time(*slow, count, limit)


@settings(max_examples=examples(40), deadline=None)
@given(worlds(), st.integers(1, 6))
def test_with_a_filter_of_which_each_answer_has_a_price(world: World, count: int) -> None:
    fast, slow = build(world), build(world)
    fast[2].insert(0, ApartForAPrice(fast[0]))
    slow[2].append(Apart(slow[0]))
    for limit in (0, 1):
        view = ClassView(*fast, SearchRules(limit=limit))
        assert placed_by(view, fast[0], fast[1], count) == one_at_a_time(*slow, count, limit)


def test_a_filter_of_which_each_answer_has_a_price_is_asked_about_the_best_nodes_until_one_passes() -> None:
    nodes, cls = nodes_of([9] * 20), task_class(1)
    nodes.hold(19, cls)  # the fullest, which is best, and too near to its neighbours, which come next
    nodes.hold(18, cls)
    price = ApartForAPrice(nodes)
    view = ClassView(nodes, cls, [price, MaskFilter(np.arange(20) > 9, "no")], [Used(nodes, cls, 1, 1)])
    assert view.choose(1) == [10]
    assert price.asked == [18, 19, 10, 11]


@settings(max_examples=examples(40), deadline=None)
@given(worlds(), st.integers(1, 5))
def test_runs_longer_than_a_chunk_give_the_same_result(world: World, chunk: int) -> None:
    whole, parts = build(world), build(world)
    longest = runs.MAX_RUN
    expected = placed_by(ClassView(*whole), whole[0], whole[1], 25)
    try:
        runs.MAX_RUN = chunk
        view = ClassView(*parts)
        assert len(view.choose(25)) <= chunk
        assert placed_by(view, parts[0], parts[1], 25) == expected
    finally:
        runs.MAX_RUN = longest


# --- examples ---
def test_choosing_takes_nothing() -> None:
    nodes = nodes_of([4, 4])
    view = ClassView(nodes, task_class(2), [], [])
    assert view.choose(3) == view.choose(3) == [0, 0, 1]
    assert not nodes.used.any()


def test_equal_scores_go_to_the_lower_row() -> None:
    nodes = nodes_of([2, 2, 2])
    assert ClassView(nodes, task_class(1), [], [StaticScore(np.array([1.0, 5.0, 5.0]))]).choose(5) == [1, 1, 2, 2, 0]


def test_a_node_short_of_cpu_takes_no_task_that_asks_for_memory_only() -> None:
    nodes = nodes_of([4, 4])
    nodes.hold(0, task_class(6))
    assert ClassView(nodes, task_class(0, 1), [], []).choose(1) == [1]


def test_a_best_effort_task_fits_on_any_node_that_filters_admit() -> None:
    nodes = nodes_of([0, 0])
    view = ClassView(nodes, task_class(0), [MaskFilter(np.array([False, True]), "no")], [], check_resources=False)
    assert view.choose(2) == [1, 1]


def test_resources_that_terminating_tasks_will_give_back_are_for_later() -> None:
    nodes, cls = nodes_of([2, 2]), task_class(2)
    nodes.hold(0, cls)
    nodes.hold(1, cls)
    view = ClassView(nodes, cls, [], [])
    assert view.choose(1) == [] and view.choose_future() is None
    nodes.release(1, cls)
    assert view.choose(1) == [] and view.choose_future() == 1
    assert view.admits_later(1) and not (view.admits(1) or view.admits(0) or view.admits_later(0))
    nodes.pipeline(1, cls)
    assert view.choose_future() is None


def test_filters_are_not_asked_about_a_node_without_enough_free_amounts() -> None:
    nodes, cls = nodes_of([2, 2]), task_class(2)
    nodes.hold(0, cls)
    asked: list[int] = []

    class Noting:
        scope = Scope.CLUSTER
        unresolvable = False

        def room(self, rows: Rows) -> Counts:
            asked.extend(rows.tolist())
            return np.ones(len(rows), dtype=np.int64)

        def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
            return ()

    view = ClassView(nodes, cls, [Noting()], [])
    assert [view.admits(row) for row in (0, 1)] == [False, True] and asked == [1]


def test_why_no_node_takes_a_task_is_counted_per_reason() -> None:
    nodes = nodes_of([1, 1, 4, 4])
    mask = MaskFilter(np.array([True, True, False, False]), "node(s) were unschedulable")
    errors = ClassView(nodes, task_class(2), [mask], []).fit_errors(["cpu", "memory", "pods"])
    assert dict(errors.reasons) == {"Insufficient cpu": 2, "node(s) were unschedulable": 2}
    assert errors.message().startswith("0/4 nodes are unavailable: 2 Insufficient cpu, 2 node(s) were unschedulable.")


def test_a_shortage_is_that_of_the_nodes_which_its_reason_counts() -> None:
    """Node 2 has enough, but is cordoned; node 3 has too little memory only."""
    nodes = nodes_of([1, 3, 8, 8])
    nodes.idle[MEMORY_INDEX, 3] = 0
    mask = MaskFilter(np.array([True, False, False, True]), "node(s) were unschedulable")
    errors = ClassView(nodes, task_class(4, 1), [mask], []).fit_errors(["cpu", "memory", "pods"])
    assert dict(errors.reasons) == {"Insufficient cpu": 2, "Insufficient memory": 1, "node(s) were unschedulable": 1}
    assert [(s.resource, s.asked, s.free) for s in errors.shortages] == [("cpu", 4, 3), ("memory", 1, 0)]


def test_only_unresolvable_filters_close_a_node_to_eviction() -> None:
    nodes = nodes_of([4, 4])
    filters: list[Filter] = [PodLimit(nodes, 0), MaskFilter(np.array([True, False]), "taint")]
    assert ClassView(nodes, task_class(1), filters, []).unresolvable().tolist() == [False, True]


def test_no_nodes_at_all() -> None:
    view = ClassView(nodes_of([]), task_class(1), [], [])
    assert view.choose(3) == [] and view.choose_future() is None
    assert view.fit_errors(["cpu", "memory", "pods"]).message() == "all nodes are unavailable"
