"""The protection of queues: reclaim and gangreclaim take no queue below what it deserves while another queue can give,
in whatever tier the plugin is that divides the cluster."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.resource import Vector
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import Protection, ReclaimContext
from scheduler.plugins.support.deserved import DeservedShares
from tests.builders import Raw, World, configuration, gang, group, node, pod, pods, queue
from tests.unit.plugins.capacity_card.cards import H200, H800, card_group, card_pod, gpu_node, quota_queue

GPU = "nvidia.com/gpu"
UPPER = {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}}
LOWER = {"drf": {"enablePreemptable": False}, "predicates": {}, "nodeorder": {}, "binpack": {}}
EVICTABLE = {"volcano.sh/preemptable": "true"}


def tiers(quota: str, *, first: bool, action: str = "reclaim", **arguments: Any) -> Configuration:
    """``first``: whether the plugin is in the first tier, which decides without the second tier."""
    upper = {**UPPER, quota: {}} if first else UPPER
    lower = LOWER if first else {**LOWER, quota: {}}
    return configuration(upper, lower, actions=f"allocate, {action}", arguments={quota: arguments})


def running(queue: str, number: int, asks: str, on: str, job: str = "") -> list[Raw]:
    """An elastic job of which every Pod may be evicted."""
    name = job or queue
    return [group(name, queue, 0, phase="Running"), *pods(name, number, asks, name, on=on, annotations=EVICTABLE)]


def lost(world: World) -> Counter[str]:
    """Maps each job to the number of evicted Pods."""
    return Counter(eviction.task.job.partition("/")[2] for eviction in world.decisions.evictions)


POOLS: list[Raw] = [
    node("na", "16c+64Gi", {"pool": "a"}),
    node("nb", "24c+64Gi", {"pool": "b"}),
    node("nc", "24c+64Gi", {"pool": "c"}),
    queue("qa", 2, deserved="32c"),
    queue("qb", 1, deserved="16c"),
    queue("qc", 1, deserved="16c"),
    *running("qa", 16, "1c", "na"),
    *running("qb", 24, "1c", "nb"),
    *running("qc", 24, "1c", "nc"),
]
"""The queue qa deserves 32 of 64 cpus and has 16; qb and qc deserve 16 each and have 24."""
SINGLES = [[group(f"a{i}", "qa", phase="Inqueue"), pod(f"a{i}-0", "1c", f"a{i}")] for i in range(16)]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("quota", ["capacity", "proportion"])
@pytest.mark.parametrize(
    ("action", "waiting"),
    [("reclaim", SINGLES), ("reclaim", gang("a", 16, "1c", "qa")), ("gangreclaim", gang("a", 16, "1c", "qa"))],
    ids=["singles", "gang", "gangreclaim"],
)
def test_two_queues_give_what_they_have_more_and_no_more(
    quota: str, first: bool, action: str, waiting: Sequence[Any]
) -> None:
    world = World(POOLS, waiting).run(tiers(quota, first=first, action=action))
    assert lost(world) == {"qb": 8, "qc": 8}


def test_no_pod_of_the_reclaimer_goes_and_nothing_is_taken_back() -> None:
    conf = tiers("capacity", first=False)
    world = World(POOLS, SINGLES)
    gone: Counter[str] = Counter()
    for _ in range(6):
        gone += lost(world.run(conf, kubelet=True))
    assert gone == {"qb": 8, "qc": 8}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_the_reclaimer_takes_where_it_can_run_as_far_as_that_queue_can_give(action: str, first: bool) -> None:
    """All Pods that qb has beyond what it deserves are on a node that the reclaimer cannot use, so they are not
    evicted."""
    objects = [
        node("na", "2c", {"pool": "a"}),
        node("nb", "4c", {"pool": "b"}),
        queue("qa", deserved="4c"),
        queue("qb", deserved="4c"),
        running("qb", 2, "1c", "na", "here"),
        running("qb", 4, "1c", "nb", "there"),
    ]
    waiting = gang("a", 2, "1c", "qa", selector={"pool": "a"})
    assert lost(World(objects, waiting).run(tiers("capacity", first=first, action=action))) == {"here": 2}
    more = gang("a", 3, "1c", "qa", selector={"pool": "b"})
    assert not lost(World(objects, more).run(tiers("capacity", first=first, action=action)))


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_what_a_queue_can_lose_is_not_spread_over_nodes_where_it_makes_no_room(action: str) -> None:
    """The queue qb can lose four of eight Pods, and the younger ones are on both nodes in turn."""
    held = [pod(f"b-{i}", "1c", "b", on=f"n{i % 2}", annotations=EVICTABLE) for i in range(8)]
    objects = [node("n0", "4c"), node("n1", "4c"), queue("qa", deserved="4c"), queue("qb", deserved="4c")]
    world = World(objects, group("b", "qb", 0, phase="Running"), held, gang("a", 1, "4c", "qa"))
    assert world.run(tiers("capacity", first=False, action=action)).evicted == {"b-0", "b-2", "b-4", "b-6"}


def test_the_resource_that_lacks_decides_from_whom_it_is_taken() -> None:
    """Both queues hold more than they deserve: qb holds too much cpu, which is not short on any node, and qc too many
    GPUs."""
    waiting = [queue("qa", deserved=f"32c+{GPU}=2"), *gang("a", 1, f"1c+{GPU}=1", "qa")]
    cpu = [node("n1", f"64c+64Gi+{GPU}=2"), queue("qb", deserved=f"4c+{GPU}=2")]
    cards = [node("n2", f"64c+64Gi+{GPU}=2"), queue("qc", deserved=f"16c+{GPU}=1")]
    cpu += running("qb", 2, f"8c+{GPU}=1", "n1")
    cards += running("qc", 2, f"1c+{GPU}=1", "n2")
    conf = tiers("capacity", first=False)
    assert lost(World(waiting, cpu, cards).run(conf)) == {"qc": 1}
    assert not lost(World(waiting, cpu).run(conf))


def test_a_queue_gives_a_large_pod_only_if_no_other_queue_can_give() -> None:
    large = [node("n1", "3c"), *running("qb", 1, "3c", "n1")]
    small = [node("n2", "3c"), *running("qc", 3, "1c", "n2")]
    queues = [queue("qa", deserved="1c"), queue("qb", deserved="2c"), queue("qc", deserved="2c")]
    waiting = gang("a", 1, "1c", "qa")
    conf = tiers("capacity", first=False)
    assert lost(World(queues, large, small, waiting).run(conf)) == {"qc": 1}
    assert lost(World(queues, large, waiting).run(conf)) == {"qb": 1}


@pytest.mark.parametrize("first", [True, False])
def test_no_branch_of_the_hierarchy_falls_below_while_another_can_give(first: bool) -> None:
    """The leaf b has more than it deserves, but its branch has not; c is alone in its branch."""
    hierarchy = {"enableHierarchy": True}
    upper = {**UPPER, **({"capacity": hierarchy} if first else {})}
    conf = configuration(upper, {**LOWER, **({} if first else {"capacity": hierarchy})}, actions="reclaim")
    objects = [
        queue("mine", deserved="2c"),
        queue("a", deserved="2c", parent="mine"),
        queue("first", deserved="4c"),
        queue("b", deserved="1c", parent="first"),
        queue("second", deserved="1c"),
        queue("c", deserved="1c", parent="second"),
        *(node(name, "3c") for name in ("n1", "n2")),
        running("b", 3, "1c", "n1"),
        running("c", 3, "1c", "n2"),
        [group(f"a{i}", "a", phase="Inqueue") for i in range(2)],
        [pod(f"a{i}-0", "1c", f"a{i}") for i in range(2)],
    ]
    assert lost(World(objects).run(conf)) == {"c": 2}


def test_no_more_pods_are_evicted_than_needed() -> None:
    objects = [
        node("n1", "4c"),
        queue("qa", deserved="3c"),
        queue("qb"),
        group("b", "qb", 0, phase="Running"),
        pod("b-0", "3c", "b", on="n1", annotations=EVICTABLE),
        pod("b-1", "1c", "b", on="n1", annotations=EVICTABLE),
        gang("a", 1, "3c", "qa"),
    ]
    assert World(objects).run(tiers("capacity", first=False)).evicted == {"b-0"}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("borrowing", [True, False])
def test_a_queue_keeps_the_cards_of_its_quota(first: bool, borrowing: bool) -> None:
    """The queue b uses two cards more than its quota, c has its quota in use."""
    objects: list[Raw] = [
        gpu_node("n1", H200, 4),
        gpu_node("n2", H200, 2),
        quota_queue("a", {H200: 4}),
        quota_queue("b", {H200: 2}),
        quota_queue("c", {H200: 2, H800: 1}),
        card_group("c", "c", 0, phase="Running"),
        *(card_pod(f"c-{i}", "c", H200, on="n2") for i in range(2)),
        card_group("b", "b", 0, phase="Running"),
        *(card_pod(f"b-{i}", "b", H200, on="n1") for i in range(4)),
        *(card_group(f"a{i}", "a", phase="Inqueue") for i in range(4)),
        *(card_pod(f"a{i}-0", f"a{i}", H200) for i in range(4)),
    ]
    conf = tiers("capacity-card", first=first, cardBorrowing=borrowing)
    for raw in objects:
        if raw["kind"] == "Pod" and raw["spec"].get("nodeName"):
            raw["metadata"]["annotations"] |= EVICTABLE
    assert lost(World(objects).run(conf)) == {"b": 2}


def test_quotas_of_cards_give_no_claim_to_cpu() -> None:
    objects = [
        node("n1", "2c"),
        quota_queue("a", None),
        quota_queue("b", None),
        running("b", 2, "1c", "n1"),
        gang("x", 1, "1c", "a"),
    ]
    for first in (True, False):
        assert not lost(World(objects).run(tiers("capacity-card", first=first, cardBorrowing=True)))


class QueueAmounts(msgspec.Struct):
    name: str
    allocated: Vector
    deserved: Vector


@pytest.mark.parametrize("protection", list(Protection))
def test_what_a_queue_shares_with_the_reclaimer_is_not_kept(protection: Protection) -> None:
    """A job in a parent queue loses tasks to a child: nothing leaves the parent."""
    amount, two = np.array([1.0, 0.0, 1.0]), np.array([2.0, 0.0, 1.0])
    parent, child = (QueueAmounts(name, allocated=two, deserved=two) for name in ("parent", "child"))
    shares = DeservedShares(3, {"parent": [parent], "child": [child, parent]}, lambda queue: True)
    context = ReclaimContext(None, (), amount, np.ones((3, 1), dtype=bool), protection)
    assert shares.keeps(context, shares.path("parent", "child"), amount, 0, {})
    assert not shares.keeps(context, shares.path("parent", "other"), amount, 0, {})
