"""The plugin capacity: limits of devices, and of their capacity, that a queue may claim."""

import pytest

from scheduler.api.names import CHARGED_QUEUE
from scheduler.cluster.memory.resource_claims import sync_claims
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, pod, pods, queue
from tests.device_builders import (
    claim,
    device,
    device_class,
    gpus,
    named,
    request,
    resource_slice,
    template,
    templated,
)

ONE = template("one", request())
NIC = device("nic", None, {"bandwidth": "10G"}, allowMultipleAllocations=True)


def conf(*, hierarchy: bool = False, **arguments: bool) -> Configuration:
    return configuration(
        {"gang": {}},
        {"predicates": {}, "nodeorder": {}, "capacity": {"enableHierarchy": hierarchy}},
        arguments={"capacity": {f"capacity.{name}": value for name, value in arguments.items()}},
    )


def world(*objects: Raw | list[Raw]) -> World:
    made = World(device_class(), node("n1", "64c+64Gi"), *objects)
    sync_claims(made.cluster.server)
    return made


def gang(name: str, number: int, minimum: int, in_queue: str, claims: list[Raw], asks: str | None = None) -> list[Raw]:
    return [group(name, in_queue, minimum, asks=asks), *pods(name, number, "1c", name, resourceClaims=claims)]


def asks(bandwidth: str) -> Raw:
    return template("share", request(capacity={"requests": {"bandwidth": bandwidth}}))


def why(world: World, name: str) -> str:
    conditions = world.get("PodGroup", name)["status"].get("conditions") or []
    return " ".join([c.get("message", "") for c in conditions] + world.events("Unschedulable"))


# --- numbers of devices ---
def test_the_capability_of_a_queue_limits_its_devices() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        ONE,
        gang("g", 4, 1, "q", templated("one")),
    ).run(conf(), 3)

    bound = [o for o in ran.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    assert len(bound) == 2
    assert any("deviceclass/gpu: asked 1, used 2, limit 2" in text for text in ran.events("FailedScheduling"))


@pytest.mark.parametrize("capability", ["", "deviceclass/other=1", "deviceclass/gpu=0"])
def test_a_device_class_without_a_limit_or_with_limit_zero_is_unlimited(capability: str) -> None:
    ran = world(
        resource_slice(gpus(4), "n1"), queue("q", capability=capability), ONE, gang("g", 4, 4, "q", templated("one"))
    ).run(conf())

    assert len(ran.bound) == 4


def test_deserved_devices_are_no_limit() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", deserved="deviceclass/gpu=1+8c"),
        ONE,
        gang("g", 4, 4, "q", templated("one")),
    ).run(conf())

    assert len(ran.bound) == 4


def test_the_device_limit_of_an_ancestor_applies_to_the_sum_of_its_descendants() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("top", parent="root", capability="deviceclass/gpu=3"),
        queue("a", parent="top"),
        queue("b", parent="top"),
        ONE,
        gang("ga", 2, 1, "a", templated("one")),
        gang("gb", 2, 1, "b", templated("one")),
    ).run(conf(hierarchy=True), 4)

    bound = [o for o in ran.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    assert len(bound) == 3
    assert any("queue top, above" in text for text in ran.events("FailedScheduling"))


def test_a_claim_that_pods_share_counts_once() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        claim("c", request(count=2)),
        gang("g", 3, 3, "q", named("c")),
    ).run(conf())

    assert len(ran.bound) == 3


def test_requests_for_all_devices_or_with_alternatives_do_not_count() -> None:
    ran = world(
        resource_slice(gpus(2), "n1"),
        queue("q", capability="deviceclass/gpu=1"),
        template("all", request(allocationMode="All")),
        gang("g", 1, 1, "q", templated("all")),
    ).run(conf())

    assert len(ran.bound) == 1


# --- admission ---
def test_a_gang_whose_minimum_exceeds_the_device_limit_is_not_admitted_and_gets_the_numbers() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        ONE,
        gang("g", 3, 3, "q", templated("one"), asks="3c"),
    ).run(conf())

    assert ran.phase("g") == "Pending"
    text = "queue resource quota insufficient: insufficient deviceclass/gpu"
    assert f"{text} (queue q; deviceclass/gpu: asked 3, used or reserved 0, limit 2)" in why(ran, "g")


def test_devices_of_admitted_jobs_count_for_the_next_admission() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=3"),
        ONE,
        gang("a", 2, 2, "q", templated("one"), asks="2c"),
        gang("b", 2, 2, "q", templated("one"), asks="2c"),
    ).run(conf())

    assert (ran.phase("a"), ran.phase("b")) == ("Inqueue", "Pending")


def test_a_claim_shared_by_a_gang_counts_once_at_admission() -> None:
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=1"),
        claim("c", request()),
        gang("g", 3, 3, "q", named("c"), asks="3c"),
    ).run(conf())

    assert len(ran.bound) == 3


# --- amounts of capacity ---
def test_the_capability_of_a_queue_limits_device_capacity() -> None:
    ran = world(
        resource_slice([NIC], "n1"),
        queue("q", capability="bandwidth.deviceclass/gpu=5G"),
        asks("2G"),
        gang("g", 4, 1, "q", templated("share")),
    ).run(conf(), 3)

    bound = [o for o in ran.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    assert len(bound) == 2
    assert any("bandwidth.deviceclass/gpu: asked 2G, used 4G, limit 5G" in t for t in ran.events("FailedScheduling"))


def test_a_dimension_missing_in_the_limit_of_its_class_is_refused() -> None:
    ran = world(
        resource_slice([NIC], "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        asks("1G"),
        gang("g", 1, 1, "q", templated("share")),
    ).run(conf())

    assert ran.bound == {}


@pytest.mark.parametrize(
    ("argument", "bound"), [("DynamicResourceAllocationEnable", 4), ("DRAConsumableCapacityEnable", 3)]
)
def test_device_limits_can_be_disabled(argument: str, bound: int) -> None:
    limits = queue("q", capability="deviceclass/gpu=3+bandwidth.deviceclass/gpu=1G")
    ran = world(resource_slice([NIC], "n1"), limits, asks("1G"), gang("g", 4, 1, "q", templated("share")))

    ran.run(conf(**{argument: False}), 4)

    pods = [o for o in ran.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    assert len(pods) == bound


def test_a_claim_with_an_invalid_amount_is_reported_and_not_counted() -> None:
    ran = world(
        resource_slice(gpus(2), "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        asks("much"),
        gang("g", 1, 1, "q", templated("share")),
    ).run(conf())

    assert any("spec.devices.requests" in text for text in ran.events("Malformed"))


# --- messages ---
def test_the_status_of_a_queue_and_its_ancestors_lists_allocated_devices() -> None:
    ran = world(resource_slice(gpus(2), "n1"), queue("q"), ONE, gang("g", 2, 2, "q", templated("one")))
    ran.run(configuration(["gang"], ["predicates"]), 2)

    for name in ("q", "root"):
        assert ran.get("Queue", name)["status"]["allocated"]["deviceclass/gpu"] == "2"


def test_devices_of_pods_without_a_queue_count_in_the_queue_that_their_namespace_is_charged_to() -> None:
    old = pod("old", "1c", on="n1", scheduler="default-scheduler", resourceClaims=named("c"))
    charged = {"metadata": {"name": "default", "annotations": {CHARGED_QUEUE: "q"}}}
    ran = world(
        resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=2"),
        claim("c", request()),
        ONE,
        {"apiVersion": "v1", "kind": "Namespace", **charged},
        old,
        gang("g", 3, 1, "q", templated("one")),
    ).run(conf(), 3)

    bound = [o["metadata"]["name"] for o in ran.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    assert len(bound) == 2 and "old" in bound
    assert ran.get("Queue", "q")["status"]["allocated"]["deviceclass/gpu"] == "2"
