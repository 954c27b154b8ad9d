"""Provisioned volumes for claims that wait for their Pod: for which nodes, with which storage capacity, and what
happens to Pods whose volume is not provisioned."""

from typing import Any

import pytest

from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.predicates.volumes.claims import (
    CONF,
    DRIVER,
    NO_VOLUME,
    STORAGE,
    ZONE,
    claim,
    csi_node,
    limited,
    node_of,
    reason_of,
    storage_class,
    user,
    volume,
    volume_of,
)

SELECTED = "volume.kubernetes.io/selected-node"


def place(*objects: Raw | list[Raw], cycles: int = 1, kubelet: bool = True, conf: Any = CONF) -> World:
    return World(*objects).run(conf, cycles, kubelet=kubelet)


def selected(world: World, name: str) -> str:
    """The selected node of a claim."""
    return str((world.get("PersistentVolumeClaim", name)["metadata"].get("annotations") or {}).get(SELECTED, ""))


def test_a_volume_is_provisioned_for_the_pods_node_before_the_pod_is_bound() -> None:
    world = place(node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g"), user("p", "c"))

    assert selected(world, "c") == node_of(world, "p") == "n1"
    assert volume_of(world, "c").startswith("pvc-")


def test_until_the_volume_is_provisioned_the_pod_holds_its_node_and_is_not_bound() -> None:
    objects = (node("n1", "1c"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), [group("g"), group("h")])

    world = place(*objects, user("p", "c"), kubelet=False)

    assert selected(world, "c") == "n1"
    assert node_of(world, "p") == ""
    assert not world.run(CONF).decisions.binds


def test_a_gang_with_a_pod_that_waits_for_its_volume_is_bound_as_a_whole_or_not_at_all() -> None:
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=2))

    world = place(*objects, user("p1", "c"), pod("p2", "1c", "g"), kubelet=False)

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    world.cluster.run_kubelet()
    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "n1")


def test_a_pod_beyond_the_minimum_does_not_delay_the_gang() -> None:
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=1))

    world = place(*objects, pod("p1", "1c", "g", priority=5), user("p2", "c"), kubelet=False)

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "")


def test_a_volume_that_is_not_provisioned_in_time_is_reported_and_the_pod_is_scheduled_again() -> None:
    conf = limited(**{"volumebinding.bindTimeoutSeconds": 3})
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=2))

    world = place(*objects, user("p1", "c"), pod("p2", "1c", "g"), kubelet=False, cycles=4, conf=conf)

    why = "timed out after 3 s waiting for persistentvolumeclaim default/c to be bound"
    assert reason_of(world, "p1") == f"execute preBind for pod default/p1 failed: {why}, resync the task"
    assert reason_of(world, "p2").startswith("execute preBind for pod default/p2 failed: pod default/p1 of its gang: ")
    assert world.events("FailedScheduling")[-1] == reason_of(world, "p1")
    world.run(conf, 2, kubelet=True)
    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "n1")


def test_a_storage_class_without_a_provisioner_needs_an_existing_volume() -> None:
    world = place(node("n1"), storage_class(), claim("c"), group("g"), user("p", "c"))

    assert NO_VOLUME in reason_of(world, "p")


def test_an_existing_volume_is_preferred_to_provisioning() -> None:
    world = place(
        node("n1"),
        storage_class("dyn", DRIVER),
        volume("v", cls="dyn"),
        claim("c", cls="dyn"),
        group("g"),
        user("p", "c"),
    )

    assert volume_of(world, "c") == "v"
    assert not selected(world, "c")


def test_volumes_are_provisioned_in_the_allowed_topologies_of_the_class() -> None:
    nodes = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"})]

    world = place(nodes, storage_class("dyn", DRIVER, "b"), claim("c", cls="dyn"), group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"


def test_a_pod_waits_if_no_node_is_in_the_allowed_topologies() -> None:
    world = place(
        node("n1", labels={ZONE: "a"}),
        storage_class("dyn", DRIVER, "b"),
        claim("c", cls="dyn"),
        group("g"),
        user("p", "c"),
    )

    assert f"1 {NO_VOLUME}" in reason_of(world, "p")


def test_a_claim_with_a_selected_node_restricts_its_pod_to_that_node() -> None:
    known = claim("c", cls="dyn", annotations={SELECTED: "n2"})

    world = place([node("n1"), node("n2")], storage_class("dyn", DRIVER), known, group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"


def test_a_pod_waits_if_the_selected_node_of_its_claim_was_deleted() -> None:
    lost = claim("c", cls="dyn", annotations={SELECTED: "gone"})

    world = place(node("n1"), storage_class("dyn", DRIVER), lost, group("g"), user("p", "c"), kubelet=False)

    assert NO_VOLUME in reason_of(world, "p")


# --- storage capacity ---
def driver(publishes: bool = True) -> Raw:
    return {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": publishes},
    }


def left(name: str, on: str | None, size: str, largest: str | None = None) -> Raw:
    """A CSIStorageCapacity of the class ``dyn`` for a node (None: without a node topology)."""
    where = {} if on is None else {"nodeTopology": {"matchLabels": {"kubernetes.io/hostname": on}}}
    return {
        "apiVersion": STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": "dyn",
        "capacity": size,
        **where,
        **({"maximumVolumeSize": largest} if largest else {}),
    }


def with_storage(*objects: Raw) -> World:
    nodes = [node("n1"), node("n2")]
    return place(
        nodes, storage_class("dyn", DRIVER), claim("c", "5Gi", "dyn"), group("g"), user("p", "c"), list(objects)
    )


def test_a_pod_is_scheduled_to_a_node_with_enough_storage_capacity() -> None:
    world = with_storage(driver(), left("a", "n1", "4Gi"), left("b", "n2", "5Gi"))

    assert node_of(world, "p") == "n2"


@pytest.mark.parametrize(
    "capacities",
    [
        [left("a", "n1", "4Gi")],
        [left("a", "n1", "100Gi", largest="4Gi")],
        [left("a", None, "100Gi")],
        [left("a", "elsewhere", "100Gi")],
        [left("a", "n1", "plenty")],
        [],
    ],
    ids=["too little", "no volume so large", "nowhere", "on no node here", "no quantity", "no capacity"],
)
def test_a_pod_waits_if_no_node_has_enough_storage_capacity(capacities: list[Raw]) -> None:
    world = with_storage(driver(), *capacities)

    assert node_of(world, "p") == ""
    assert "2 node(s) did not have enough free storage" in reason_of(world, "p")


def test_a_driver_that_publishes_no_storage_capacity_always_has_enough() -> None:
    world = with_storage(driver(publishes=False), left("a", "n1", "1Gi"))

    assert node_of(world, "p") == "n1"


def test_storage_capacity_with_an_empty_node_topology_applies_to_all_nodes() -> None:
    everywhere = left("a", None, "100Gi")
    everywhere["nodeTopology"] = {}

    assert node_of(with_storage(driver(), everywhere), "p") == "n1"


# --- shared claims ---
def shared(mode: str, *csi_nodes: Raw) -> World:
    """A gang of two Pods that share a claim, on two nodes with one cpu each."""
    nodes = [node(f"n{i}", "1c", {ZONE: zone}) for i, zone in enumerate("ab", 1)]
    objects = (
        nodes,
        list(csi_nodes),
        storage_class("dyn", DRIVER),
        claim("c", cls="dyn", mode=mode),
        group("g", minimum=2),
    )
    return place(*objects, user("p1", "c"), user("p2", "c"))


def test_a_gang_shares_a_provisioned_volume_on_nodes_that_will_have_access_to_it() -> None:
    world = shared("ReadWriteMany", csi_node("n1"), csi_node("n2"))

    assert {node_of(world, "p1"), node_of(world, "p2")} == {"n1", "n2"}


def test_a_gang_cannot_share_a_provisioned_volume_across_zones() -> None:
    world = shared("ReadWriteMany", csi_node("n1", keys=[ZONE]), csi_node("n2", keys=[ZONE]))

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    assert not selected(world, "c")


def test_without_topology_keys_a_gang_shares_a_provisioned_volume_on_one_node_only() -> None:
    assert node_of(shared("ReadWriteMany"), "p1") == ""


def test_a_read_write_once_volume_is_not_shared_by_pods_on_two_nodes() -> None:
    assert node_of(shared("ReadWriteOnce", csi_node("n1"), csi_node("n2")), "p1") == ""


def test_pods_on_one_node_share_a_provisioned_volume() -> None:
    world = place(
        node("n1", "2c"),
        storage_class("dyn", DRIVER),
        claim("c", cls="dyn"),
        group("g", minimum=2),
        user("p1", "c"),
        user("p2", "c"),
    )

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "n1")
    first, second = world.decisions.binds
    assert first.preparations[0] is second.preparations[0]
