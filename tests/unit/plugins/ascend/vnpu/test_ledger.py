"""No chip gives more than it has, no chip is used both whole and in parts, and a rollback is exact."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from scheduler.api.names import ASCEND_310P
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.masks import ids_of
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from scheduler.plugins.ascend.vnpu.models import MODELS
from scheduler.plugins.ascend.vnpu.selection import NO_STATE, WHOLE
from tests.builders import Raw, World, group, pod
from tests.examples import examples
from tests.unit.plugins import statements
from tests.unit.plugins.ascend.chips import CONFIGURATION, ledger_of
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node, part_ledger_of, running

REAL = "Ascend310P-4c.3cpu-100-0_0"


@dataclass
class Setting(statements.Setting):
    """A session with its ledger of parts."""

    ledger: PartLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = part_ledger_of(self.session)

    def free(self, row: int = 0, *, later: bool = False) -> dict[int, int]:
        """Maps each chip to its free AI cores."""
        state = int(self.ledger.states(np.array([row]), later=later)[0])
        return {} if state == NO_STATE else {chip.number: chip.cores for chip in self.ledger.known[state].chips}

    def books(self) -> list[object]:
        ledger, rows = self.ledger, np.arange(len(self.session.nodes))
        states = [[ledger.known[i] for i in ledger.states(rows, later=later)] for later in (False, True)]
        marked = [other.in_parts.tobytes() for other in ledger._ledgers.values()]
        return [
            *states,
            *marked,
            {row: dict(ledger._uses_of(row)) for row in ledger.columns.by_row},
            {row: set(ledger._leaving_of(row)) for row in ledger.columns.by_row},
            dict(ledger._taken),
        ]


def setting(*objects: Raw | list[Raw], chips: int = 2, whole: int = 0) -> Setting:
    world = World(core_node("n", chips, whole=whole), core_info("n", list(range(chips))), *objects)
    return Setting(world.session(CONFIGURATION))


def whole_job(name: str, chips: int) -> list[Raw]:
    return [group(name, minimum=1), pod(f"{name}-0", f"1c+1Gi+{ASCEND_310P}={chips}", name)]


def test_parts_are_chosen_when_a_task_is_allocated_and_given_back_when_it_is_undone() -> None:
    given = setting(core_job("a", 4), core_job("b", 8))
    before = given.books()
    statement = given.session.statement()
    statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.free() == {0: 4, 1: 8}
    statement.allocate(given.job("b"), [given.task("b")], [0])
    assert given.free() == {0: 4, 1: 0}
    statement.discard()
    assert given.books() == before


def test_an_allocation_that_does_not_fit_raises_and_takes_nothing() -> None:
    given = setting(core_job("a", 16), running("x", 1, "0-vir01", "Ascend310P-1c-100-0_0"))
    before = given.books()
    with pytest.raises(AllocationError, match=r"node n has no place for 16 AI cores of Pod default/a-0"):
        given.session.statement().allocate(given.job("a"), [given.task("a")], [0])
    assert given.books() == before


def test_parts_of_an_evicted_task_can_be_pipelined_but_not_allocated() -> None:
    given = setting(core_job("a", 8), running("x", 4, "0-vir04_3c", REAL), chips=1)
    before = given.books()
    statement = given.session.statement()
    statement.evict(given.job("x"), given.task("x"), "preempted")
    assert (given.free(), given.free(later=True)) == ({0: 4}, {0: 8})
    with pytest.raises(AllocationError):
        statement.allocate(given.job("a"), [given.task("a")], [0])
    statement.pipeline(given.job("a"), given.task("a"), 0)
    assert given.free(later=True) == {0: 0}
    statement.discard()
    assert given.books() == before


def test_a_chip_that_is_assigned_whole_is_not_divided_and_the_other_way_round() -> None:
    given = setting(core_job("a", 4), whole_job("w", 1), whole_job("v", 1), whole=2)
    statement = given.session.statement()
    statement.allocate(given.job("w"), [given.task("w")], [0])
    assert given.free() == {1: 8}
    statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.free() == {1: 4}
    assert ids_of(int(ledger_of(given.session, ASCEND_310P).usable(np.array([0]), False)[0])) == []
    with pytest.raises(AllocationError):
        statement.allocate(given.job("v"), [given.task("v")], [0])
    statement.discard()
    assert given.free() == {0: 8, 1: 8}


def test_a_chip_that_a_pod_holds_whole_is_not_divided() -> None:
    held = pod("w-0", f"1c+1Gi+{ASCEND_310P}=1", "w", on="n", annotations={ASCEND_310P: "Ascend310P-0"})
    given = setting(core_job("a", 4), group("w", phase="Running"), held, whole=2)
    assert given.free() == {1: 8}


def test_a_chip_with_parts_is_not_assigned_whole() -> None:
    given = setting(running("x", 4, "0-vir04_3c"), whole=2)
    assert ids_of(int(ledger_of(given.session, ASCEND_310P).usable(np.array([0]), False)[0])) == [1]


SIZES = (1, 2, 4, 4, 8, 8, 16)
TEMPLATES = {1: "vir01", 2: "vir02_1c", 4: "vir04_3c"}


class PartsAreConserved(statements.Statements):
    """Makes random statements on two nodes with jobs for parts and for whole chips."""

    @initialize(
        held=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 2, 4])), max_size=3, unique_by=lambda x: x[0])
    )
    def open(self, held: list[tuple[int, int]]) -> None:
        old = [
            running(f"r{i}", cores, f"{chip}-{TEMPLATES[cores]}", f"Ascend310P-{cores}c-100-{chip}_0", on="a")
            for i, (chip, cores) in enumerate(held)
        ]
        waiting = [core_job(f"j{i}", size) for i, size in enumerate(SIZES)]
        nodes = [core_node(n, 3, whole=3) for n in "ab"]
        world = World(*nodes, *old, *waiting, whole_job("w0", 1), whole_job("w1", 2))
        self.given = Setting(world.session(CONFIGURATION))
        names = [*(f"j{i}" for i in range(len(SIZES))), "w0", "w1"]
        self.begin(self.given, names, [f"r{i}" for i in range(len(held))])

    @invariant()
    def no_chip_gives_more_than_it_has(self) -> None:
        given, model = self.given, MODELS["Ascend310P"]
        whole = ledger_of(given.session, ASCEND_310P)
        for row in range(2):
            found = given.ledger._uses_of(row)
            running = given.ledger.columns.by_row[row].uses.keys()
            now = [use for uid in found.keys() & (running | given.ledger._taken.keys()) for use in found[uid]]
            later = [use for uid, uses in found.items() if uid not in given.ledger._leaving_of(row) for use in uses]
            assigned = ids_of(int(whole.assigned(np.array([row]))[0]))
            for uses in (now, later):
                for chip in range(3):
                    here = [use for use in uses if use.chip == chip]
                    assert sum(use.cores for use in here) <= 8
                    assert sum(use.cpus for use in here) <= model.cpus
                    assert not here or chip not in assigned
                    assert len(here) <= 1 or all(use.template != WHOLE for use in here)


TestPartsAreConserved = PartsAreConserved.TestCase
TestPartsAreConserved.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
