"""The states of cards are shared by sessions, and only nodes that changed are read again."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import VGPU_IDS
from scheduler.api.snapshot import Memory
from scheduler.framework.configuration import Configuration
from scheduler.plugins.deviceshare import inventory
from scheduler.plugins.deviceshare.columns import ClaimColumns
from scheduler.plugins.deviceshare.inventory import FamilyNodes, read_holdings, read_nodes
from scheduler.plugins.deviceshare.ledger import CardLedger
from scheduler.plugins.deviceshare.plugin import DeviceShare
from tests.builders import Raw, World, feed, node
from tests.examples import examples
from tests.unit.plugins.deviceshare.devices import (
    MINDCLUSTER,
    VGPU,
    chip_list,
    chip_node,
    jobs,
    limited,
    slices,
    vgpu_node,
    vgpu_pods,
)


def ledger(world: World, configuration: Configuration = VGPU) -> CardLedger:
    session = world.session(configuration)
    (found,) = next(plugin for plugin in session.plugins if isinstance(plugin, DeviceShare)).ledgers
    return found


def running(name: str, ids: str, on: str, **rest: Any) -> list[Raw]:
    held = limited(f"{name}-0", *slices(ids), on=on, annotations={VGPU_IDS: ids}, **rest)
    return jobs(held, name=name, phase="Running")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that were read."""
    read: list[str] = []

    def reading(claims: Any, node: Any, *rest: Any) -> Any:
        read.append(node.metadata.name)
        return read_holdings(claims, node, *rest)

    monkeypatch.setattr("scheduler.plugins.deviceshare.inventory.read_holdings", reading)
    return read


def test_a_pod_changes_the_state_of_its_node_only(read: list[str]) -> None:
    world = World(*(vgpu_node(name) for name in "abc"))
    before = ledger(world)
    read.clear()
    assert ledger(world).node_states is before.node_states
    assert not read
    feed(world.cluster.cache, running("r", "b-0,NVIDIA,1000,10:", "b"))
    after = ledger(world)
    assert read == ["b"]
    assert [after.cards(row, later=False)[0].used_memory for row in range(3)] == [0, 1000, 0]
    assert [before.cards(row, later=False)[0].used_memory for row in range(3)] == [0, 0, 0]
    assert [task.name for task, _ in after.grants()] == ["r-0"]


def test_the_chips_that_a_device_plugin_lists_are_read_again(read: list[str]) -> None:
    world = World(*(chip_node(name) for name in "ab"), *(chip_list(name, [0, 1]) for name in "ab"))
    assert len(ledger(world, MINDCLUSTER).cards(1, later=False)) == 2
    read.clear()
    feed(world.cluster.cache, chip_list("b", [0]))
    assert len(ledger(world, MINDCLUSTER).cards(1, later=False)) == 1
    assert read == ["b"]


def change(random: Random, step: int) -> Raw | list[Raw]:
    name = random.choice("abcd")
    match random.randrange(4):
        case 0:
            return node(name, "64c+256Gi")
        case 1:
            return vgpu_node(name, random.randrange(1, 3), broken=random.sample(range(2), random.choice([0, 1])))
        case 2:
            return vgpu_node(name, slots=random.choice([2, 10]), annotations={"other": str(step)})
        case _:
            held = running(f"p{step}", f"{name}-{random.randrange(2)},NVIDIA,1000,10:", name)
            if random.random() < 0.4:
                held[-1]["metadata"]["deletionTimestamp"] = "2020-01-01T12:00:00Z"
            return held


def comparable(found: FamilyNodes) -> list[object]:
    """The nodes, with a description of their kinds instead of the numbers of these kinds."""
    kinds = [None if number < 0 else inventory._kind(found.kinds[number]) for number in found.kind.tolist()]
    return [found.states, found.has_devices.tolist(), found.in_use, found.problems, kinds]


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([0, 256]))
def test_any_sequence_of_changes_leads_to_the_states_of_a_first_session(random: Random, few: int) -> None:
    world, patch = World(*(vgpu_node(name) for name in "abc")), pytest.MonkeyPatch()
    patch.setattr(inventory, "_FEW", few)
    for step in range(8):
        for i in range(random.randrange(3)):
            feed(world.cluster.cache, change(random, 10 * step + i))
        session = world.session(VGPU)
        (ledger,) = next(plugin for plugin in session.plugins if isinstance(plugin, DeviceShare)).ledgers
        found = read_nodes(session.snapshot, ledger.family)
        fresh = read_nodes(replace(session.snapshot, memory=Memory()), ledger.family)
        assert comparable(found) == comparable(fresh)
    patch.undo()


@settings(max_examples=examples(40), deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_columns_of_a_claim_by_kinds_are_those_by_nodes(random: Random) -> None:
    """The rule also applies to a claim that is first evaluated after the session has placed Pods."""
    world = World(*(vgpu_node(name) for name in "abc"))
    for step in range(6):
        feed(world.cluster.cache, change(random, step))
    feed(world.cluster.cache, jobs(*(vgpu_pods(1, 2000, name="j")), name="j"))
    session = world.session(VGPU)
    (ledger,) = next(plugin for plugin in session.plugins if isinstance(plugin, DeviceShare)).ledgers
    job = session.jobs["default/j"]
    (task,) = job.tasks()
    claim = ledger.claim(task.cls)
    rows = np.flatnonzero(ClaimColumns(ledger, claim, None).room(np.arange(len(session.nodes)), later=False) > 0)
    if len(rows):
        ledger.allocate(job, [task], [int(random.choice(rows.tolist()))], False)
    by_kinds = ClaimColumns(ledger, claim, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ledger.family), "names_cards", lambda self, claim: True)
        by_nodes = ClaimColumns(ledger, claim, None)
    every = np.arange(len(session.nodes))
    assert by_kinds.eligible_nodes.tolist() == by_nodes.eligible_nodes.tolist()
    for later in (False, True):
        assert by_kinds.room(every, later=later).tolist() == by_nodes.room(every, later=later).tolist()
    assert by_kinds.scores(every, None).tolist() == by_nodes.scores(every, None).tolist()
