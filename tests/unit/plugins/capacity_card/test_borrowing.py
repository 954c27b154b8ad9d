"""Queues that borrow idle card quota of other queues, and give it back."""

import random
from collections import Counter
from typing import Any

import pytest

from scheduler.api.kinds import POD, POD_GROUP, QUEUE
from tests.builders import Raw, World, configuration, node
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    GPU,
    H200,
    H800,
    card_group,
    card_pod,
    gang,
    gpu_node,
    labels,
    quota_queue,
)

TIER = ["gang", "capacity-card"]
ACTIONS = "enqueue, allocate, reclaim, backfill"
BORROWING = {"capacity-card": {"cardBorrowing": True}}
BORROW = configuration(["priority"], TIER, actions=ACTIONS, arguments=BORROWING)
BORROW_GANGS = configuration(["priority"], TIER, actions="enqueue, allocate, gangreclaim", arguments=BORROWING)
BOTH_RECLAIM = configuration(
    ["priority"], TIER, actions="enqueue, allocate, reclaim, gangreclaim, backfill", arguments=BORROWING
)
NODES = [gpu_node("a", H200, 4), gpu_node("b", H200, 4)]


def world(a: dict[str, int], b: dict[str, int], *more: Raw | list[Raw], **spec: Any) -> World:
    """Two queues with these quotas on a cluster of eight cards; ``spec``: the spec of the queue ``a``."""
    return World(NODES, quota_queue("a", a, **spec), quota_queue("b", b), *more)


def elastic(name: str, queue: str, number: int, card: str = H200, **rest: Any) -> list[Raw]:
    """A job of which each Pod is useful alone."""
    pods = [card_pod(f"{name}-{i}", name, card) for i in range(number)]
    return [card_group(name, queue, 1, phase="Inqueue", **rest), *pods]


def create(found: World, objects: list[Raw]) -> None:
    for raw in objects:
        found.cluster.server.create(POD if raw["kind"] == "Pod" else POD_GROUP, raw)


def in_use(found: World) -> Counter[str]:
    """The number of Pods on nodes by job."""
    pods = [pod for pod in found.cluster.server.of(POD) if pod["spec"].get("nodeName")]
    return Counter(pod["metadata"]["name"].rpartition("-")[0] for pod in pods)


@pytest.mark.parametrize(("settings", "number"), [(CONFIGURATION, 0), (BORROW, 6)])
def test_a_queue_borrows_the_idle_quota_of_others_if_it_is_configured(settings: Any, number: int) -> None:
    found = world({H200: 4}, {H200: 4}, gang("job", "a", 6)).run(settings)
    assert len(found.bound) == number


def test_a_job_that_needs_more_than_its_quota_is_admitted_if_it_can_be_borrowed() -> None:
    job = card_group("job", "a", 6, {H200: 6})
    assert world({H200: 4}, {H200: 4}, job).run(CONFIGURATION).phase("job") == "Pending"
    assert world({H200: 4}, {H200: 4}, job).run(BORROW).phase("job") == "Inqueue"
    two = [card_group(name, "a", 6, {H200: 6}) for name in ("job", "other")]
    found = world({H200: 4}, {H200: 4}, two).run(BORROW)
    assert sorted(found.phase(name) for name in ("job", "other")) == ["Inqueue", "Pending"]


def test_what_the_pods_of_a_queue_wait_for_is_not_lent() -> None:
    waiting = [card_group("own", "b", 3, phase="Inqueue"), *(card_pod(f"own-{i}", "own") for i in range(2))]
    found = world({H200: 4}, {H200: 4}, waiting, elastic("job", "a", 8)).run(BORROW)
    assert in_use(found) == {"job": 6}


def test_no_more_is_lent_than_there_is_and_than_the_quotas_add_up_to() -> None:
    assert len(world({H200: 8}, {H200: 8}, elastic("job", "a", 12)).run(BORROW).bound) == 8
    assert len(world({H200: 2}, {H200: 3}, elastic("job", "a", 12)).run(BORROW).bound) == 5


@pytest.mark.parametrize(
    ("quota", "spec", "number"),
    [({H200: 0}, {}, 4), ({H800: 2}, {}, 0), ({H200: 1}, {"reclaimable": False}, 1), ({H200: 1}, {}, 5)],
)
def test_a_queue_borrows_only_cards_that_its_quota_lists_and_only_if_they_can_be_reclaimed(
    quota: dict[str, int], spec: dict[str, Any], number: int
) -> None:
    found = world(quota, {H200: 4}, elastic("job", "a", 8), **spec).run(BORROW)
    assert len(found.bound) == number


def test_pods_that_accept_several_cards_borrow_both() -> None:
    nodes = [gpu_node("a", H200, 2), gpu_node("b", H800, 2)]
    quotas = [quota_queue("a", {H200: 1, H800: 1}), quota_queue("b", {H200: 1, H800: 1})]
    found = World(nodes, quotas, elastic("job", "a", 6, f"{H200}|{H800}")).run(BORROW)
    assert Counter(found.bound.values()) == {"a": 2, "b": 2}


def test_a_queue_gets_its_quota_back_and_no_more() -> None:
    found = world({H200: 4}, {H200: 4}, elastic("job", "a", 8)).run(BORROW, 2, kubelet=True)
    assert in_use(found) == {"job": 8}
    create(found, elastic("own", "b", 6))
    found.run(BORROW, 6, kubelet=True)
    assert in_use(found) == {"job": 4, "own": 4}
    before = found.cluster.server.of(POD)
    found.run(BORROW, 5, kubelet=True)
    assert found.cluster.server.of(POD) == before  # nothing is evicted back and forth


def test_a_gang_that_borrowed_is_reclaimed_as_a_whole_by_gangreclaim() -> None:
    found = world({H200: 4}, {H200: 4}, gang("own", "a", 4), gang("lent", "a", 4)).run(BORROW_GANGS, 2, kubelet=True)
    assert in_use(found) == {"own": 4, "lent": 4}
    create(found, gang("mine", "b", 2))
    found.run(BORROW, 3, kubelet=True)
    assert in_use(found)["mine"] == 0  # reclaim leaves gangs whole
    found.run(BORROW_GANGS, 6, kubelet=True)
    assert in_use(found)["mine"] == 2
    assert sorted(in_use(found)[name] for name in ("own", "lent")) == [0, 4]


def test_a_gang_gives_back_what_it_borrowed_also_if_some_of_its_pods_have_no_card() -> None:
    borrower = [*gang("lent", "a", 4), card_pod("lent-launcher", "lent", None, "1c+1Gi")]
    borrower[0]["spec"]["minMember"] = 5
    found = world({H200: 0}, {H200: 8}, borrower, elastic("own", "b", 4)).run(BORROW_GANGS, 2, kubelet=True)
    assert in_use(found) == {"own": 4, "lent": 5}
    create(found, gang("mine", "b", 2))
    found.run(BORROW_GANGS, 4, kubelet=True)
    assert in_use(found) == {"own": 4, "mine": 2}


def test_a_queue_reclaims_only_the_card_of_which_it_has_quota() -> None:
    nodes = [gpu_node("a", H200, 2), gpu_node("b", H800, 2)]
    quotas = [
        quota_queue("a", {H200: 0, H800: 0}),
        quota_queue("b", {H200: 2, H800: 1}),
        quota_queue("c", {H800: 1}),
    ]
    borrowed = [*elastic("h200", "a", 2), *elastic("h800", "a", 1, H800)]
    found = World(nodes, quotas, borrowed, elastic("own", "b", 1, H800)).run(BOTH_RECLAIM, 2, kubelet=True)
    assert in_use(found) == {"h200": 2, "h800": 1, "own": 1}
    create(found, elastic("mine", "b", 1, f"{H800}|{H200}"))
    found.run(BOTH_RECLAIM, 6, kubelet=True)
    assert in_use(found) == {"h200": 1, "h800": 1, "own": 1, "mine": 1}


def test_a_pod_with_a_choice_gives_back_a_card_of_which_its_queue_has_no_quota_any_more() -> None:
    quotas = [quota_queue("a", {H200: 0, H800: 2}), quota_queue("b", {H200: 2})]
    found = World(gpu_node("n", H200, 2), quotas, gang("lent", "a", 1, f"{H200}|{H800}")).run(
        BOTH_RECLAIM, kubelet=True
    )
    assert in_use(found) == {"lent": 1}
    annotations = quota_queue("a", {H800: 2})["metadata"]["annotations"]
    found.cluster.server.patch(QUEUE, "", "a", {"metadata": {"annotations": annotations}})
    for name in ("one", "two"):
        create(found, gang(name, "b", 1))
    found.run(BOTH_RECLAIM, 5, kubelet=True)
    assert in_use(found) == {"one": 1, "two": 1}


def test_pods_without_cards_and_with_other_cards_are_not_reclaimed() -> None:
    nodes = [gpu_node("a", H200, 4), gpu_node("b", H800, 4)]
    quotas = [quota_queue("a", {H200: 2, H800: 2}), quota_queue("b", {H200: 2, H800: 2})]
    jobs = [*elastic("h200", "a", 4), *elastic("h800", "a", 4, H800)]
    plain = [card_group("cpu", "a", 1, phase="Inqueue"), card_pod("cpu-0", "cpu", None, "1c+1Gi")]
    found = World(nodes, quotas, jobs, plain).run(BORROW, 2, kubelet=True)
    create(found, elastic("own", "b", 2))
    found.run(BORROW, 6, kubelet=True)
    assert in_use(found) == {"h200": 2, "h800": 4, "cpu": 1, "own": 2}


def test_a_refusal_says_how_much_can_be_borrowed() -> None:
    found = world({H200: 2}, {H200: 3}, gang("job", "a", 6)).run(BORROW)
    assert found.bound == {}
    assert (
        "requested <1000>, total would be <6000>, but capability is <2000>; idle quota of queues: <0>"
        in found.message_of("job-5")
    )


def test_a_refusal_says_so_also_for_another_name_of_the_card() -> None:
    shared = labels(H800, memory=81559) | {f"{GPU}.replicas": "2"}
    nodes = [node("n", f"64c+256Gi+{GPU}.shared=4", shared)]
    quotas = [quota_queue("a", {f"{H800}/mps-80g*1/2": 1}), quota_queue("b", {f"{H800}/mps-80g*1/2": 2})]
    job = gang("job", "a", 4, f"{H800}/mps-81g*1/2", f"1c+1Gi+{GPU}.shared=1")
    found = World(nodes, quotas, job).run(BORROW)
    assert "idle quota of queues: <0>" in found.message_of("job-3")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_in_random_histories_no_card_is_used_twice_and_every_queue_gets_its_quota(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [gpu_node(f"n{i}", H200, chance.randint(1, 5)) for i in range(3)]
    cards = sum(int(raw["status"]["allocatable"][GPU]) for raw in nodes)
    quotas = {name: chance.randint(0, 5) for name in "abc"}
    found = World(nodes, [quota_queue(name, {H200: quota}) for name, quota in quotas.items()])
    for number in range(12):
        queue = chance.choice("abc")
        for each in range(chance.randint(1, 4)):
            create(found, elastic(f"{queue}{number}{each}", queue, 1))
        if chance.random() < 0.4:
            gone = chance.choice(found.cluster.server.of(POD))["metadata"]["name"]
            found.cluster.server.delete(POD, "default", gone, force=True)
            found.cluster.server.delete(POD_GROUP, "default", gone.rpartition("-")[0])
        found.run(BOTH_RECLAIM, chance.randint(1, 2), kubelet=True)
        assert in_use(found).total() <= cards
    found.run(BOTH_RECLAIM, 20, kubelet=True)
    running = Counter(job[0] for job in in_use(found))
    wanted = Counter(pod["metadata"]["name"][0] for pod in found.cluster.server.of(POD))
    if sum(quotas.values()) <= cards:  # else quotas compete for the cards
        assert all(running[queue] >= min(quota, wanted[queue]) for queue, quota in quotas.items())
    assert running.total() >= min(wanted.total(), cards, sum(quotas.values()))
    settled = found.cluster.server.of(POD)
    found.run(BOTH_RECLAIM, 5, kubelet=True)
    assert found.cluster.server.of(POD) == settled
