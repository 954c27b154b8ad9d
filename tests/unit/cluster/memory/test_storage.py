"""The volume controllers and provisioners of a cluster in memory."""

from typing import Any

from scheduler.cluster.memory.storage import provision, sync_volumes
from tests.builders import Raw, World, node, pod

CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(name: str, mode: str, provisioner: str = "csi.example.com") -> Raw:
    return {**CLASS, "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def claim(name: str, cls: str, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    wanted = {"storageClassName": cls, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    meta = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**wanted, **spec}}


def volume(name: str, cls: str, size: str = "2Gi", **spec: Any) -> Raw:
    body = {"storageClassName": cls, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def phase_and_volume(world: World, name: str) -> tuple[str, str]:
    """The phase and the volume of a claim."""
    found = world.get("PersistentVolumeClaim", name)
    return found["status"]["phase"], found["spec"].get("volumeName", "")


def phase(world: World, name: str) -> str:
    found = world.cluster.get("v1", "PersistentVolume", "", name)
    assert found is not None
    return str(found["status"]["phase"])


def test_a_claim_with_immediate_binding_gets_the_smallest_volume() -> None:
    stock = [volume("large", "now", "9Gi"), volume("small", "now", "3Gi"), volume("tiny", "now", "1Gi")]

    world = World(storage_class("now", "Immediate"), stock, claim("c", "now"))

    assert phase_and_volume(world, "c") == ("Bound", "small")
    assert [phase(world, name) for name in ("large", "small", "tiny")] == ["Available", "Bound", "Available"]


def test_two_claims_do_not_get_the_same_volume() -> None:
    world = World(storage_class("now", "Immediate"), volume("v", "now"), claim("a", "now"), claim("b", "now"))

    assert [phase_and_volume(world, name) for name in ("a", "b")] == [("Bound", "v"), ("Pending", "")]


def test_a_claim_that_waits_for_a_consumer_is_not_bound_unless_a_volume_references_it() -> None:
    kept = volume("kept", "late", claimRef={"namespace": "default", "name": "b"})

    world = World(
        storage_class("late", "WaitForFirstConsumer"), volume("v", "late"), kept, claim("a", "late"), claim("b", "late")
    )

    assert [phase_and_volume(world, name) for name in ("a", "b")] == [("Pending", ""), ("Bound", "kept")]


def test_a_claim_that_names_its_volume_is_bound_to_it() -> None:
    world = World(volume("v", ""), claim("c", "", volumeName="v"))

    assert phase_and_volume(world, "c") == ("Bound", "v")


def test_a_bound_claim_without_its_volume_is_lost() -> None:
    done = {"pv.kubernetes.io/bind-completed": "yes"}

    assert phase_and_volume(World(claim("c", "", done, volumeName="gone")), "c")[0] == "Lost"


def test_a_volume_whose_claim_was_deleted_is_released() -> None:
    held = {"namespace": "default", "name": "gone", "uid": "u"}

    assert phase(World(volume("v", "", claimRef=held)), "v") == "Released"


def test_volumes_are_provisioned_immediately_or_when_a_node_is_selected() -> None:
    world = World(
        node("n1"),
        [storage_class("now", "Immediate"), storage_class("late", "WaitForFirstConsumer")],
        [claim("a", "now"), claim("b", "late"), claim("c", "late", {SELECTED: "n1"})],
    )

    assert provision(world.cluster.server) and sync_volumes(world.cluster.server)
    assert not provision(world.cluster.server)

    assert [phase_and_volume(world, name)[0] for name in ("a", "b", "c")] == ["Bound", "Pending", "Bound"]


def test_a_provisioned_volume_gets_the_topology_of_its_driver_on_the_node() -> None:
    entry = {"name": "csi.example.com", "nodeID": "n1", "topologyKeys": ["zone"]}
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": [entry]},
    }
    world = World(
        node("n1", labels={"zone": "a"}),
        csi_node,
        storage_class("late", "WaitForFirstConsumer"),
        claim("c", "late", {SELECTED: "n1"}),
    )

    provision(world.cluster.server)

    (made,) = [o for o in world.cluster.objects() if o["kind"] == "PersistentVolume"]
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def test_an_ephemeral_volume_gets_a_claim_that_is_deleted_with_its_pod() -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": claim("x", "late")["spec"]}
    world = World(pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]))

    made = world.get("PersistentVolumeClaim", "p-scratch")
    assert made["metadata"]["labels"] == {"app": "x"}
    world.cluster.server.remove(("/Pod", "default", "p"))
    assert world.cluster.get("v1", "PersistentVolumeClaim", "default", "p-scratch") is None


def test_an_invalid_claim_template_creates_no_claim() -> None:
    world = World(
        pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": 1}}}}])
    )

    assert world.cluster.get("v1", "PersistentVolumeClaim", "default", "p-scratch") is None
