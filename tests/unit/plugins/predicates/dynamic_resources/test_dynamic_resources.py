"""Pods with device claims in whole cycles: gangs, shared claims, consecutive sessions."""

from typing import Any

import pytest

from scheduler.api.decisions import Decisions
from scheduler.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.resource_claims import sync_claims
from scheduler.framework.cycle import run_cycle
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.dynamic_resources.allocation import ClaimReservation
from tests.builders import Raw, World, configuration, feed, group, manifests, node, pod, pods
from tests.device_builders import (
    allocated,
    alternatives,
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

CONF = configuration(["priority", "gang"], ["predicates", "nodeorder"])
INDEX = 'device.attributes["gpu.example.com"].index'
ONE = template("one", request())


def world(*objects: Raw | list[Raw]) -> World:
    """A cluster with the claims that are generated from the templates of Pods."""
    made = World(device_class(), *objects)
    sync_claims(made.cluster.server)
    return made


def machines(*devices: int) -> list[Raw]:
    """Nodes ``n1``, ``n2``, ... with the given numbers of devices."""
    found: list[Raw] = []
    for i, number in enumerate(devices, start=1):
        found += [node(f"n{i}", "16c+64Gi"), resource_slice(gpus(number), f"n{i}")]
    return found


def gang(number: int, minimum: int, claims: list[Raw], name: str = "g", **spec: Any) -> list[Raw]:
    return [group(name, "default", minimum), *pods(name, number, "1c", name, resourceClaims=claims, **spec)]


def given(world: World) -> dict[str, list[str]]:
    """Maps each claim to the devices of its allocation, as ``node/device``."""
    found = {}
    for raw in world.cluster.server.of(RESOURCE_CLAIM):
        allocation = (raw.get("status") or {}).get("allocation")
        if allocation:
            found[raw["metadata"]["name"]] = [f"{r['pool']}/{r['device']}" for r in allocation["devices"]["results"]]
    return found


def reserved(world: World, name: str) -> list[str]:
    raw = world.cluster.server.find(RESOURCE_CLAIM, "default", name)
    assert raw is not None
    return [reference["name"] for reference in (raw.get("status") or {}).get("reservedFor", ())]


def waits(world: World, name: str) -> str:
    """The reason in the condition of a pending Pod."""
    conditions = world.get("Pod", name)["status"].get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")


# --- gangs ---
def test_each_pod_of_a_gang_gets_its_own_devices() -> None:
    ran = world(*machines(2, 2), ONE, gang(4, 4, templated("one"))).run(CONF)

    assert sorted(d for devices in given(ran).values() for d in devices) == [
        "n1/gpu-0",
        "n1/gpu-1",
        "n2/gpu-0",
        "n2/gpu-1",
    ]
    assert all(devices[0].startswith(ran.bound[name.rsplit("-", 2)[0]]) for name, devices in given(ran).items())
    assert all(reserved(ran, name) == [name.rsplit("-", 2)[0]] for name in given(ran))


@pytest.mark.parametrize("sidecar", [False, True], ids=["init container", "sidecar"])
def test_a_claim_that_only_an_init_container_uses_is_allocated_and_counted(sidecar: bool) -> None:
    """Claims are allocated to the Pod, whatever container uses them, until it ends."""
    uses = [{"name": "i", "resources": {"claims": [{"name": "c0"}]}} | ({"restartPolicy": "Always"} if sidecar else {})]
    ran = world(*machines(1), ONE, gang(1, 1, templated("one"), initContainers=uses)).run(CONF)

    assert list(given(ran).values()) == [["n1/gpu-0"]]
    ran.cluster.load(manifests(gang(1, 1, templated("one"), "second")))
    sync_claims(ran.cluster.server)
    assert ran.run(CONF).bound == {}
    assert "asked 1, most free on one node 0" in waits(ran, "second-0")


@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_an_extended_resource_that_only_a_device_class_stands_for_is_refused_with_the_reason(
    where: str, resource: str
) -> None:
    amounts = {"cpu": "1", resource: "1"}
    asks = [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]
    standing = device_class(extendedResourceName="example.com/gpu")
    asking = [group("g"), *pods("g", 1, "1c", "g", **{where: asks})]
    ran = World(standing, *machines(1), asking).run(CONF)

    assert ran.bound == {}
    assert waits(ran, "g-0") == (
        f"0/1 nodes are unavailable: 1 no node reports {resource}, for which DeviceClass gpu stands; its devices are "
        "assigned to ResourceClaims, which the Pod has to name in spec.resourceClaims."
    )


def test_an_extended_resource_that_nodes_report_needs_no_device_class() -> None:
    standing = device_class(extendedResourceName="example.com/gpu")
    asking = [group("g"), *pods("g", 1, "1c+example.com/gpu=1", "g")]
    ran = World(standing, node("n1", "16c"), node("n2", "16c+example.com/gpu=1"), asking).run(CONF)

    assert ran.bound == {"g-0": "n2"}


def test_a_gang_that_does_not_fit_takes_no_devices_and_its_reason_has_the_numbers() -> None:
    ran = world(*machines(2, 2), template("two", request(count=2)), gang(3, 3, templated("two"))).run(CONF)

    assert (ran.bound, given(ran)) == ({}, {})
    text = (
        "0/2 nodes are unavailable: 2 cannot allocate all claims. (deviceclass/gpu: asked 2, most free on one node 0)"
    )
    assert text in waits(ran, "g-2")


def test_devices_of_a_discarded_gang_are_available_to_the_next_job() -> None:
    ran = world(*machines(2), ONE, gang(3, 3, templated("one"), "large"), gang(2, 2, templated("one"), "small")).run(
        CONF
    )

    assert ran.bound == {"small-0": "n1", "small-1": "n1"}


def test_pods_with_equal_claims_are_one_class_and_placed_in_one_run() -> None:
    ran = world(*machines(*[8] * 32), ONE, gang(256, 256, templated("one")))
    session = ran.session(CONF)
    (job,) = session.jobs.values()

    tasks = list(job.tasks())
    assert len({task.cls.id for task in tasks}) == 1
    assert len(session.view(tasks[0].cls, job).choose(256)) == 256
    ran.run(CONF)
    assert len(ran.bound) == 256
    assert len({d for devices in given(ran).values() for d in devices}) == 256


def test_a_gang_takes_no_device_of_several_nodes_twice() -> None:
    fabric = resource_slice(gpus(3), pool="fabric", allNodes=True)
    ran = world(*machines(0, 0), fabric, ONE, gang(4, 3, templated("one"))).run(CONF)

    assert len(ran.bound) == 3
    assert sorted(d for devices in given(ran).values() for d in devices) == [f"fabric/gpu-{i}" for i in range(3)]


def test_both_resource_amounts_and_devices_limit_the_tasks_of_a_node() -> None:
    small = [node("n1", "2c+64Gi"), resource_slice(gpus(8), "n1"), *machines(0, 1)[2:]]
    ran = world(*small, ONE, gang(4, 1, templated("one"))).run(CONF)

    assert sorted(ran.bound.values()) == ["n1", "n1", "n2"]


def test_best_effort_pods_get_devices() -> None:
    ran = world(*machines(1), ONE, group("g"), pods("p", 2, "", "g", resourceClaims=templated("one"))).run(CONF)

    assert list(ran.bound.values()) == ["n1"]


# --- unusable claims ---
@pytest.mark.parametrize(
    ("objects", "claims", "words"),
    [
        ([], named("none"), 'resourceclaim "none" not found'),
        ([claim("c", request(device_class="none"))], named("c"), "request gpu: device class none does not exist"),
        ([claim("c", {"name": "r"})], named("c"), "request r: unknown request type"),
        ([claim("c", request(allocationMode="Some"))], named("c"), "unsupported count mode Some"),
        ([claim("c", request("r", "gpu", "1 +"))], named("c"), "claim default/c: selector #0: CEL compile error"),
        ([claim("c", request(), constraints=[{}])], named("c"), "empty constraint"),
        ([], templated("none"), "ResourceClaim not created yet (claim c0 of the Pod)"),
        ([], [{"name": "c0"}], "none of the supported fields are set"),
    ],
)
def test_a_pod_with_an_unusable_claim_waits_and_its_condition_gives_the_reason(
    objects: list[Raw], claims: list[Raw], words: str
) -> None:
    ran = world(*machines(2), *objects, gang(1, 1, claims)).run(CONF)

    assert ran.bound == {}
    assert words in waits(ran, "g-0")


def test_a_claim_that_was_generated_for_another_pod_is_not_used() -> None:
    other = claim("other", request())
    other["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x", "controller": True}
    ]
    mine = pod("p", "1c", "g", resourceClaims=templated("one"))
    mine["status"]["resourceClaimStatuses"] = [{"name": "c0", "resourceClaimName": "other"}]
    ran = World(device_class(), *machines(1), other, group("g"), mine).run(CONF)

    assert "was not created for the Pod" in waits(ran, "p")


def test_an_entry_that_needs_no_claim_is_ignored() -> None:
    mine = pod("p", "1c", "g", resourceClaims=templated("one"))
    mine["status"]["resourceClaimStatuses"] = [{"name": "c0"}]

    assert World(device_class(), *machines(0), group("g"), mine).run(CONF).bound == {"p": "n1"}


def test_a_pod_is_scheduled_as_soon_as_its_claim_exists() -> None:
    ran = world(*machines(1), gang(1, 1, templated("one"))).run(CONF)
    assert ran.bound == {}

    ran.cluster.server.create(RESOURCE_CLAIM_TEMPLATE, ONE)
    sync_claims(ran.cluster.server)

    assert ran.run(CONF).bound == {"g-0": "n1"}


def test_an_invalid_amount_in_a_slice_is_reported() -> None:
    bad = resource_slice([device("bad", None, {"memory": "many"})], "n1")
    ran = world(node("n1"), bad, ONE, gang(1, 1, templated("one"))).run(CONF)

    assert any("spec.devices[0]" in text for text in ran.events("Malformed"))


# --- allocated claims ---
def test_an_allocated_claim_restricts_its_pods_to_the_node_of_its_devices() -> None:
    old = claim("c", request(), status=allocated("n2", "gpu-0"))
    ran = world(*machines(2, 2), old, gang(2, 2, named("c"))).run(CONF)

    assert ran.bound == {"g-0": "n2", "g-1": "n2"}
    assert reserved(ran, "c") == ["g-0", "g-1"]


def test_devices_of_allocated_claims_are_not_allocated_again() -> None:
    old = claim("c", request(), status=allocated("n1", "gpu-0"))
    ran = world(*machines(2), old, ONE, gang(2, 1, templated("one"))).run(CONF)

    assert len(ran.bound) == 1
    assert sorted(d for devices in given(ran).values() for d in devices) == ["n1/gpu-0", "n1/gpu-1"]


def test_a_claim_that_is_allocated_on_an_unsuitable_node_is_the_reason() -> None:
    old = claim("c", request(), status=allocated("n9", "gpu-0"))
    ran = world(*machines(1, 1), old, gang(1, 1, named("c"))).run(CONF)

    assert "2 resourceclaim not available on the node" in waits(ran, "g-0")


def test_an_invalid_amount_in_a_claim_is_reported_and_does_not_affect_other_claims() -> None:
    status = allocated("n1", "gpu-0")
    status["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"memory": "many"}
    ran = world(*machines(2), claim("bad", request(), status=status), ONE, gang(1, 1, templated("one"))).run(CONF)

    assert len(ran.bound) == 1
    assert any("status.allocation" in text for text in ran.events("Malformed"))


# --- shared claims ---
def test_a_gang_that_shares_a_claim_runs_on_the_node_of_its_devices() -> None:
    ran = world(*machines(1, 1), claim("c", request()), gang(3, 3, named("c"))).run(CONF)

    assert len(ran.bound) == 3
    assert len(set(ran.bound.values())) == 1
    assert len(given(ran)["c"]) == 1
    assert reserved(ran, "c") == ["g-0", "g-1", "g-2"]
    (reservation,) = {id(p): p for bind in ran.decisions.binds for p in bind.preparations}.values()
    assert isinstance(reservation, ClaimReservation)


def test_pods_of_several_jobs_may_share_a_claim() -> None:
    ran = world(*machines(1), claim("c", request()), gang(1, 1, named("c"), "a"), gang(1, 1, named("c"), "b")).run(CONF)

    assert ran.bound == {"a-0": "n1", "b-0": "n1"}
    assert sorted(reserved(ran, "c")) == ["a-0", "b-0"]


def test_a_shared_claim_of_a_discarded_gang_can_be_allocated_again() -> None:
    large = gang(20, 20, named("c"), "large")  # more Pods than the node can run
    ran = world(*machines(1), claim("c", request()), large, gang(1, 1, named("c"), "small")).run(CONF)

    assert ran.bound == {"small-0": "n1"}
    assert reserved(ran, "c") == ["small-0"]


def test_a_claim_is_shared_by_at_most_the_pods_that_its_status_can_list() -> None:
    others = [{"resource": "pods", "name": f"x{i}", "uid": f"x{i}"} for i in range(255)]
    full = claim("c", request(), status={**allocated("n1", "gpu-0"), "reservedFor": others})
    ran = World(device_class(), *machines(1), full, *gang(2, 1, named("c"))).run(CONF)

    assert list(ran.bound) == ["g-0"]
    assert "would be used by 257 Pods, the limit is 256" in waits(ran, "g-1")


# --- alternatives ---
def test_the_node_that_offers_the_preferred_alternative_is_chosen() -> None:
    choice = alternatives("r", ("best", request("x", "gpu", f"{INDEX} == 7")), ("any", request()))
    best = resource_slice([device("gpu-7", {"index": 7})], "n2")
    ran = world(*machines(1), node("n2", "16c+64Gi"), best, template("c", choice), gang(2, 2, templated("c"))).run(CONF)

    assert ran.bound == {"g-0": "n2", "g-1": "n1"}


# --- consecutive sessions ---
def decide(cache: ClusterCache, now: float = 0.0) -> Decisions:
    """The decisions of a session, assumed in the cache but not carried out."""
    decisions = run_cycle(cache.snapshot(now), CONF).decisions
    cache.assume(decisions)
    return decisions


def test_devices_of_a_waiting_binding_are_taken() -> None:
    cache = world(*machines(1), ONE, gang(1, 1, templated("one"), "a"), gang(1, 1, templated("one"), "b")).cluster.cache

    assert [len(decide(cache, now).binds) for now in (0.0, 1.0)] == [1, 0]


def test_devices_of_a_failed_binding_are_free_again() -> None:
    cache = world(*machines(1), ONE, gang(2, 1, templated("one"))).cluster.cache
    (bind,) = decide(cache).binds

    cache.bind_failed(bind)

    assert [again.node for again in decide(cache, 1.0).binds] == ["n1"]


def test_a_claim_of_a_waiting_binding_can_be_shared_by_the_next_session() -> None:
    cache = world(*machines(1, 1), claim("c", request()), gang(1, 1, named("c"), "a")).cluster.cache
    (first,) = decide(cache).binds
    feed(cache, gang(1, 1, named("c"), "b"))

    (second,) = decide(cache, 1.0).binds

    assert second.node == first.node
    (waiting,), (shared,) = first.preparations, second.preparations
    assert isinstance(waiting, ClaimReservation) and isinstance(shared, ClaimReservation)
    assert shared.allocation == waiting.allocation  # if the first binding fails, the second writes the allocation


def test_devices_of_deleted_pods_are_allocated_again() -> None:
    ran = world(*machines(1), ONE, gang(2, 1, templated("one"))).run(CONF, kubelet=True)
    assert list(ran.bound) == ["g-0"]
    ran.cluster.server.delete(POD, "default", "g-0")

    for _ in range(3):
        ran.run(CONF, kubelet=True)
        sync_claims(ran.cluster.server)

    assert ran.get("Pod", "g-1")["spec"]["nodeName"] == "n1"
    assert [list(devices) for devices in given(ran).values()] == [["n1/gpu-0"]]


# --- within a session ---
def test_evicting_a_pod_does_not_free_its_devices() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    ran = world(high, *machines(1), ONE, gang(1, 1, templated("one"), "low")).run(CONF, kubelet=True)
    urgent = [group("urgent", priority_class="high"), pod("p", "1c", "urgent", resourceClaims=named("c"))]
    feed(ran.cluster.cache, claim("c", request()), urgent)

    preempting = configuration(["priority", "gang"], ["predicates"], actions="enqueue, allocate, preempt")
    decisions = run_cycle(ran.cluster.cache.snapshot(9.0), preempting).decisions

    assert (decisions.binds, decisions.evictions) == ([], [])


@pytest.mark.parametrize("shared", [False, True])
def test_a_discarded_statement_releases_its_devices(shared: bool) -> None:
    claims = named("c") if shared else templated("one")
    session = world(*machines(2), ONE, claim("c", request(count=2)), gang(2, 1, claims)).session(CONF)
    job = session.jobs["default/g"]
    tasks = list(job.tasks())
    view = session.view(tasks[0].cls, job)
    before = view.choose(2)
    statement = session.statement()

    statement.allocate(job, tasks, [0, 0])
    full = view.choose(1)
    statement.discard()

    assert full == ([0] if shared else [])
    assert view.choose(2) == before


def test_a_pod_evicted_in_the_session_that_placed_it_keeps_its_devices() -> None:
    session = world(*machines(1), ONE, gang(2, 1, templated("one"))).session(CONF)
    job = session.jobs["default/g"]
    first, second = job.tasks()
    view = session.view(first.cls, job)
    session.statement().allocate(job, [first], [0])
    statement = session.statement()

    statement.evict(job, first, "test")
    assert view.choose(1) == []
    statement.discard()

    with pytest.raises(AllocationError, match="cannot allocate all claims"):
        session.statement().allocate(job, [second], [0])


def test_a_pipelined_task_keeps_its_devices_from_others() -> None:
    session = world(*machines(1), ONE, gang(2, 1, templated("one"))).session(CONF)
    job = session.jobs["default/g"]
    first, second = job.tasks()
    statement = session.statement()

    statement.pipeline(job, first, 0)
    with pytest.raises(AllocationError):
        session.statement().allocate(job, [second], [0])
    statement.discard()

    session.statement().allocate(job, [second], [0])


def test_a_search_that_times_out_rejects_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.plugins.predicates.dynamic_resources.plugin.CHOICES_PER_SECOND", 1000)
    spec = request(count=12)
    odd = resource_slice([device(f"d{i}", {"kind": i % 11}) for i in range(33)], "n1")
    hard = template("hard", spec, constraints=[{"distinctAttribute": "gpu.example.com/kind"}])
    quick = configuration(
        ["gang"], ["predicates"], arguments={"predicates": {"dynamicresources.filterTimeoutSeconds": 1}}
    )

    ran = world(node("n1"), odd, hard, gang(1, 1, templated("hard"))).run(quick)

    assert "timed out trying to allocate devices" in waits(ran, "g-0")


def test_a_gang_is_not_bound_if_one_of_its_claims_cannot_be_written() -> None:
    ran = world(*machines(3), ONE, gang(2, 2, templated("one")))
    decisions = decide(ran.cluster.cache)
    taken, _ = ran.cluster.server.of(RESOURCE_CLAIM)
    elsewhere = {**taken, "status": allocated("n9", "gpu-9")}
    ran.cluster.server.update(RESOURCE_CLAIM, "default", taken["metadata"]["name"], elsewhere)

    ran.cluster.carry_out(decisions, ())

    assert not any(ran.get("Pod", f"g-{i}")["spec"].get("nodeName") for i in range(2))
    assert given(ran) == {taken["metadata"]["name"]: ["n9/gpu-9"]}
    assert "got allocated elsewhere in the meantime" in waits(ran, "g-0")
