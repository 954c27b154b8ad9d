"""Gates and changes for claims and volumes."""

from scheduler.framework.remedies.gates import GateKind
from tests.builders import Raw, group, node, pod
from tests.unit.explain.small_clusters import LARGE, changes, explained
from tests.unit.plugins.predicates.volumes.claims import (
    DRIVER,
    STORAGE,
    claim,
    csi_node,
    disk,
    storage_class,
    user,
    volume,
)

NODES = (node("n1"), node("n2"))


def volume_gates(*objects: Raw | list[Raw]) -> list[str]:
    """The volume gates of group ``g``."""
    return [gate.message for gate in explained("podgroup", "g", *objects).gates if gate.kind is GateKind.VOLUMES]


def test_suggests_creating_a_missing_claim() -> None:
    objects = (*NODES, group("g"), user("p", "data"))
    assert volume_gates(*objects) == ["p: claim data does not exist (volumes let it onto 0 of 2 nodes)"]
    assert changes("g", *objects) == ["create PersistentVolumeClaim default/data, and a volume for it"]


def test_suggests_a_volume_for_a_claim_whose_storage_class_is_missing() -> None:
    objects = (*NODES, claim("data", "10Gi", "gone"), group("g"), user("p", "data"))
    assert volume_gates(*objects) == [
        "p: claim data asks for 10Gi of class gone: no such volume is free, and there is no StorageClass gone "
        "(volumes let it onto 0 of 2 nodes)"
    ]
    assert changes("g", *objects) == ["1 volume more of 10Gi of class gone, ReadWriteOnce (for claim default/data)"]


def test_suggests_as_many_volumes_as_the_gang_lacks() -> None:
    claims = [claim(f"d{i}", "10Gi") for i in range(3)]
    users = [user(f"p{i}", f"d{i}") for i in range(3)]
    there = [volume("small", "5Gi"), volume("large", "10Gi")]
    objects = (*NODES, storage_class(), claims, there, group("g", minimum=3), users)
    assert volume_gates(*objects) == [
        "p1: claim d1 asks for 10Gi of class late: 2 such volumes are free, the largest of 10Gi, and no provisioner "
        "makes more (volumes let it onto 0 of 2 nodes)"
    ]
    assert changes("g", *objects) == [
        "2 volumes more of 10Gi of class late, ReadWriteOnce (for claims default/d1, default/d2)"
    ]


def test_suggests_a_volume_with_the_name_that_the_claim_requests() -> None:
    it = explained(
        "podgroup", "g", *NODES, claim("data", "2Gi", volumeName="wanted"), storage_class(), group("g"),
        user("p", "data"), search=True,
    )  # fmt: skip
    assert [document["metadata"]["name"] for document in it.changes[0].documents] == ["wanted"]


def test_suggests_storage_where_a_driver_has_too_little_capacity() -> None:
    driver: Raw = {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": True},
    }
    left: Raw = {
        "apiVersion": STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "left", "namespace": "default"},
        "storageClassName": "fast",
        "capacity": "5Gi",
        "nodeTopology": {},
    }
    objects = (
        *NODES, storage_class("fast", DRIVER), driver, left, claim("data", "8Gi", "fast"), group("g"), user("p", "data")
    )  # fmt: skip
    assert volume_gates(*objects) == [
        "p: claim data asks for 8Gi of class fast: no such volume is free, and csi.example.com makes more of up to "
        "5Gi, by its CSIStorageCapacities (volumes let it onto 0 of 2 nodes)"
    ]
    assert (
        changes("g", *objects)[0] == "3Gi more storage of class fast (capacity of CSIStorageCapacity default/left 8Gi)"
    )


def test_suggests_a_higher_attach_limit_or_another_node() -> None:
    objects = (
        node("n1"), csi_node("n1", 1), storage_class("fast", DRIVER), claim("data", "8Gi", "fast"),
        disk("old", cls="fast"), group("h"), user("h", "old", group="h", on="n1"), group("g"), user("p", "data"),
    )  # fmt: skip
    assert volume_gates(*objects)[1] == (
        "p: needs 1 attached; 1 nodes have fewer places left than that for volumes of csi.example.com, most are left: "
        "0 of 1 on node n1"
    )
    assert changes("g", *objects)[:2] == [
        "room for 1 more volume of driver csi.example.com on node n1 (2 in all)",
        "1 node like n1 more",
    ]


def test_suggests_freeing_the_node_of_a_local_volume() -> None:
    bound = claim("data", volumeName="v", annotations={"pv.kubernetes.io/bind-completed": "yes"})
    local = volume("v", on=["n1"], claimRef={"namespace": "default", "name": "data"})
    objects = (
        *NODES, storage_class(), bound, local, group("h"), pod("h", "3c", "h", on="n1"), group("g"),
        user("p", "data", asks="2c"),
    )  # fmt: skip
    assert volume_gates(*objects) == ["p: claim data is bound to volume v (volumes let it onto 1 of 2 nodes)"]
    assert changes("g", *LARGE, *objects)[0] == "1 cpu more on node n1"


def test_claims_that_every_node_can_serve_are_not_a_gate() -> None:
    objects = (*NODES, storage_class("fast", DRIVER), claim("data", "8Gi", "fast"), group("g"))
    full = user("p", "data", asks="9c")
    assert volume_gates(*objects, full) == []
    assert changes("g", *LARGE, *objects, full)[0] == "5 cpu more on node n1"
