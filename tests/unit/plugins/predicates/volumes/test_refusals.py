"""Claims that no Pod can use, and the reasons in the conditions of their Pods."""

import pytest

from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.plugins.predicates.volumes.claims import (
    CONF,
    claim,
    limited,
    node_of,
    reason_of,
    storage_class,
    user,
    volume,
    volume_of,
)

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def place(*objects: Raw | list[Raw]) -> World:
    return World(node("n1"), storage_class(), group("g"), *objects).run(CONF)


def immediate(name: str) -> Raw:
    return {**storage_class(name), "volumeBindingMode": "Immediate"}


def deleting(wanted: Raw) -> Raw:
    return {**wanted, "metadata": {**wanted["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", volumeName="gone")], 'persistentvolume "gone" not found'),
        (
            [claim("c", volumeName="gone", annotations=BOUND)],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"',
        ),
        ([deleting(claim("c"))], 'persistentvolumeclaim "c" is being deleted'),
        ([immediate("now"), claim("c", cls="now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", cls="nowhere")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", cls="")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [volume("v", claimRef={"namespace": "default", "name": "other"}), claim("c", volumeName="v")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
    ids=["missing", "no volume", "lost", "deleting", "immediate", "unknown class", "no class", "volume of another"],
)
def test_a_pod_with_an_unusable_claim_waits_and_its_condition_gives_the_reason(objects: list[Raw], reason: str) -> None:
    world = place(objects, user("p", "c"))

    assert node_of(world, "p") == ""
    assert reason_of(world, "p") == f"0/1 nodes are unavailable: 1 {reason}."


def test_a_pod_with_an_immediate_claim_is_scheduled_once_the_claim_is_bound() -> None:
    world = place(immediate("now"), volume("v", cls="now"), claim("c", cls="now"), user("p", "c"))

    assert (node_of(world, "p"), volume_of(world, "c")) == ("n1", "v")


def test_the_deprecated_annotation_can_name_the_storage_class() -> None:
    old = claim("c", cls="nowhere", annotations={"volume.beta.kubernetes.io/storage-class": "late"})

    assert node_of(place(volume("v"), old, user("p", "c")), "p") == "n1"


def test_without_volume_binding_unbound_claims_are_ignored() -> None:
    conf = limited(**{"predicate.VolumeBindingEnable": False})

    world = World(node("n1"), group("g"), storage_class(), claim("c"), user("p", "c")).run(conf)

    assert node_of(world, "p") == "n1"


def test_without_volume_filters_claims_are_ignored() -> None:
    names = ("NodeVolumeLimits", "VolumeZone", "VolumeBinding")
    conf = limited(**{f"predicate.{name}Enable": False for name in names})

    assert node_of(World(node("n1"), group("g"), user("p", "missing")).run(conf), "p") == "n1"


# --- ephemeral volumes ---
def ephemeral(name: str) -> Raw:
    spec = claim("x")["spec"]
    return pod(name, "1c", "g", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])


def test_an_ephemeral_volume_uses_the_claim_that_its_pod_owns() -> None:
    world = place(volume("v"), ephemeral("p"))

    assert (node_of(world, "p"), volume_of(world, "p-scratch")) == ("n1", "v")


def test_an_ephemeral_volume_does_not_use_a_claim_that_its_pod_does_not_own() -> None:
    world = place(volume("v"), claim("p-scratch"), ephemeral("p"))

    assert "PVC default/p-scratch was not created for the pod (pod is not owner)" in reason_of(world, "p")


def test_a_pod_waits_until_the_claim_of_its_ephemeral_volume_exists() -> None:
    made = ephemeral("p")
    made["spec"]["volumes"][0]["ephemeral"] = {}

    world = place(made)

    wanted = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert wanted in reason_of(world, "p")


def test_without_filters_claims_are_bound_and_a_pod_waits_if_its_node_has_no_volume() -> None:
    unfiltered = configuration({"gang": {}}, {"predicates": {"enablePredicate": False}})
    elsewhere = user("p", "c")
    elsewhere["spec"]["nodeSelector"] = {"disk": "ssd"}
    world = World(node("n1"), storage_class(), group("g"), volume("v", on=["n1"]), claim("c"), elsewhere)
    world.run(unfiltered)
    assert (node_of(world, "p"), volume_of(world, "c")) == ("n1", "v")

    world = World(
        [node("n1"), node("n2")], storage_class(), group("g"), volume("v", on=["n2"]), claim("c"), user("p", "c")
    )
    world.run(unfiltered)
    assert (node_of(world, "p"), volume_of(world, "c")) == ("", "")
    assert reason_of(world, "p") == "node(s) didn't find available persistent volumes to bind: n1"
