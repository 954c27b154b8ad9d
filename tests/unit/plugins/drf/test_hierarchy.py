"""Hierarchical fairness between queues, by their annotations."""

from collections import Counter
from typing import Any

from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS
from tests.builders import World, configuration, group, node, only, pods, queue

Raw = dict[str, Any]
DRF = {"drf": {"enableHierarchy": True}, "predicates": {}}
PLAN = configuration(["gang"], DRF)


def at(path: str, weights: str, name: str = "") -> Raw:
    """A queue at a path of the tree; its name is the last part of the path."""
    result = queue(name or path.rpartition("/")[2])
    result["metadata"]["annotations"] = {HIERARCHY: path, HIERARCHY_WEIGHTS: weights}
    return result


def job(name: str, queue: str, size: int, asks: str, **where: Any) -> list[Raw]:
    return [group(name, queue), *pods(name, size, asks, name, **where)]


def bound(world: World) -> Counter[str]:
    return Counter(bind.task.name.partition("-")[0] for bind in world.decisions.binds)


def test_the_share_of_a_branch_is_the_smallest_weighted_share_of_its_queues() -> None:
    """The outcome was recorded on a cluster with Volcano: the share of the branch is that of both queues scaled down to
    the smaller one."""
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/1"), at("root/eng/prod", "1/1/3")
    jobs = job("s", "sci", 16, "1c"), job("d", "dev", 16, "1c"), job("p", "prod", 16, "1c")
    world = World(node("n1", "15c"), *queues, *jobs).run(PLAN)
    assert bound(world) == {"s": 6, "d": 3, "p": 6}


def test_a_sibling_gets_what_a_saturated_queue_cannot_use() -> None:
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/1"), at("root/eng/prod", "1/1/1")
    jobs = job("s", "sci", 16, "1c"), job("d", "dev", 1, "1c"), job("p", "prod", 16, "1c")
    world = World(node("n1", "16c"), queues, *jobs).run(PLAN)
    assert bound(world) == {"s": 8, "d": 1, "p": 7}


def test_different_dominant_resources_do_not_count_against_siblings() -> None:
    """The example is from the publication: a child that holds all memory does not starve its sibling of cpu."""
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/1"), at("root/eng/prod", "1/1/1")
    jobs = job("s", "sci", 10, "1c"), job("d", "dev", 10, "1c"), job("p", "prod", 10, "1Gi")
    world = World(node("n1", "10c+10Gi"), queues, *jobs).run(PLAN)
    assert bound(world) == {"s": 5, "d": 5, "p": 10}


def test_a_queue_without_a_path_is_a_child_of_the_root() -> None:
    jobs = job("s", "sci", 16, "1c"), job("d", "default", 16, "1c")
    world = World(node("n1", "16c"), at("root/sci", "1/3"), *jobs).run(PLAN)
    assert bound(world) == {"s": 12, "d": 4}


def test_invalid_weights_are_reported_and_count_as_one() -> None:
    queues = at("root/sci", "1/many"), at("root/eng/dev", "1/3"), at("root/art", "1/nan")
    jobs = job("s", "sci", 16, "1c"), job("d", "dev", 16, "1c"), job("a", "art", 16, "1c")
    world = World(node("n1", "15c"), queues, *jobs).run(PLAN)
    assert bound(world) == {"s": 3, "d": 9, "a": 3}
    assert len(world.events("Malformed")) == 3


def test_a_path_with_too_many_levels_is_reported_and_ignored() -> None:
    deep = at("root" + "/a" * 5000, "1", name="deep")
    jobs = job("s", "sci", 16, "1c"), job("d", "deep", 16, "1c")
    world = World(node("n1", "16c"), at("root/sci", "1/3"), deep, *jobs).run(PLAN)
    assert bound(world) == {"s": 12, "d": 4}
    assert [message for message in world.events("Malformed") if "5000 levels" in message]


def test_a_queue_without_jobs_is_ordered_too() -> None:
    """The queue comes after queues that can use more."""
    world = World(node("n1", "16c"), at("root/sci", "1/1"), at("root/eng/dev", "1/1/1"), job("s", "sci", 1, "1c"))
    session = world.session(PLAN)
    assert sorted(session.queues.values(), key=session.queue_key)[0].name == "sci"


def test_reclaim_evicts_from_the_branch_that_keeps_the_larger_share() -> None:
    """The outcome was recorded on a cluster with Volcano: the last Pod, after which shares are equal, is not
    evicted."""
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/1"), at("root/eng/prod", "1/1/1")
    running = job("d", "dev", 4, "1c", on="n1"), job("p", "prod", 4, "1c", on="n1")
    waiting = job("s", "sci", 8, "1c")
    waiting[0]["status"] = {"phase": "Inqueue"}
    gang = {"gang": only("enableJobReady", "enableJobPipelined"), "priority": only("enableJobStarving")}
    plan = configuration(gang, DRF, actions="enqueue, allocate, reclaim")
    world = World(node("n1", "8c"), queues, *running, waiting).run(plan)
    assert Counter(name[0] for name in world.evicted) == {"d": 1, "p": 2}


def test_at_equal_shares_age_and_name_decide_for_paths_of_any_length() -> None:
    """The outcome was recorded on a cluster with Volcano."""
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/2"), at("root/eng/prod", "1/1/8")
    jobs = job("s", "sci", 10, "1c"), job("d", "dev", 10, "1c"), job("p", "prod", 10, "1c")
    assert bound(World(node("n1", "4c"), node("n2", "4c"), queues, *jobs).run(PLAN)) == {"s": 2, "d": 2, "p": 4}


def test_undoing_a_placement_restores_the_tree() -> None:
    queues = at("root/sci", "1/1"), at("root/eng/dev", "1/1/1")
    gang = [group("g", "dev", 3), *pods("g", 3, "6c", "g")]
    world = World(node("n1", "8c"), node("n2", "6c"), queues, gang, job("s", "sci", 4, "1c"), job("d", "dev", 14, "1c"))
    assert bound(world.run(PLAN)) == {"s": 4, "d": 10}
