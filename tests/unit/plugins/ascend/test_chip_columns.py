"""The columns of chips are shared by sessions, and only the rows of changed nodes are computed again."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ASCEND_910
from scheduler.plugins.ascend.device_lists import NodeSources
from scheduler.plugins.ascend.inventory import read_chips
from scheduler.plugins.ascend.ledger import ChipColumns, ChipLedger
from tests.builders import Raw, World, feed, forgotten, group
from tests.examples import examples
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, ledger_of, names, npu_node, npu_pod


def ledger(world: World) -> ChipLedger:
    return ledger_of(world.session(CONFIGURATION))


def columns(world: World) -> ChipColumns:
    return ledger(world)._chips


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that were read."""
    read: list[str] = []

    def reading(sources: NodeSources, *rest: Any) -> Any:
        read.append(sources.node.metadata.name)
        return read_chips(sources, *rest)

    monkeypatch.setattr("scheduler.plugins.ascend.ledger.read_chips", reading)
    return read


def cluster() -> World:
    return World(*(npu_node(name) for name in "abc"), *(device_info(name, [0, 1, 2, 3]) for name in "abc"))


def test_a_session_in_which_nothing_changed_reads_no_node(read: list[str]) -> None:
    world = cluster()
    first = columns(world)
    read.clear()
    assert columns(world) is first
    assert not read


def test_a_changed_report_changes_the_row_of_its_node_only(read: list[str]) -> None:
    world = cluster()
    before = columns(world)
    read.clear()
    feed(world.cluster.cache, device_info("b", [0, 1]))
    after = columns(world)
    assert read == ["b"]
    assert before.free.tolist() == [15, 15, 15]
    assert after.free.tolist() == [15, 3, 15]


def test_what_a_session_places_does_not_change_the_next_one() -> None:
    world = cluster()
    changed = ledger(world)
    changed.free[:] = 0
    assert ledger(world).free.tolist() == [15, 15, 15]


def test_shared_columns_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        columns(cluster()).free[0] = 1


def change(random: Random, step: int) -> Raw | list[Raw]:
    node = random.choice("abcd")
    match random.randrange(4):
        case 0:
            return npu_node(node, random.choice([0, 4, 8]), {"superPodID": str(random.randrange(3))})
        case 1:
            lists: dict[str, Any] = {"Unhealthy": random.sample(range(8), random.choice([0, 1]))}
            return device_info(node, random.sample(range(8), random.randrange(9)), **lists)
        case 2:
            return device_info(node, random.choice(["Ascend910-x", 5, ""]))
        case _:
            chips = random.sample(range(8), 2)
            pod = npu_pod(f"p{step}-0", 2, f"p{step}", on=node, annotations={ASCEND_910: names(chips)})
            return [group(f"p{step}", minimum=1, phase="Running"), pod]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_sequence_of_changes_leads_to_the_columns_of_a_first_session(seed: int) -> None:
    random, world = Random(seed), cluster()
    for step in range(8):
        for i in range(random.randrange(3)):
            feed(world.cluster.cache, change(random, 10 * step + i))
        found = columns(world)
        with forgotten(world):
            fresh = columns(world)
        for name in ChipColumns.__struct_fields__:
            left, right = getattr(found, name), getattr(fresh, name)
            assert left == right if name in ("by_row", "problems") else left.tolist() == right.tolist()
