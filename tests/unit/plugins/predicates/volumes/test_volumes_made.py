"""Claims that wait for their Pod and get a volume that is made: where, with what is left there, and what becomes of
Pods whose volume does not come."""

from typing import Any

import pytest

from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.predicates.volumes.stock import (
    CONF,
    DRIVER,
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

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
SELECTED = "volume.kubernetes.io/selected-node"


def place(*objects: Raw | list[Raw], cycles: int = 1, kubelet: bool = True, conf: Any = CONF) -> World:
    return World(*objects).run(conf, cycles, kubelet=kubelet)


def selected(world: World, name: str) -> str:
    """The node that a volume is to be made for."""
    return str((world.get("PersistentVolumeClaim", name)["metadata"].get("annotations") or {}).get(SELECTED, ""))


def test_a_volume_is_made_for_the_pods_node_before_the_pod_is_bound() -> None:
    world = place(node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g"), user("p", "c"))

    assert selected(world, "c") == node_of(world, "p") == "n1"
    assert volume_of(world, "c").startswith("pvc-")


def test_while_nobody_makes_the_volume_the_pod_has_its_place_and_is_not_bound() -> None:
    objects = (node("n1", "1c"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), [group("g"), group("h")])

    world = place(*objects, user("p", "c"), kubelet=False)

    assert selected(world, "c") == "n1"
    assert node_of(world, "p") == ""
    assert not world.run(CONF).decisions.binds


def test_a_gang_of_which_one_waits_for_its_volume_is_bound_as_a_whole_or_not_at_all() -> None:
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=2))

    world = place(*objects, user("p1", "c"), pod("p2", "1c", "g"), kubelet=False)

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    world.cluster.run_kubelet()
    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "n1")


def test_a_pod_beyond_the_minimum_holds_up_nobody() -> None:
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=1))

    world = place(*objects, pod("p1", "1c", "g", priority=5), user("p2", "c"), kubelet=False)

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "")


def test_a_volume_that_does_not_come_in_time_is_told_and_the_pod_is_decided_for_anew() -> None:
    conf = limited(**{"volumebinding.bindTimeoutSeconds": 3})
    objects = (node("n1"), storage_class("dyn", DRIVER), claim("c", cls="dyn"), group("g", minimum=2))

    world = place(*objects, user("p1", "c"), pod("p2", "1c", "g"), kubelet=False, cycles=4, conf=conf)

    why = "timed out after 3 s waiting for persistentvolumeclaim default/c to be bound"
    assert reason_of(world, "p1") == f"execute preBind for pod default/p1 failed: {why}, resync the task"
    assert reason_of(world, "p2").startswith("execute preBind for pod default/p2 failed: pod default/p1 of its gang: ")
    assert world.events("FailedScheduling")[-1] == reason_of(world, "p1")
    world.run(conf, 2, kubelet=True)
    assert (node_of(world, "p1"), node_of(world, "p2")) == ("n1", "n1")


def test_a_class_that_makes_no_volumes_needs_one_that_is_there() -> None:
    world = place(node("n1"), storage_class(), claim("c"), group("g"), user("p", "c"))

    assert NO_VOLUME in reason_of(world, "p")


def test_a_volume_that_is_there_is_preferred_to_making_one() -> None:
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


def test_a_class_makes_volumes_in_the_zones_it_allows() -> None:
    nodes = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"})]

    world = place(nodes, storage_class("dyn", DRIVER, "b"), claim("c", cls="dyn"), group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"


def test_where_no_node_is_in_an_allowed_zone_the_pod_waits() -> None:
    world = place(
        node("n1", labels={ZONE: "a"}),
        storage_class("dyn", DRIVER, "b"),
        claim("c", cls="dyn"),
        group("g"),
        user("p", "c"),
    )

    assert f"1 {NO_VOLUME}" in reason_of(world, "p")


def test_a_claim_that_names_a_node_already_keeps_its_pod_there() -> None:
    known = claim("c", cls="dyn", annotations={SELECTED: "n2"})

    world = place([node("n1"), node("n2")], storage_class("dyn", DRIVER), known, group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"


def test_a_claim_that_names_a_node_that_is_gone_waits_for_its_provisioner() -> None:
    lost = claim("c", cls="dyn", annotations={SELECTED: "gone"})

    world = place(node("n1"), storage_class("dyn", DRIVER), lost, group("g"), user("p", "c"), kubelet=False)

    assert NO_VOLUME in reason_of(world, "p")


# --- what is left ---
def driver(tells: bool = True) -> Raw:
    return {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": tells},
    }


def left(name: str, on: str | None, size: str, largest: str | None = None) -> Raw:
    """What is left of class ``dyn`` on a node (None: nobody knows where)."""
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


def test_a_pod_goes_where_enough_storage_is_left() -> None:
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
    ids=["too little", "no volume so large", "nowhere", "on no node here", "no quantity", "nothing told"],
)
def test_where_no_node_has_enough_storage_left_the_pod_waits(capacities: list[Raw]) -> None:
    world = with_storage(driver(), *capacities)

    assert node_of(world, "p") == ""
    assert "2 node(s) did not have enough free storage" in reason_of(world, "p")


def test_a_driver_that_does_not_tell_what_is_left_is_taken_to_have_enough() -> None:
    world = with_storage(driver(tells=False), left("a", "n1", "1Gi"))

    assert node_of(world, "p") == "n1"


def test_storage_that_is_left_everywhere_serves_every_node() -> None:
    everywhere = left("a", None, "100Gi")
    everywhere["nodeTopology"] = {}

    assert node_of(with_storage(driver(), everywhere), "p") == "n1"


# --- claims that several Pods share ---
def shared(mode: str, *csi_nodes: Raw) -> World:
    """A gang of two on two nodes of one cpu, with one claim."""
    nodes = [node(f"n{i}", "1c", {ZONE: zone}) for i, zone in enumerate("ab", 1)]
    objects = (
        nodes,
        list(csi_nodes),
        storage_class("dyn", DRIVER),
        claim("c", cls="dyn", mode=mode),
        group("g", minimum=2),
    )
    return place(*objects, user("p1", "c"), user("p2", "c"))


def test_a_gang_shares_a_volume_that_is_still_to_be_made_on_nodes_that_will_reach_it() -> None:
    world = shared("ReadWriteMany", csi_node("n1"), csi_node("n2"))

    assert {node_of(world, "p1"), node_of(world, "p2")} == {"n1", "n2"}


def test_a_volume_that_is_made_for_one_zone_does_not_serve_a_gang_in_two() -> None:
    world = shared("ReadWriteMany", csi_node("n1", keys=[ZONE]), csi_node("n2", keys=[ZONE]))

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    assert not selected(world, "c")


def test_where_the_driver_says_nothing_of_topology_the_gang_has_to_be_on_one_node() -> None:
    assert node_of(shared("ReadWriteMany"), "p1") == ""


def test_a_volume_for_one_node_at_a_time_is_not_shared_by_two() -> None:
    assert node_of(shared("ReadWriteOnce", csi_node("n1"), csi_node("n2")), "p1") == ""


def test_pods_of_one_node_share_a_volume_that_is_made_for_it() -> None:
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
