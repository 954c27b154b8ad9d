"""No part of a card is allocated twice, undo is exact, and runs equal placing tasks one by one."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given as with_any
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from scheduler.api.names import VGPU_IDS
from scheduler.framework.statement import AllocationError
from scheduler.plugins.deviceshare.cards import ALL_CARDS, Card, Cards, ContainerKind, ContainerRequest, charge, mask_of
from scheduler.plugins.deviceshare.columns import Runs
from scheduler.plugins.deviceshare.device_config import NpuModel, VgpuConfig
from scheduler.plugins.deviceshare.family import DeviceFamily
from scheduler.plugins.deviceshare.gpushare import GpuClaim, GpuShare
from scheduler.plugins.deviceshare.hami import HamiNpu, NpuClaim
from scheduler.plugins.deviceshare.ledger import CardLedger
from scheduler.plugins.deviceshare.plugin import DeviceShare
from scheduler.plugins.deviceshare.vgpu import Vgpu, VgpuClaim
from scheduler.plugins.support.predicate_times import NodeTimes
from tests.builders import Raw, World, configuration
from tests.examples import examples
from tests.unit.plugins import statements
from tests.unit.plugins.deviceshare.devices import VGPU, jobs, limited, sharing, slice_of, slices, vgpu_node, vgpu_pods


@dataclass
class Setting(statements.Setting):
    """A session with its only ledger."""

    ledger: CardLedger = field(init=False)

    def __post_init__(self) -> None:
        (self.ledger,) = next(p for p in self.session.plugins if isinstance(p, DeviceShare)).ledgers

    def books(self) -> list[object]:
        ledger = self.ledger
        return [(ledger.cards(row, later=False), ledger.cards(row, later=True)) for row in ledger.node_states]

    def free(self, row: int = 0, *, later: bool = False) -> list[int]:
        """The free memory per card."""
        return [card.free_memory for card in self.ledger.cards(row, later=later)]


def asking(name: str, *asked: int) -> list[Raw]:
    return jobs(*vgpu_pods(1, *asked, name=name), name=name)


def running(name: str, ids: str, on: str = "n", **rest: Any) -> list[Raw]:
    held = limited(f"{name}-0", *slices(ids), on=on, annotations={VGPU_IDS: ids}, **rest)
    return jobs(held, name=name, phase="Running")


def setting(*objects: Any) -> Setting:
    return Setting(World(vgpu_node("n"), *objects).session(VGPU))


def test_cards_are_chosen_when_a_task_is_allocated_and_given_back_when_it_is_undone() -> None:
    given = setting(asking("a", 1, 4000, 10), asking("b", 2, 5000, 10))
    before = given.books()
    statement = given.session.statement()
    statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.free() == [10_000, 6000]
    statement.allocate(given.job("b"), [given.task("b")], [0])
    assert given.free() == [5000, 1000]
    statement.discard()
    assert given.books() == before


def test_an_allocation_that_fits_no_card_raises_with_numbers_and_takes_nothing() -> None:
    given = setting(asking("a", 1, 9000, 10), running("x", "n-0,NVIDIA,2000,0:n-1,NVIDIA,2000,0:"))
    before = given.books()
    statement = given.session.statement()
    with pytest.raises(AllocationError, match="node n has no GPU with 9000 of its memory and 10% of the cores free"):
        statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.books() == before and not statement


def test_cards_of_an_evicted_task_can_be_pipelined_once() -> None:
    given = setting(
        asking("a", 1, 9000, 10),
        asking("b", 1, 9000, 10),
        running("x", "n-0,NVIDIA,9000,0:"),
        running("y", "n-1,NVIDIA,9000,0:"),
    )
    before = given.books()
    statement = given.session.statement()
    statement.evict(given.job("x"), given.task("x"), "preempted")
    assert given.free() == [1000, 1000] and given.free(later=True) == [10_000, 1000]
    statement.pipeline(given.job("a"), given.task("a"), 0)
    assert given.free() == [1000, 1000] and given.free(later=True) == [1000, 1000]
    with pytest.raises(AllocationError):
        statement.pipeline(given.job("b"), given.task("b"), 0)
    statement.discard()
    assert given.books() == before


def test_evicting_a_pod_without_known_cards_can_be_undone() -> None:
    """The Pod runs on a node without devices, or its annotation was removed: undo allocates no cards to it."""
    lost = jobs(limited("x-0", slice_of(1, 9000, 10), on="n"), name="x", phase="Running")
    given = setting(lost, asking("a", 2, 9000, 10))
    before = given.books()
    statement = given.session.statement()
    statement.evict(given.job("x"), given.task("x"), "preempted")
    statement.discard()
    assert given.books() == before
    statement.allocate(given.job("a"), [given.task("a")], [0])
    assert given.free() == [1000, 1000]


def test_pipelined_cards_are_not_allocated_even_if_they_are_free() -> None:
    """Of the second card, 7000 are pipelined, and 6000 of them are free; 3000 remain."""
    given = setting(
        asking("a", 1, 7000, 10),
        asking("b", 1, 4000, 10),
        asking("c", 1, 3000, 10),
        running("x", "n-0,NVIDIA,10000,0:"),
        running("y", "n-1,NVIDIA,4000,0:", deleting=True),
    )
    statement = given.session.statement()
    statement.pipeline(given.job("a"), given.task("a"), 0)
    with pytest.raises(AllocationError):
        statement.allocate(given.job("b"), [given.task("b")], [0])
    statement.allocate(given.job("c"), [given.task("c")], [0])
    assert given.free() == [0, 3000] and given.free(later=True) == [0, 0]


def test_a_node_without_devices_takes_no_task() -> None:
    world = World(vgpu_node("a"), {**vgpu_node("n"), "metadata": {"name": "n"}}, asking("a", 1, 100, 1))
    given = Setting(world.session(VGPU))
    with pytest.raises(AllocationError, match="node n has no GPU"):
        given.session.statement().allocate(given.job("a"), [given.task("a")], [1])


NPU = NpuModel("A", "h/A", "h/A-memory", 100, 90, ())
ASKED = ((1, 3000, 30), (1, 3000, 0), (2, 2000, 20), (1, 6000, 100), (2, 5000, 50), (1, 1000, 10), (1, 9000, 90))
WITH_INIT_CONTAINER = ((1, 7000, 20), (2, 1000, 40), (1, 9000, 10))
"""The requests of the init containers of the first jobs."""
ANY_PLUGIN = sharing(VGPUEnable=True, VGPUInitContainersEnable=True)


class CardsAreConserved(statements.Statements):
    """Makes random statements on two nodes."""

    @initialize(held=st.lists(st.tuples(st.integers(0, 1), st.sampled_from([1000, 2000])), max_size=4))
    def open(self, held: list[tuple[int, int]]) -> None:
        there = [running(f"r{i}", f"a-{card},NVIDIA,{memory},10:", "a") for i, (card, memory) in enumerate(held)]
        wanted = [asking(f"j{i}", *asked) for i, asked in enumerate(ASKED)]
        for (_, pod), asked in zip(wanted, WITH_INIT_CONTAINER, strict=False):
            pod["spec"]["initContainers"] = limited("", {}, init=[slice_of(*asked)])["spec"]["initContainers"]
        self.given = Setting(World(vgpu_node("a"), vgpu_node("b"), *there, *wanted).session(ANY_PLUGIN))
        self.begin(self.given, [f"j{i}" for i in range(len(ASKED))], [f"r{i}" for i in range(len(held))])

    @invariant()
    def no_card_is_allocated_or_pipelined_beyond_its_capacity(self) -> None:
        self._cards_are_charged_for_what_is_held(later=False)
        ledger = self.given.ledger
        for row in ledger.node_states:
            for cards in (ledger.cards(row, later=False), ledger.cards(row, later=True)):
                assert all(card.free_memory >= 0 and card.free_cores >= 0 and card.used <= card.slots for card in cards)

    @invariant()
    def future_idle_is_idle_plus_releasing_minus_pipelined(self) -> None:
        self._cards_are_charged_for_what_is_held(later=True)

    def _cards_are_charged_for_what_is_held(self, *, later: bool) -> None:
        ledger = self.given.ledger
        for row, node_state in ledger.node_states.items():
            expected = node_state.inventory.cards
            for task, grant in ledger.holders(row, later=later):
                expected = charge(expected, ledger.held(task.cls, grant))
            assert ledger.cards(row, later=later) == expected


CardsAreConserved.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
TestCardsAreConserved = CardsAreConserved.TestCase

CARDS = st.lists(
    st.builds(
        Card,
        slots=st.integers(0, 4),
        memory=st.just(100),
        cores=st.just(100),
        used=st.integers(0, 2),
        used_memory=st.integers(0, 110),
        used_cores=st.integers(0, 100),
        layouts=st.none(),
        parts=st.just(()),
        link=st.just(-1),
    ),
    min_size=1,
    max_size=4,
).map(tuple)
SHARES = st.lists(
    st.builds(
        ContainerRequest,
        number=st.integers(1, 3),
        memory=st.integers(0, 60),
        cores=st.sampled_from([0, 10, 50, 100]),
        percent=st.sampled_from([-1, -1, 30, 100]),
        kind=st.sampled_from(ContainerKind),
    ),
    min_size=1,
    max_size=2,
).map(tuple)
POLICIES = st.sampled_from(["", "binpack", "spread"])


@settings(max_examples=examples(200), deadline=None)
@with_any(cards=CARDS, shares=SHARES, policy=POLICIES, most=st.integers(1, 6), exclusive=st.booleans())
def test_a_run_equals_placing_tasks_one_by_one(
    cards: Cards, shares: tuple[ContainerRequest, ...], policy: str, most: int, exclusive: bool
) -> None:
    family, claim = Vgpu(VgpuConfig(), policy, 0, locks=False), VgpuClaim(shares)
    runs, eligible = Runs(family, claim), ALL_CARDS
    codes = np.array([runs.code(cards, eligible, exclusive)])
    room = int(runs.counts(codes)[0])
    for ahead in range(most):
        placement = family.place(cards, claim, eligible)
        assert (placement is None) == (ahead >= room)
        if placement is None:
            break
        assert runs.scores(codes, np.array([ahead]))[0] == placement.score
        after = charge(cards, placement.held)
        assert charge(after, placement.held, -1) == cards
        assert all(now.used_memory <= max(now.memory, was.used_memory) for was, now in zip(cards, after, strict=True))
        cards = after
        if exclusive:
            eligible &= ~mask_of(placement.grant)


@settings(max_examples=examples(200), deadline=None)
@with_any(cards=CARDS, share=SHARES, policy=POLICIES, number=st.integers(1, 3), soft=st.booleans())
def test_computed_room_equals_room_by_placement(
    cards: Cards, share: tuple[ContainerRequest, ...], policy: str, number: int, soft: bool
) -> None:
    npus = HamiNpu(NPU, policy, 0, soft=False, locks=False)
    npu_claim = NpuClaim(share, soft, "NPU")
    assert npus.room(cards, npu_claim, ALL_CARDS, False) == DeviceFamily.room(npus, cards, npu_claim, ALL_CARDS, False)
    times = NodeTimes(World().session(configuration(["gang"])).plugin_session)
    for whole in (False, True):
        gpus = GpuShare(times, whole=whole, locks=False)
        gpu_claim = GpuClaim(number=number) if whole else GpuClaim(memory=share[0].memory)
        by_placement = DeviceFamily.room(gpus, cards, gpu_claim, ALL_CARDS, False)
        assert gpus.room(cards, gpu_claim, ALL_CARDS, False) == by_placement
