"""Node and ring are chosen as table 1 of the affinity design says, for every state of up to three nodes.

This file contains the table as printed, and reads it in the simplest way: for each capacity, group and entry, it takes
the first node whose left or right ring matches the entry. The plugin compiles a table of its own into arrays; both
agree.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from scheduler.api.names import ASCEND_910
from scheduler.api.task import Task
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.session import Session
from scheduler.plugins.ascend.columns import ChipFilter, ChipScore
from scheduler.plugins.ascend.demand import ChipUse
from scheduler.plugins.ascend.families.module_910_x8 import FAMILIES
from scheduler.plugins.ascend.family import ChipRequest
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ids_of, mask_of
from scheduler.plugins.ascend.npu_requests import ChipResource
from tests.builders import World, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, chips_of, device_info, job, ledger_of, mask, npu_node, state

TABLE = {
    1: [("A", 1, [0, 1, 2, 3, 4]), ("B", 3, [0, 2, 3, 4]), ("C", 2, [0, 2, 4]), ("D", 4, [0, 4])],
    # 3~3 is printed nowhere; by the policy's text a ring of three is taken last, whatever the other one has.
    2: [("A", 2, [0, 1, 2, 3, 4]), ("B", 4, [0, 1, 3, 4]), ("C", 3, [0, 1, 3])],
    4: [("A", 4, [0, 1, 2, 3, 4])],
}
STATES = list(product(range(5), repeat=2))
LEFT_FULLER = [(left, right) for left, right in STATES if left >= right]
"""One state of each two states that differ only in the order of the rings."""
CAPACITIES = (8, 7, 6, 5, 4, 3, 2, 1)
Choice = tuple[int, list[int]] | None
FAMILY = FAMILIES[0]
USE = ChipUse(FAMILY, ChipResource(ASCEND_910), False)


def naive(request: int, nodes: Sequence[tuple[int, int, int]]) -> Choice:
    """Returns (node, chip ids) for (capacity, left, right) of each node; None if nothing fits."""
    if request == 8:
        return next(((i, list(range(8))) for i, found in enumerate(nodes) if found == (8, 4, 4)), None)
    for capacity in CAPACITIES:
        for _, chosen, others in TABLE[request]:
            for other in others:
                for i, (healthy, left, right) in enumerate(nodes):
                    if healthy != capacity:
                        continue
                    if (left, right) == (chosen, other):
                        return i, state(left, right)[:request]
                    if (right, left) == (chosen, other):
                        return i, state(left, right)[left : left + request]
    return None


class Bench:
    """Three nodes, a Pod of each size, and the plugin's own filter, score and ledger over states set by hand."""

    def __init__(self) -> None:
        names = ("a", "b", "c")
        world = World(*(npu_node(n) for n in names), *(job(f"ask{r}", r) for r in (1, 2, 4, 8)))
        self.session: Session = world.session(CONFIGURATION)
        self.ledger: ChipLedger = ledger_of(self.session)
        self.ledger.capacity = self.ledger.capacity.copy()

    def task(self, request: int) -> Task:
        return next(iter(self.session.jobs[f"default/ask{request}"].tasks()))

    def choose(self, request: int, nodes: Sequence[tuple[int, int, int]]) -> Choice:
        ledger = self.ledger
        ledger.free[:] = 0
        for i, (capacity, left, right) in enumerate(nodes):
            ledger.free[i] = mask(state(left, right))
            ledger.capacity[i] = capacity
        task = self.task(request)
        view = ClassView(
            self.session.nodes,
            task.cls,
            [ChipFilter(ledger, USE, request)],
            [ChipScore(ledger, USE, request)],
            check_resources=False,
        )
        rows = view.choose(1)
        if not rows:
            return None
        ledger.allocate(self.session.jobs[task.job], [task], rows, False)
        return rows[0], list(ledger.taken(task))


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.mark.slow
@pytest.mark.parametrize("request_size", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("number", "states_of_one"),
    [(1, STATES), (2, STATES), (3, LEFT_FULLER)],
    ids=["one node", "two nodes", "three nodes, their rings as good as swapped"],
)
def test_every_state_of_up_to_three_nodes(
    bench: Bench, request_size: int, number: int, states_of_one: list[tuple[int, int]]
) -> None:
    for states in product(states_of_one, repeat=number):
        nodes = [(8, left, right) for left, right in states]
        assert bench.choose(request_size, nodes) == naive(request_size, nodes), nodes


def broken_nodes() -> Iterator[list[tuple[int, int, int]]]:
    for capacities in product((8, 7, 6, 3), repeat=2):
        for states in product(STATES, repeat=2):
            if all(sum(s) <= c for s, c in zip(states, capacities, strict=True)):
                yield [(c, left, right) for c, (left, right) in zip(capacities, states, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("request_size", [1, 2, 4, 8])
def test_a_node_with_all_chips_in_order_comes_before_one_with_broken_ones(bench: Bench, request_size: int) -> None:
    for nodes in broken_nodes():
        assert bench.choose(request_size, nodes) == naive(request_size, nodes), nodes


@pytest.mark.parametrize("request_size", [1, 2, 4, 8])
def test_scores_looked_ahead_are_those_of_placing_one_by_one(bench: Bench, request_size: int) -> None:
    ledger = bench.ledger
    score, condition = ChipScore(ledger, USE, request_size), ChipFilter(ledger, USE, request_size)
    row = np.array([0])
    for free in range(256):
        ledger.capacity[0] = 8
        ledger.free[0] = free
        ahead = [float(score.values(row, np.array([k]))[0]) for k in range(10)]
        room = int(condition.room(row)[0])
        one_by_one = []
        while condition.room(row)[0]:
            one_by_one.append(float(score.values(row, None)[0]))
            choice = FAMILY.selection.choose(int(ledger.free[0]), ChipRequest(request_size))
            assert choice is not None
            ledger.free[0] &= np.uint64(255 & ~mask_of(choice.chips))
        assert len(one_by_one) == room
        assert ahead == one_by_one + [0.0] * (10 - room)


@pytest.mark.parametrize("request_size", [1, 2, 4])
def test_every_mask_of_free_chips_gets_the_ring_and_the_rank_of_the_table(request_size: int) -> None:
    entries = [(chosen, other) for _, chosen, others in TABLE[request_size] for other in others]
    penalties: dict[int, set[int]] = {}
    for free in range(256):
        left, right = (free & 15).bit_count(), (free >> 4).bit_count()
        found = [(entries.index(pair), i) for i, pair in enumerate(((left, right), (right, left))) if pair in entries]
        choice = FAMILY.selection.choose(free, ChipRequest(request_size))
        assert (choice is not None) == bool(found), free
        if choice is not None:
            rank, ring = min(found)
            chips = [chip for chip in ids_of(free) if chip // 4 == ring]
            assert list(choice.chips) == chips[:request_size], free
            penalties.setdefault(rank, set()).add(choice.penalty)
    ranked = [penalties[rank] for rank in sorted(penalties)]
    assert all(len(each) == 1 for each in ranked)
    assert ranked == sorted(ranked, key=min) and len(set().union(*ranked)) == len(ranked)


def test_eight_chips_are_given_by_a_whole_node_only() -> None:
    for free in range(256):
        choice = FAMILY.selection.choose(free, ChipRequest(8))
        assert (list(range(8)) if free == 255 else None) == (None if choice is None else list(choice.chips))


@pytest.mark.parametrize("request_size", [1, 2, 4])
def test_every_state_that_holds_the_request_has_one_rank_of_its_own(request_size: int) -> None:
    groups = {1: 14, 2: 12, 4: 5}
    seen: dict[int, tuple[int, int]] = {}
    for left, right in STATES:
        place = best_place_of(request_size, left, right)
        assert (place is None) == (max(left, right) < request_size)
        if place is not None:
            pair = (min(left, right), max(left, right))
            assert seen.setdefault(place, pair) == pair
    assert len(seen) == groups[request_size]


def test_two_chips_of_two_rings_with_three_free_are_the_last_choice() -> None:
    ranks = [rank for left, right in STATES if (rank := best_place_of(2, left, right)) is not None]
    assert best_place_of(2, 3, 3) == max(ranks)


def best_place_of(request_size: int, left: int, right: int) -> int | None:
    choice = FAMILY.selection.choose(mask(state(left, right)), ChipRequest(request_size))
    return None if choice is None else choice.penalty


# --- worked examples of the device vendor's own tests, where they say the same as the design ---
@pytest.mark.parametrize(
    ("free", "request_size", "taken"),
    [
        ([0, 4, 5], 1, [0]),
        ([0, 1, 2, 4, 5], 1, [0]),
        ([0, 1, 4, 5, 6], 1, [4]),
        ([0, 1, 4, 5, 6, 7], 1, [0]),
        ([0, 1, 2, 3], 4, [0, 1, 2, 3]),
        ([0, 1, 4], 4, []),
        ([0, 1, 4, 5], 4, []),
        (list(range(8)), 8, list(range(8))),
        (list(range(7)), 8, []),
    ],
)
def test_worked_examples_of_chips(free: list[int], request_size: int, taken: list[int]) -> None:
    choice = FAMILY.selection.choose(mask(free), ChipRequest(request_size))
    assert list(choice.chips if choice is not None else ()) == taken


@pytest.mark.parametrize(
    ("request_size", "nodes", "first"),
    [
        (1, [(8, 1, 0), (8, 1, 1), (8, 1, 2)], 0),
        (1, [(8, 3, 0), (8, 3, 2), (8, 3, 3)], 0),
        (1, [(8, 3, 3), (8, 2, 0), (8, 2, 2)], 0),
        (1, [(8, 1, 2), (8, 1, 3), (8, 1, 4)], 0),
        (1, [(8, 2, 0), (8, 2, 2), (8, 0, 0)], 0),
        (1, [(8, 3, 3), (8, 3, 4), (7, 1, 3)], 0),
        (1, [(8, 0, 0), (7, 1, 2), (6, 1, 0)], 1),
        (2, [(8, 2, 0), (8, 2, 1), (8, 2, 2)], 0),
        (2, [(8, 4, 0), (8, 4, 1), (8, 4, 3)], 0),
        (2, [(8, 2, 0), (8, 4, 1), (8, 4, 3)], 0),
        (2, [(8, 2, 1), (8, 4, 0), (8, 2, 2)], 0),
        (2, [(8, 1, 0), (7, 3, 1), (6, 2, 0)], 1),
        (4, [(8, 4, 0), (8, 4, 1), (8, 4, 2)], 0),
        (4, [(8, 3, 1), (8, 3, 2), (7, 4, 2)], 2),
        (8, [(8, 4, 3), (8, 4, 4), (7, 4, 3)], 1),
    ],
)
def test_worked_examples_of_nodes(
    bench: Bench, request_size: int, nodes: list[tuple[int, int, int]], first: int
) -> None:
    chosen = bench.choose(request_size, nodes)
    assert chosen is not None
    assert chosen[0] == first


def test_the_order_holds_against_other_scores() -> None:
    """binpack prefers the fuller node b, the table prefers a, whose ring has exactly the requested chips."""
    world = World(
        npu_node("a"),
        npu_node("b"),
        device_info("a", [2, 3, 4, 5, 6, 7]),
        device_info("b", list(range(8))),
        pod("full", "60c+500Gi", on="b"),
        job("train", 2),
    ).run(CONFIGURATION)
    assert chips_of(world) == {"train-0": ("a", [2, 3])}
