"""The columns of devices are shared by sessions, and only the rows of changed nodes are computed again."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.vnpu.devices import DeviceColumns, read_columns
from tests.builders import Raw, World, feed, forgotten, node
from tests.examples import examples
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info
from tests.unit.plugins.ascend.vnpu.test_static import FIRST, SECOND, TWO, running, static_node


def columns(world: World) -> DeviceColumns:
    snapshot = world.session(CONFIGURATION).snapshot
    return read_columns(snapshot, ChipResource(TWO), snapshot.dimensions.index(TWO))


def test_a_session_in_which_nothing_changed_shares_the_columns() -> None:
    world = World(static_node("a"), static_node("b"))
    before = columns(world)
    assert columns(world) is before
    feed(world.cluster.cache, running("x", FIRST, on="b"))
    after = columns(world)
    assert (before.now.tolist(), after.now.tolist()) == ([2, 2], [2, 1])
    assert after.by_row[0] is before.by_row[0]


def change(random: Random, step: int) -> Raw | list[Raw]:
    name = random.choice("abc")
    match random.randrange(5):
        case 0:
            return static_node(name, random.choice([FIRST, f"{FIRST},{SECOND}", "Ascend910-2c-x", ""]))
        case 1:
            return static_node(name, None)
        case 2:
            return node(name, "64c+512Gi")
        case 3:
            return device_info(name, [0, 1, 2])
        case _:
            held = running(f"p{step}", random.choice([FIRST, SECOND, "", "no"]), on=name)
            if random.random() < 0.4:
                held[1]["metadata"]["deletionTimestamp"] = "2020-01-01T12:00:00Z"
            return held


def comparable(found: DeviceColumns) -> list[object]:
    numbers = [column.tolist() for column in (found.now, found.later, found.chips)]
    return [*numbers, found.by_row, found.problems]


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_sequence_of_changes_leads_to_the_columns_of_a_first_session(random: Random) -> None:
    world = World(static_node("a"), static_node("b"))
    for step in range(8):
        for i in range(random.randrange(3)):
            feed(world.cluster.cache, change(random, 10 * step + i))
        found = columns(world)
        with forgotten(world):
            assert comparable(found) == comparable(columns(world))
