"""Claims that wait for their Pod and get a volume that is there: which one, where, and never one for two."""

import pytest

from scheduler.api.decisions import Decisions
from scheduler.framework.cycle import run_cycle
from tests.builders import Raw, World, feed, group, manifests, node
from tests.unit.plugins.predicates.volumes.stock import (
    CONF,
    DRIVER,
    MANY,
    claim,
    node_of,
    reason_of,
    storage_class,
    user,
    volume,
    volume_of,
)

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def place(*objects: Raw | list[Raw], cycles: int = 1) -> World:
    return World(storage_class(), *objects).run(CONF, cycles)


def assume(world: World) -> Decisions:
    """A cycle of which nothing is carried out yet."""
    cache = world.cluster.cache
    decisions = run_cycle(cache.snapshot(world.cluster.now), CONF).decisions
    cache.assume(decisions)
    return decisions


def test_a_pod_goes_where_a_volume_for_its_claim_is_and_claim_and_volume_are_bound() -> None:
    world = place([node("n1"), node("n2")], volume("v", on=["n2"]), claim("c"), group("g"), user("p", "c"))

    assert node_of(world, "p") == "n2"
    assert volume_of(world, "c") == "v"
    assert world.cluster.get("v1", "PersistentVolume", "", "v")["spec"]["claimRef"]["name"] == "c"  # type: ignore[index]


def test_of_the_volumes_that_are_large_enough_the_smallest_is_taken() -> None:
    stock = [volume("a", "10Gi"), volume("b", "5Gi"), volume("d", "1Gi")]

    world = place(node("n1"), stock, claim("c", "4Gi"), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "b"


def test_of_two_claims_of_a_pod_the_smaller_is_served_first() -> None:
    stock = [volume("v5", "5Gi"), volume("v9", "9Gi")]

    world = place(node("n1"), stock, claim("big", "8Gi"), claim("small"), group("g"), user("p", "big", "small"))

    assert (volume_of(world, "big"), volume_of(world, "small")) == ("v9", "v5")


def test_all_claims_of_a_pod_have_to_be_served_on_one_node() -> None:
    stock = [volume("a", on=["n1"]), volume("b", on=["n2"]), volume("d", on=["n2"])]

    world = place([node("n1"), node("n2")], stock, claim("c1"), claim("c2"), group("g"), user("p", "c1", "c2"))

    assert node_of(world, "p") == "n2"
    assert {volume_of(world, "c1"), volume_of(world, "c2")} == {"b", "d"}


def test_two_members_of_a_gang_are_not_promised_one_volume() -> None:
    world = place(
        node("n1"), volume("v"), claim("c1"), claim("c2"), group("g", minimum=2), user("p1", "c1"), user("p2", "c2")
    )

    assert (node_of(world, "p1"), node_of(world, "p2")) == ("", "")
    assert (volume_of(world, "c1"), volume_of(world, "c2")) == ("", "")
    assert NO_VOLUME in reason_of(world, "p2")


def test_what_a_gang_that_failed_was_promised_is_free_for_the_next() -> None:
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


def test_two_jobs_of_one_session_are_not_promised_one_volume() -> None:
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


def test_a_volume_promised_by_a_binding_that_still_waits_is_not_promised_again() -> None:
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


def test_another_pod_with_the_same_claim_follows_the_promise_that_still_waits() -> None:
    nodes = [node("n1"), node("n2")]
    world = World(storage_class(), nodes, volume("v", on=["n2"]), claim("c"), [group("g"), group("h")], user("p", "c"))
    assume(world)
    world.cluster.load(manifests(user("q", "c", group="h")))

    (bind,) = assume(world).binds

    assert (bind.task.name, bind.node) == ("q", "n2")
    assert len(bind.preparations) == 2


@pytest.mark.parametrize(
    ("stock", "wanted"),
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
    ids=["access mode", "volume mode", "size", "class", "attributes class", "selector", "kept for another", "reach"],
)
def test_a_volume_that_is_not_what_is_asked_for_is_none(stock: Raw, wanted: Raw) -> None:
    world = place(node("n1"), stock, wanted, group("g"), user("p", "c"))

    assert node_of(world, "p") == ""
    assert f"1 {NO_VOLUME}" in reason_of(world, "p")


def test_a_selector_picks_volumes_by_their_labels() -> None:
    stock = [volume("a", labels={"tier": "a"}), volume("b", labels={"tier": "b"})]

    world = place(node("n1"), stock, claim("c", selector={"matchLabels": {"tier": "b"}}), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "b"


def test_a_volume_that_is_kept_for_the_claim_is_taken_though_a_smaller_one_is_free() -> None:
    kept = volume("kept", "9Gi", on=["n2"], claimRef={"namespace": "default", "name": "c"})

    world = place(
        [node("n1"), node("n2")], volume("free", on=["n1"]), kept, claim("c", cls="late"), group("g"), user("p", "c")
    )

    assert (node_of(world, "p"), volume_of(world, "c")) == ("n2", "kept")


def test_a_volume_that_is_kept_for_the_claim_and_out_of_reach_is_waited_for() -> None:
    kept = volume("kept", cls="dyn", on=["gone"], claimRef={"namespace": "default", "name": "c", "uid": "u"})
    known = claim("c", cls="dyn")
    known["metadata"]["uid"] = "u"
    known["status"] = {"phase": "Pending"}
    world = World(node("n1"), storage_class("dyn", DRIVER), known, group("g"), user("p", "c"))
    feed(world.cluster.cache, {**kept, "status": {"phase": "Bound"}})

    assert not assume(world).binds


def test_a_selector_that_makes_no_sense_is_told_and_the_pod_waits() -> None:
    odd = claim("c", selector={"matchExpressions": [{"key": "tier", "operator": "Near"}]})

    world = place(node("n1"), volume("v"), odd, group("g"), user("p", "c"))

    assert node_of(world, "p") == ""
    assert "a selector that makes no sense" in reason_of(world, "p")
    assert world.events("Malformed") == ["spec.selector: tier: operator 'Near' is not known; ignored"]


def test_a_volume_of_an_odd_size_is_told_and_the_others_serve() -> None:
    world = place(node("n1"), volume("odd", "plenty"), volume("v"), claim("c"), group("g"), user("p", "c"))

    assert volume_of(world, "c") == "v"
    assert world.events("Malformed") == ["spec.capacity: not a quantity: 'plenty'; ignored"]
