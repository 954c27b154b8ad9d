"""How many disks of a driver a node takes: each counted once, whoever uses it."""

from typing import Any

from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.predicates.volumes.stock import (
    CONF,
    DRIVER,
    MANY,
    STORAGE,
    claim,
    csi_node,
    disk,
    limited,
    node_of,
    reason_of,
    storage_class,
    user,
)

FULL = "node(s) exceed max volume count"


def place(*objects: Raw | list[Raw], conf: Any = CONF) -> World:
    return World(storage_class(), group("g"), *objects).run(conf)


def bound(world: World) -> list[str]:
    pods = [o["metadata"]["name"] for o in world.cluster.objects() if o["kind"] == "Pod"]
    return [name for name in pods if node_of(world, name)]


def test_a_node_takes_as_many_disks_as_its_driver_says() -> None:
    disks = [o for i in range(3) for o in disk(f"d{i}")]

    world = place(node("n1"), csi_node("n1", 2), disks, [user(f"p{i}", f"d{i}") for i in range(3)])

    assert bound(world) == ["p0", "p1"]
    assert FULL in reason_of(world, "p2")


def test_what_running_pods_have_attached_counts() -> None:
    world = place(
        node("n1"), csi_node("n1", 1), disk("d0"), disk("d1"), user("old", "d0", group="", on="n1"), user("p", "d1")
    )

    assert bound(world) == ["old"]


def test_a_disk_that_several_pods_use_counts_once() -> None:
    world = place(node("n1"), csi_node("n1", 1), disk("d", mode=MANY), [user(f"p{i}", "d") for i in range(3)])

    assert len(bound(world)) == 3


def test_a_disk_that_is_attached_to_a_full_node_is_no_more_there() -> None:
    world = place(
        [node("n1"), node("n2")],
        [csi_node("n1", 1), csi_node("n2", 0)],
        disk("d", mode=MANY),
        user("old", "d", group="", on="n1"),
        user("p", "d"),
    )

    assert node_of(world, "p") == "n1"


def test_two_volumes_with_one_handle_are_one_disk() -> None:
    twins = [*disk("d0"), *disk("d1")]
    for twin in twins:
        if twin["kind"] == "PersistentVolume":
            twin["spec"]["csi"]["volumeHandle"] = "the-same"

    world = place(node("n1"), csi_node("n1", 1), twins, user("p0", "d0"), user("p1", "d1"))

    assert len(bound(world)) == 2


def test_claims_that_are_still_to_be_bound_count_by_their_class() -> None:
    world = place(
        node("n1"),
        csi_node("n1", 1),
        storage_class("dyn", DRIVER),
        [claim("c0", cls="dyn"), claim("c1", cls="dyn")],
        user("p0", "c0"),
        user("p1", "c1"),
    )

    assert [bind.task.name for bind in world.decisions.binds] == ["p0"]
    assert FULL in reason_of(world, "p1")


def test_a_disk_that_is_still_being_detached_holds_its_place() -> None:
    attachment = {
        "apiVersion": STORAGE,
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "d0"}},
    }

    world = place(node("n1"), csi_node("n1", 1), disk("d0"), disk("d1"), attachment, user("p", "d1"))

    assert FULL in reason_of(world, "p")


def test_disks_of_plugins_that_a_driver_has_taken_over_count() -> None:
    drive = {"name": "v", "awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}
    twin = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    other = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-2"}}

    world = place(
        node("n1"),
        csi_node("n1", 1, driver="ebs.csi.aws.com"),
        [pod(name, "1c", "g", volumes=[source]) for name, source in (("a", drive), ("b", twin), ("c", other))],
    )

    assert bound(world) == ["a", "b"]


def test_a_gang_that_failed_gives_its_disks_places_back() -> None:
    disks = [o for i in range(3) for o in disk(f"d{i}")]
    big = [group("big", minimum=2), *(user(f"b{i}", f"d{i}", group="big") for i in range(2))]

    world = place(node("n1"), csi_node("n1", 1), disks, big, user("p", "d2"))

    assert bound(world) == ["p"]


def test_nodes_without_the_driver_are_left_out_where_others_have_it() -> None:
    world = place([node("n1"), node("n2")], csi_node("n2"), disk("d"), user("p", "d"))

    assert node_of(world, "p") == "n2"


def test_a_pod_says_which_driver_a_node_lacks() -> None:
    world = place([node("n1"), node("n2", "0.5c")], csi_node("n2"), disk("d"), user("p", "d"))

    assert f"1 {DRIVER} CSI driver is not installed on the node" in reason_of(world, "p")


def test_a_driver_that_no_node_tells_of_keeps_no_pod_away() -> None:
    assert node_of(place(node("n1"), disk("d"), user("p", "d")), "p") == "n1"


def test_without_volume_limits_nothing_is_counted() -> None:
    conf = limited(**{"predicate.NodeVolumeLimitsEnable": False})

    world = place(node("n1"), csi_node("n1", 0), disk("d"), user("p", "d"), conf=conf)

    assert node_of(world, "p") == "n1"
