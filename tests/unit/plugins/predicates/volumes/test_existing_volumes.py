"""Existing volumes for claims that wait for their Pod: which volume, on which node, and none for two claims."""

import pytest

from scheduler.api.decisions import Decisions
from scheduler.framework.cycle import run_cycle
from tests.builders import Raw, World, feed, group, manifests, node
from tests.unit.plugins.predicates.volumes.claims import (
    CONF,
    DRIVER,
    MANY,
    NO_VOLUME,
    claim,
    node_of,
    reason_of,
    storage_class,
    user,
    volume,
    volume_of,
)


def place(*objects: Raw | list[Raw], cycles: int = 1) -> World:
    return World(storage_class(), *objects).run(CONF, cycles)


def assume(world: World) -> Decisions:
    """Runs a cycle whose decisions are assumed but not carried out."""
    cache = world.cluster.cache
    decisions = run_cycle(cache.snapshot(world.cluster.now), CONF).decisions
    cache.assume(decisions)
    return decisions


def test_a_pod_is_scheduled_where_a_volume_is_accessible_and_claim_and_volume_are_bound() -> None:
    world = place([node("n1"), node("n2")], volume("v", on=["n2"]), claim("c"), group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"
    assert volume_of(world, "c") == "v"
    assert world.cluster.get("v1", "PersistentVolume", "", "v")["spec"]["claimRef"]["name"] == "c"  # type: ignore[index]


def test_a_claim_gets_the_smallest_volume_that_is_large_enough() -> None:
    stock = [volume("a", "10Gi"), volume("b", "5Gi"), volume("d", "1Gi")]

    world = place(node("n1"), stock, claim("c", "4Gi"), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "b"


def test_the_smaller_of_two_claims_of_a_pod_gets_its_volume_first() -> None:
    stock = [volume("v5", "5Gi"), volume("v9", "9Gi")]

    world = place(node("n1"), stock, claim("big", "8Gi"), claim("small"), group("g"), user("p", "big", "small"))

    assert (volume_of(world, "big"), volume_of(world, "small")) == ("v9", "v5")


def test_a_pod_is_scheduled_where_all_its_claims_get_volumes() -> None:
    stock = [volume("a", on=["n1"]), volume("b", on=["n2"]), volume("d", on=["n2"])]

    world = place([node("n1"), node("n2")], stock, claim("c1"), claim("c2"), group("g"), user("p", "c1", "c2"))

    assert node_of(world, "p") == "n2"
    assert {volume_of(world, "c1"), volume_of(world, "c2")} == {"b", "d"}


def test_two_members_of_a_gang_get_different_volumes() -> None:
    world = place(
        node("n1"), volume("v"), claim("c1"), claim("c2"), group("g", minimum=2), user("p1", "c1"), user("p2", "c2")
    )

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    assert (volume_of(world, "c1"), volume_of(world, "c2")) == ("", "")
    assert NO_VOLUME in reason_of(world, "p2")


def test_the_reservations_of_a_discarded_gang_are_released() -> None:
    big = [claim(f"c{i}") for i in range(3)]
    members = [user(f"p{i}", f"c{i}") for i in range(3)]

    world = place(
        node("n1"),
        [volume("v1"), volume("v2")],
        [*big, claim("other")],
        group("g", minimum=3),
        members,
        group("h"),
        user("q", "other", group="h"),
    )

    assert node_of(world, "q") == "n1"
    assert not any(node_of(world, f"p{i}") for i in range(3))


def test_two_jobs_of_one_session_get_different_volumes() -> None:
    world = place(
        node("n1"),
        volume("v"),
        claim("c1"),
        claim("c2"),
        [group("g"), group("h")],
        user("p", "c1"),
        user("q", "c2", group="h"),
    )

    assert (node_of(world, "p"), node_of(world, "q")) == ("n1", "")


def test_a_volume_reserved_by_a_waiting_binding_is_not_reserved_again() -> None:
    world = World(
        storage_class(), node("n1"), volume("v"), [claim("c1"), claim("c2")], [group("g"), group("h")], user("p", "c1")
    )
    first = assume(world)
    world.cluster.load(manifests(user("q", "c2", group="h")))

    second = assume(world)

    assert [bind.task.name for bind in first.binds] == ["p"]
    assert not second.binds
    world.cluster.cache.bind_failed(first.binds[0])
    assert len(assume(world).binds) == 1


def test_another_pod_with_the_same_claim_uses_the_reservation_of_a_waiting_binding() -> None:
    nodes = [node("n1"), node("n2")]
    world = World(storage_class(), nodes, volume("v", on=["n2"]), claim("c"), [group("g"), group("h")], user("p", "c"))
    assume(world)
    world.cluster.load(manifests(user("q", "c", group="h")))

    (bind,) = assume(world).binds

    assert (bind.task.name, bind.node) == ("q", "n2")
    assert len(bind.preparations) == 2


@pytest.mark.parametrize(
    ("stock", "requested"),
    [
        (volume("v"), claim("c", mode=MANY)),
        (volume("v", volumeMode="Block"), claim("c")),
        (volume("v", "1Mi"), claim("c")),
        (volume("v", cls="other"), claim("c")),
        (volume("v", volumeAttributesClassName="gold"), claim("c")),
        (volume("v", labels={"tier": "b"}), claim("c", selector={"matchLabels": {"tier": "a"}})),
        (volume("v", claimRef={"namespace": "default", "name": "other"}), claim("c")),
        (volume("v", on=["elsewhere"]), claim("c")),
    ],
    ids=[
        "access mode",
        "volume mode",
        "size",
        "class",
        "attributes class",
        "selector",
        "prebound to another",
        "accessibility",
    ],
)
def test_a_volume_that_does_not_fit_the_claim_is_not_used(stock: Raw, requested: Raw) -> None:
    world = place(node("n1"), stock, requested, group("g"), user("p", "c"))

    assert node_of(world, "p") == ""
    assert f"1 {NO_VOLUME}" in reason_of(world, "p")


def test_a_claims_selector_selects_volumes_by_label() -> None:
    stock = [volume("a", labels={"tier": "a"}), volume("b", labels={"tier": "b"})]

    world = place(node("n1"), stock, claim("c", selector={"matchLabels": {"tier": "b"}}), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "b"


def test_a_prebound_volume_is_used_although_a_smaller_one_is_available() -> None:
    prebound = volume("prebound", "9Gi", on=["n2"], claimRef={"namespace": "default", "name": "c"})

    world = place(
        [node("n1"), node("n2")],
        volume("free", on=["n1"]),
        prebound,
        claim("c", cls="late"),
        group("g"),
        user("p", "c"),
    )

    assert (node_of(world, "p"), volume_of(world, "c")) == ("n2", "prebound")


def test_a_pod_waits_for_a_prebound_volume_that_no_free_node_can_access() -> None:
    prebound = volume("prebound", cls="dyn", on=["gone"], claimRef={"namespace": "default", "name": "c", "uid": "u"})
    known = claim("c", cls="dyn")
    known["metadata"]["uid"] = "u"
    known["status"] = {"phase": "Pending"}
    world = World(node("n1"), storage_class("dyn", DRIVER), known, group("g"), user("p", "c"))
    feed(world.cluster.cache, {**prebound, "status": {"phase": "Bound"}})

    assert not assume(world).binds


def test_an_invalid_selector_is_reported_and_the_pod_waits() -> None:
    odd = claim("c", selector={"matchExpressions": [{"key": "tier", "operator": "Near"}]})

    world = place(node("n1"), volume("v"), odd, group("g"), user("p", "c"))

    assert node_of(world, "p") == ""
    assert "a selector that makes no sense" in reason_of(world, "p")
    assert world.events("Malformed") == ["spec.selector: tier: operator 'Near' is not known; ignored"]


def test_a_volume_with_an_invalid_size_is_reported_and_other_volumes_are_used() -> None:
    world = place(node("n1"), volume("odd", "plenty"), volume("v"), claim("c"), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "v"
    assert world.events("Malformed") == ["spec.capacity: not a quantity: 'plenty'; ignored"]
