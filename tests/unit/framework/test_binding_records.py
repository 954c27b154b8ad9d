"""The bindings that are recorded, and the content of their records."""

from scheduler.api.names import ASCEND_910, BINDING_RECORD
from scheduler.api.signed_records import BindingRecord
from tests.builders import Raw, World, configuration, group, node, pod, queue

CHIPS = configuration(["gang"], ["predicates", "ascend"])


def a_world(*asks: str) -> World:
    waiting: list[Raw] = [pod(f"p{i}", ask, "g") for i, ask in enumerate(asks)]
    there = node("n1", f"9c+9Gi+{ASCEND_910}=8+nvidia.com/gpu=4+hugepages-2Mi=1Gi")
    return World(there, queue("q"), group("g", "q"), waiting)


def records(world: World) -> list[BindingRecord | None]:
    return [bind.record for bind in world.run(CHIPS).decisions.binds]


def test_the_record_of_a_pod_with_chips_names_node_queue_and_chips() -> None:
    (record,) = records(a_world(f"1c+{ASCEND_910}=2"))
    assert record == BindingRecord("n1", "q", {ASCEND_910: "Ascend910-0,Ascend910-1"})


def test_a_pod_with_cards_that_no_plugin_chooses_has_a_record_of_its_queue() -> None:
    (record,) = records(a_world("1c+nvidia.com/gpu=1"))
    assert record == BindingRecord("n1", "q", {})


def test_pods_without_chips_or_cards_have_none() -> None:
    assert records(a_world("1c", "1c+1Gi", "1c+hugepages-2Mi=2Mi")) == [None] * 3


def test_in_memory_no_record_is_written_onto_the_pod() -> None:
    world = a_world(f"1c+{ASCEND_910}=2")
    world.run(CHIPS)
    assert BINDING_RECORD not in world.get("Pod", "p0")["metadata"]["annotations"]
