"""Limits of attached disks per driver and node: each disk counts once, regardless of its users."""

from typing import Any

from scheduler.api.task import TaskStatus
from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.predicates.volumes.claims import (
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


def test_a_node_attaches_at_most_as_many_disks_as_its_driver_allows() -> None:
    disks = [o for i in range(3) for o in disk(f"d{i}")]

    world = place(node("n1"), csi_node("n1", 2), disks, [user(f"p{i}", f"d{i}") for i in range(3)])

    assert bound(world) == ["p0", "p1"]
    assert FULL in reason_of(world, "p2")


def test_the_disks_of_running_pods_count() -> None:
    world = place(
        node("n1"), csi_node("n1", 1), disk("d0"), disk("d1"), user("old", "d0", group="", on="n1"), user("p", "d1")
    )

    assert bound(world) == ["old"]


def test_a_disk_that_several_pods_use_counts_once() -> None:
    world = place(node("n1"), csi_node("n1", 1), disk("d", mode=MANY), [user(f"p{i}", "d") for i in range(3)])

    assert len(bound(world)) == 3


def test_a_disk_that_a_full_node_has_attached_already_can_be_used_there() -> None:
    world = place(
        [node("n1"), node("n2")],
        [csi_node("n1", 1), csi_node("n2", 0)],
        disk("d", mode=MANY),
        user("old", "d", group="", on="n1"),
        user("p", "d"),
    )

    assert node_of(world, "p") == "n1"


def test_two_volumes_with_the_same_handle_count_as_one_disk() -> None:
    copies = [*disk("d0"), *disk("d1")]
    for copy in copies:
        if copy["kind"] == "PersistentVolume":
            copy["spec"]["csi"]["volumeHandle"] = "the-same"

    world = place(node("n1"), csi_node("n1", 1), copies, user("p0", "d0"), user("p1", "d1"))

    assert len(bound(world)) == 2


def test_unbound_claims_count_for_the_driver_of_their_storage_class() -> None:
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


def test_a_disk_counts_until_it_is_detached() -> None:
    attachment = {
        "apiVersion": STORAGE,
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "d0"}},
    }

    world = place(node("n1"), csi_node("n1", 1), disk("d0"), disk("d1"), attachment, user("p", "d1"))

    assert FULL in reason_of(world, "p")


def test_disks_of_in_tree_plugins_count_for_the_csi_driver() -> None:
    drive = {"name": "v", "awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}
    copy = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    other = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-2"}}

    world = place(
        node("n1"),
        csi_node("n1", 1, driver="ebs.csi.aws.com"),
        [pod(name, "1c", "g", volumes=[source]) for name, source in (("a", drive), ("b", copy), ("c", other))],
    )

    assert bound(world) == ["a", "b"]


def test_a_discarded_gang_releases_its_attachments() -> None:
    disks = [o for i in range(3) for o in disk(f"d{i}")]
    big = [group("big", minimum=2), *(user(f"b{i}", f"d{i}", group="big") for i in range(2))]

    world = place(node("n1"), csi_node("n1", 1), disks, big, user("p", "d2"))

    assert bound(world) == ["p"]


def test_nodes_without_the_driver_are_rejected_if_other_nodes_have_it() -> None:
    world = place([node("n1"), node("n2")], csi_node("n2"), disk("d"), user("p", "d"))

    assert node_of(world, "p") == "n2"


def test_the_reason_names_the_driver_that_is_not_installed() -> None:
    world = place([node("n1"), node("n2", "0.5c")], csi_node("n2"), disk("d"), user("p", "d"))

    assert f"1 {DRIVER} CSI driver is not installed on the node" in reason_of(world, "p")


def test_a_driver_that_no_node_reports_rejects_no_node() -> None:
    assert node_of(place(node("n1"), disk("d"), user("p", "d")), "p") == "n1"


def test_without_node_volume_limits_no_node_is_rejected() -> None:
    conf = limited(**{"predicate.NodeVolumeLimitsEnable": False})

    world = place(node("n1"), csi_node("n1", 0), disk("d"), user("p", "d"), conf=conf)

    assert node_of(world, "p") == "n1"


def test_a_disk_that_another_claim_attaches_is_attached_for_a_class_that_was_asked_about_before() -> None:
    copies = [*disk("d0"), *disk("d1")]
    for copy in copies:
        if copy["kind"] == "PersistentVolume":
            copy["spec"]["csi"]["volumeHandle"] = "the-same"
    objects = storage_class(), node("n1"), csi_node("n1", 1), group("g"), copies, user("p0", "d0"), user("p1", "d1")
    session = World(*objects).session(CONF)
    job = session.jobs["default/g"]
    first, second = sorted(job.of(TaskStatus.PENDING).values(), key=lambda task: task.name)
    before = session.view_key(second.cls, job)

    session.statement().allocate(job, [first], [0])

    assert session.view_key(second.cls, job) != before
    assert session.view(second.cls, job).admits(0)
