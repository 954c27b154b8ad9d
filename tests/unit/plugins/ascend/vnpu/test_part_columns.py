"""The columns of parts are shared by sessions, and only the rows of changed nodes are computed again."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ASCEND_310P, NPU_CORE
from scheduler.api.snapshot import Memory
from scheduler.framework.session import Session
from scheduler.plugins.ascend.cluster_reports import NO_REPORTS
from scheduler.plugins.ascend.device_lists import NodeSources
from scheduler.plugins.ascend.vnpu import inventory
from scheduler.plugins.ascend.vnpu.inventory import PartColumns, read_columns, read_parts
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from scheduler.plugins.ascend.vnpu.selection import NO_STATE
from tests.builders import Raw, World, feed
from tests.examples import examples
from tests.unit.plugins.ascend.chips import CONFIGURATION
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node, part_ledger_of, running


def columns(world: World) -> PartColumns:
    return part_ledger_of(world.session(CONFIGURATION)).columns


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that were read."""
    read: list[str] = []

    def reading(sources: NodeSources, *rest: Any) -> Any:
        read.append(sources.node.metadata.name)
        return read_parts(sources, *rest)

    monkeypatch.setattr("scheduler.plugins.ascend.vnpu.inventory.read_parts", reading)
    return read


def cluster() -> World:
    return World(*(core_node(name, whole=2) for name in "abc"), *(core_info(name, [0, 1]) for name in "abc"))


def test_a_session_in_which_nothing_changed_reads_no_node(read: list[str]) -> None:
    world = cluster()
    first = columns(world)
    read.clear()
    assert columns(world) is first
    assert not read


def test_a_pod_changes_the_row_of_its_node_only(read: list[str]) -> None:
    world = cluster()
    before = columns(world)
    read.clear()
    feed(world.cluster.cache, running("r", 4, "0-vir04_3c", on="b"))
    after = columns(world)
    assert read == ["b"]
    changed = [before.known[old] != after.known[new] for old, new in zip(before.now, after.now, strict=True)]
    assert changed == [False, True, False]


def test_what_a_session_places_does_not_change_the_next_one() -> None:
    world = World(core_node("n"), core_info("n", [0, 1]), core_job("j", 4))
    session = world.session(CONFIGURATION)
    job = session.jobs["default/j"]
    session.statement().allocate(job, [*job.tasks()], [0])
    assert free_cores(part_ledger_of(session)) == 4
    assert free_cores(part_ledger_of(world.session(CONFIGURATION))) == 8


def free_cores(ledger: PartLedger) -> int:
    """The free AI cores of the first chip of the first node."""
    (state,) = ledger.states(np.array([0]), later=False)
    return int(ledger.known[state].chips[0].cores)


def change(random: Random, step: int) -> Raw | list[Raw]:
    node = random.choice("abcd")
    match random.randrange(5):
        case 0:
            kind = random.choice(["Ascend310P-8", "Ascend310P-10", "Ascend310P-9"])
            return core_node(node, random.randrange(1, 4), labels={"servertype": kind}, whole=random.choice([0, 2]))
        case 1:
            free = [chip for chip in range(3) if random.random() < 0.7]
            return core_info(node, free, random.sample(range(3), random.choice([0, 1])))
        case 2:
            return core_info(node, random.choice(["Ascend310P-x", 5, ""]))
        case 3:
            held = running(
                f"p{step}", 2, f"{random.randrange(3)}-{random.choice(['vir02', 'vir02_1c', 'no'])}", on=node
            )
            if random.random() < 0.5:
                held[1]["metadata"]["deletionTimestamp"] = "2020-01-01T12:00:00Z"
            return held
        case _:
            return running(f"p{step}", 8, str(random.randrange(3)), on=node)


def comparable(found: PartColumns) -> list[object]:
    """The columns, with the states and kinds in place of their numbers."""
    states = [[None if i == NO_STATE else found.known[i] for i in column] for column in (found.now, found.later)]
    kinds = [None if i < 0 else found.kinds[i] for i in found.kind]
    return [*states, kinds, found.held.tolist(), found.by_row, found.problems]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 256]))
def test_any_sequence_of_changes_leads_to_the_columns_of_a_first_session(seed: int, few: int) -> None:
    random, world = Random(seed), cluster()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory, "_FEW", few)
        for step in range(8):
            for i in range(random.randrange(3)):
                feed(world.cluster.cache, change(random, 10 * step + i))
            snapshot = Session(world.cluster.cache.snapshot(world.cluster.now), CONFIGURATION).snapshot
            position = snapshot.dimensions.find(NPU_CORE)
            found = read_columns(snapshot, position, NO_REPORTS)
            fresh = read_columns(replace(snapshot, memory=Memory()), position, NO_REPORTS)
            assert comparable(found) == comparable(fresh)
            assert found.rows_of(ASCEND_310P).tolist() == fresh.rows_of(ASCEND_310P).tolist()
