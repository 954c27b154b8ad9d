"""Pools from ResourceSlices: the devices that each node can take."""

import pytest

from scheduler.api import dra
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.budget import NodeRejectedError
from scheduler.plugins.predicates.dynamic_resources.pools import DeviceInventory
from tests.builders import Raw
from tests.device_builders import claim_spec, device, gpus, request, resource_slice
from tests.unit.plugins.predicates.dynamic_resources.nodes import demand, inventory, search

ZONES = {"n1": {"zone": "a"}, "n2": {"zone": "b"}}


def zone(name: str) -> Raw:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}]}


def objects_of(found: DeviceInventory) -> dict[str, dra.ResourceSlice]:
    return {resource_slice.name: obj for obj, resource_slice in found._slices.values()}


def reached(found: DeviceInventory, row: int = 0) -> list[str]:
    return [device.spec.name for device in found.at(row).devices]


def test_a_slice_with_a_node_name_applies_to_that_node() -> None:
    found = inventory([resource_slice(gpus(1), "n1")], ["n1", "n2"])

    assert (reached(found, 0), reached(found, 1)) == (["gpu-0"], [])
    assert found.multi_node == []


def test_a_slice_can_apply_to_all_nodes_or_to_those_of_a_selector() -> None:
    found = inventory(
        [
            resource_slice([device("everywhere")], pool="a", allNodes=True),
            resource_slice([device("in-b")], pool="b", nodeSelector=zone("b")),
        ],
        ZONES,
    )

    assert (reached(found, 0), reached(found, 1)) == (["everywhere"], ["everywhere", "in-b"])
    assert {d.spec.name for d in found.multi_node} == {"everywhere", "in-b"}


def test_a_slice_can_specify_nodes_per_device() -> None:
    devices = [
        device("one", nodeName="n1"),
        device("b", nodeSelector=zone("b")),
        device("all", allNodes=True),
        device("none"),
    ]

    found = inventory([resource_slice(devices, pool="p", perDeviceNodeSelection=True)], ZONES)

    assert (reached(found, 0), reached(found, 1)) == (["one", "all"], ["b", "all"])


def test_nodes_with_the_same_devices_share_their_pools() -> None:
    found = inventory([resource_slice(gpus(2), pool="net", allNodes=True)], ["n1", "n2"])

    assert found.at(0) is found.at(1)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = resource_slice([device("old")], "n1", name="old", generation=1)
    new = resource_slice([device("new")], "n1", name="new", generation=2)

    assert reached(inventory([old, new])) == ["new"]


def test_an_old_generation_is_ignored_even_if_the_new_one_has_no_devices_for_the_node() -> None:
    old = [resource_slice([device(f"old-{n}")], n, name=f"old-{n}", pool="p", count=2) for n in ("n1", "n2")]
    new = resource_slice([device("new")], "n2", name="new", pool="p", generation=2)

    found = inventory([*old, new], ["n1", "n2"])

    assert (reached(found, 0), reached(found, 1)) == ([], ["new"])


def test_no_device_of_an_incomplete_pool_is_allocated() -> None:
    found = inventory([resource_slice(gpus(2), "n1", count=2)])

    assert reached(found) == []
    with pytest.raises(NodeRejectedError, match=r"asks for all devices, but resource pool gpu.example.com/n1 is curr"):
        search(Books(found), demand(claim_spec(request(allocationMode="All"))))


def test_a_pool_is_complete_if_its_slices_are_on_several_nodes() -> None:
    slices = [resource_slice([device(n)], n, name=n, pool="p", count=2) for n in ("n1", "n2")]

    assert reached(inventory(slices, ["n1", "n2"])) == ["n1"]


@pytest.mark.parametrize(
    "slices",
    [
        [resource_slice([device("twice")], "n1", name=name, count=2) for name in ("a", "b")],
        [
            resource_slice(
                [device("x", consumesCounters=[{"counterSet": "s", "counters": {"m": {"value": "1"}}}])], "n1"
            )
        ],
    ],
)
def test_no_device_of_an_inconsistent_pool_is_allocated(slices: list[Raw]) -> None:
    with pytest.raises(NodeRejectedError, match="invalid resource pools were encountered"):
        search(Books(inventory(slices)), demand(claim_spec(request())))


def test_pools_are_ordered_by_driver_and_name_slices_by_name_devices_by_position() -> None:
    found = inventory(
        [
            resource_slice([device("4")], "n1", driver="z.example.com"),
            resource_slice([device("2")], "n1", name="b", pool="p", count=2),
            resource_slice([device("1"), device("0")], "n1", name="a", pool="p", count=2),
            resource_slice([device("3")], "n1", name="0", pool="q"),
        ]
    )

    assert reached(found) == ["1", "0", "2", "3", "4"]


def test_devices_with_binding_conditions_come_last() -> None:
    found = inventory(
        [
            resource_slice([device("slow", bindingConditions=["attached"])], "n1", pool="a"),
            resource_slice([device("quick")], "n1", pool="b"),
        ]
    )

    assert reached(found) == ["quick", "slow"]


def test_a_device_with_an_invalid_amount_is_left_out_and_reported() -> None:
    found = inventory([resource_slice([device("bad", None, {"memory": "many"}), *gpus(1)], "n1")])

    assert reached(found) == ["gpu-0"]
    assert [(m.kind, m.name, m.field) for m in found.problems] == [
        ("ResourceSlice", "n1-gpu.example.com", "spec.devices[0]")
    ]


def test_unchanged_slices_are_not_parsed_again() -> None:
    slices = [resource_slice(gpus(1), "n1")]
    before = inventory(slices)

    after = DeviceInventory(objects_of(before), before._facts, before)

    assert after.at(0).devices[0] is before.at(0).devices[0]


def test_the_pools_of_a_node_are_kept_while_no_slice_of_them_changes() -> None:
    half = resource_slice(gpus(1), "n2", name="half", pool="shared", count=2)
    before = inventory([resource_slice(gpus(2), "n1"), half], ["n1", "n2"])
    kept, incomplete = before.at(0), before.at(1)
    other = objects_of(inventory([resource_slice([device("more")], "n1", name="other", pool="shared", count=2)]))[
        "other"
    ]

    after = DeviceInventory({**objects_of(before), "other": other}, before._facts, before)

    assert incomplete.incomplete and not after.at(1).incomplete, "another slice has completed its pool"
    assert reached(after, 0) == ["gpu-0", "gpu-1", "more"]
    again = DeviceInventory(objects_of(after), after._facts, after)
    assert again.at(0) is after.at(0) and again.at(1) is after.at(1)
    assert DeviceInventory(objects_of(before), before._facts, before).at(0) is kept
