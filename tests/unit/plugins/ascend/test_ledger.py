"""No chip is allocated twice, and undoing a placement restores the ledger exactly."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from scheduler.api.names import ASCEND_910
from scheduler.api.task import TaskStatus
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ids_of
from tests.builders import World, group
from tests.examples import examples
from tests.unit.plugins import statements
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, ledger_of, names, npu_node, npu_pod

ALL = list(range(8))


@dataclass
class Setting(statements.Setting):
    """A session with its ledger."""

    ledger: ChipLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = ledger_of(self.session)

    def free(self, row: int = 0) -> list[int]:
        return ids_of(int(self.ledger.free[row]))

    def future_usable(self, row: int = 0) -> list[int]:
        return ids_of(int(self.ledger.future_usable(np.array([row]), False)[0]))

    def books(self) -> list[object]:
        ledger = self.ledger
        columns = (ledger.free, ledger._releasing, ledger._pipelined_masks, ledger._network_faults)
        return [dict(ledger._taken), *(column.tobytes() for column in columns)]


def running(name: str, chips: list[int], **rest: bool) -> list[dict[str, object]]:
    held = npu_pod(f"{name}-0", len(chips), name, on="n", annotations={ASCEND_910: names(chips)}, **rest)
    return [group(name, minimum=1, phase="Running"), held]


def setting(*objects: object) -> Setting:
    return Setting(World(npu_node("n"), device_info("n", ALL), *objects).session(CONFIGURATION))  # type: ignore[arg-type]


def test_chips_are_chosen_when_a_task_is_allocated_and_given_back_when_it_is_undone() -> None:
    given = setting(job("a", 2), job("b", 4))
    before = given.books()
    statement = given.session.statement()
    statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.free() == [2, 3, 4, 5, 6, 7]
    statement.allocate(given.job("b"), [given.task("b")], [0])
    assert given.free() == [2, 3]
    statement.discard()
    assert given.books() == before


def test_an_allocation_that_fits_no_ring_raises_and_takes_nothing() -> None:
    given = setting(job("a", 4), running("x", [0]), running("y", [4]))
    before = given.books()
    statement = given.session.statement()
    with pytest.raises(AllocationError, match=r"node n has no place for 4 huawei.com/Ascend910 of Pod default/a-0"):
        statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.books() == before
    assert not statement


def test_a_run_of_tasks_that_does_not_fit_completely_takes_nothing() -> None:
    given = setting(job("a", 8, 2))
    before = given.books()
    with pytest.raises(AllocationError):
        given.session.statement().allocate(given.job("a"), [given.task("a"), given.task("a", 1)], [0, 0])
    assert given.books() == before


def test_chips_of_an_evicted_task_can_be_pipelined_but_not_allocated() -> None:
    given = setting(job("a", 8), running("x", [0, 1, 2, 3]))
    before = given.books()
    statement = given.session.statement()
    statement.evict(given.job("x"), given.task("x"), "preempted")
    assert given.free() == [4, 5, 6, 7]
    assert given.future_usable() == ALL
    statement.pipeline(given.job("a"), given.task("a"), 0)
    assert given.free() == [4, 5, 6, 7]
    assert given.future_usable() == []
    statement.discard()
    assert given.books() == before


def test_chips_of_a_terminating_pod_can_be_pipelined_once() -> None:
    given = setting(job("a", 4), job("b", 4), running("x", [0, 1, 2, 3], deleting=True), running("y", [4]))
    statement = given.session.statement()
    statement.pipeline(given.job("a"), given.task("a"), 0)
    with pytest.raises(AllocationError):
        statement.pipeline(given.job("b"), given.task("b"), 0)
    assert given.free() == [5, 6, 7]


def test_chips_of_a_task_placed_and_evicted_in_one_session_can_be_pipelined() -> None:
    given = setting(job("a", 4))
    statement = given.session.statement()
    statement.allocate(given.job("a"), [given.task("a")], [0])
    statement.commit()
    before = given.books()
    again = given.session.statement()
    again.evict(given.job("a"), given.task("a"), "shuffled")
    assert (given.free(), given.future_usable()) == ([4, 5, 6, 7], ALL)
    again.discard()
    assert given.books() == before
    assert given.future_usable() == [4, 5, 6, 7]


def test_an_unhealthy_chip_of_an_evicted_task_cannot_be_pipelined() -> None:
    world = World(npu_node("n"), device_info("n", [2, 3], Unhealthy=[1]), running("x", [0, 1]))
    given = Setting(world.session(CONFIGURATION))
    given.session.statement().evict(given.job("x"), given.task("x"), "preempted")
    assert given.future_usable() == [0, 2, 3]


def test_undoing_an_eviction_is_exact_even_if_two_pods_list_one_chip() -> None:
    given = setting(running("x", [0]), running("y", [0]), running("z", [0]))
    statement, before = given.session.statement(), given.books()
    statement.evict(given.job("x"), given.task("x"), "preempted")
    between = given.books()
    second = given.session.statement()
    second.evict(given.job("y"), given.task("y"), "preempted")
    second.discard()
    assert given.books() == between
    statement.discard()
    assert given.books() == before


def test_a_pipelined_chip_is_not_allocated_even_if_it_is_free() -> None:
    """Four chips are pipelined. Two of them are free, and no other pair of free chips is in one ring."""
    given = setting(job("a", 4), job("b", 2), running("x", [2, 3], deleting=True), running("y", [4, 5, 6]))
    statement = given.session.statement()
    statement.pipeline(given.job("a"), given.task("a"), 0)
    with pytest.raises(AllocationError, match="no place for 2"):
        statement.allocate(given.job("b"), [given.task("b")], [0])
    statement.discard()
    statement.allocate(given.job("b"), [given.task("b")], [0])
    assert given.free() == [7]


SIZES = (1, 1, 1, 2, 2, 2, 4, 4, 8)


class ChipsAreConserved(statements.Statements):
    """Makes random statements on three nodes."""

    @initialize(chips=st.lists(st.integers(0, 7), unique=True), lost=st.sets(st.integers(0, 7)))
    def open(self, chips: list[int], lost: set[int]) -> None:
        held = [running(f"r{i}", [chip]) for i, chip in enumerate(chips)]
        for pair in held:
            pair[1]["spec"]["nodeName"] = "a"  # type: ignore[index]
        asking = [job(f"j{i}", size) for i, size in enumerate(SIZES)]
        nodes = [npu_node(n) for n in "abc"]
        world = World(*nodes, device_info("b", sorted(set(ALL) - lost)), *held, *asking)
        self.given = Setting(world.session(CONFIGURATION))
        self.exists = [ids_of(int(m)) for m in self.given.ledger.free]
        self.begin(self.given, [f"j{i}" for i in range(len(SIZES))], [f"r{i}" for i in range(len(chips))])

    @invariant()
    def no_chip_is_held_twice(self) -> None:
        given, ledger = self.given, self.given.ledger
        for row, there in enumerate(self.exists):
            holders = []
            for number, size in enumerate(SIZES):
                j, task = given.job(f"j{number}"), given.task(f"j{number}")
                if j.placed.get(task.uid) == row and task.uid not in j.of(TaskStatus.PIPELINED):
                    chips = list(ledger.taken(task))
                    assert len(chips) == size
                    assert size == 8 or len({chip // 4 for chip in chips}) == 1
                    holders += chips
            assert sorted(holders + given.free(row)) == there


ChipsAreConserved.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestChipsAreConserved = ChipsAreConserved.TestCase
