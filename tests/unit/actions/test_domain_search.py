"""Jobs with a network topology: the HyperNode in which they are placed, when they wait, and their messages."""

from collections import Counter
from typing import Any

import pytest

from scheduler.actions.placement import domain_search
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, hyper_node, node, pod, pods, queue

Tier = dict[str, dict[str, bool]]
TOPOLOGY: Tier = {"priority": {}, "gang": {}}
FLAT: Tier = {"predicates": {}, "nodeorder": {}, "network-topology-aware": {}}
CONF = configuration(TOPOLOGY, FLAT, actions="allocate", arguments={"network-topology-aware": {"weight": 10}})
LEAVES = [hyper_node("left", 1, "n1", "n2"), hyper_node("right", 1, "n3", "n4")]
TREE = [*LEAVES, hyper_node("spine", 2, ">left", ">right")]
NODES = [node(f"n{i}", "4c") for i in (1, 2, 3, 4)]
LEFT, RIGHT = {"n1", "n2"}, {"n3", "n4"}


def hard(tier: int) -> Raw:
    return {"mode": "hard", "highestTierAllowed": tier}


def gang(
    name: str, number: int, asks: str = "2c", *, tier: int = 1, minimum: int | None = None, **more: Any
) -> list[Raw]:
    return [
        group(name, minimum=number if minimum is None else minimum, networkTopology=hard(tier), **more),
        *pods(name, number, asks, name),
    ]


def sub_groups(*sizes: int, name: str = "a", asks: str = "2c", start: int = 0, **more: Any) -> list[Raw]:
    """Builds Pods with the labels g=0, g=1 and so on."""
    values = [g for g, size in enumerate(sizes) for _ in range(size)]
    return [pod(f"{name}-{i}", asks, name, labels={"g": str(g)}, **more) for i, g in enumerate(values, start=start)]


def policy(size: int, minimum: int = 0, tier: int | None = 1, **more: Any) -> Raw:
    topology = {} if tier is None else {"networkTopology": hard(tier)}
    return {"name": "w", "matchLabelKeys": ["g"], "subGroupSize": size, "minSubGroups": minimum, **topology, **more}


def message(world: World, name: str) -> str:
    conditions = world.get("Pod", name)["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"] == "PodScheduled"))


# --- one gang, one HyperNode ---
def test_a_gang_that_fits_a_leaf_stays_in_it() -> None:
    world = World(NODES, TREE, gang("a", 4)).run(CONF)
    assert set(world.bound.values()) == LEFT and len(world.bound) == 4


def test_a_gang_larger_than_every_leaf_waits_under_tier_1_and_runs_under_tier_2() -> None:
    assert World(NODES, TREE, gang("a", 5)).run(CONF).bound == {}
    assert len(World(NODES, TREE, gang("a", 5, tier=2)).run(CONF).bound) == 5


def test_it_takes_the_leaf_that_it_fills_most() -> None:
    world = World(NODES, TREE, pod("used", "1c", on="n4"), gang("a", 2)).run(CONF)
    assert set(world.bound.values()) <= RIGHT


def test_equal_leaves_are_taken_by_name() -> None:
    turned = [hyper_node("z", 1, "n1", "n2"), hyper_node("a", 1, "n3", "n4")]
    assert set(World(NODES, turned, gang("a", 2)).run(CONF).bound.values()) <= RIGHT


def test_two_gangs_take_two_leaves_and_the_third_waits() -> None:
    world = World(NODES, TREE, gang("a", 3), gang("b", 3), gang("c", 3)).run(CONF)
    assert {name[0] for name in world.bound} == {"a", "b"}
    assert {world.bound["a-0"], world.bound["b-0"]} & LEFT and {world.bound["a-0"], world.bound["b-0"]} & RIGHT


def test_the_fullest_leaf_is_passed_over_where_a_selector_or_a_taint_forbids_it() -> None:
    nodes = [node(f"n{i}", "4c", {"kind": "x" if i > 2 else "y"}) for i in (1, 2, 3, 4)]
    picky = [group("a", minimum=2, networkTopology=hard(1)), *pods("a", 2, "2c", "a", selector={"kind": "x"})]
    assert set(World(nodes, TREE, pod("used", "1c", on="n1"), picky).run(CONF).bound.values()) == RIGHT
    tainted = [node("n1", "4c", taints=[{"key": "k", "effect": "NoSchedule"}]), *NODES[1:]]
    assert set(World(tainted, TREE, pod("used", "1c", on="n2"), gang("a", 3)).run(CONF).bound.values()) == RIGHT


def test_a_gang_waits_as_long_as_its_leaf_has_no_room_for_all_its_pods() -> None:
    """This is Volcano's rule; the gang could start with three."""
    assert World(NODES, TREE, gang("a", 6, minimum=3)).run(CONF).bound == {}


def test_a_soft_gang_prefers_the_lowest_tier_and_spreads_where_it_must() -> None:
    def soft(number: int) -> World:
        asked = [group("a", minimum=number, networkTopology={"mode": "soft"}), *pods("a", number, "2c", "a")]
        return World(NODES, TREE, asked).run(CONF)

    assert set(soft(4).bound.values()) == LEFT
    assert len(soft(7).bound) == 7


def test_roles_with_their_own_minimum_share_one_leaf() -> None:
    members = [pod("ps-0", "2c", "a", role="ps"), *pods("w", 3, "2c", "a", role="w")]
    roles = group("a", minimum=4, roles={"ps": 1, "w": 3}, networkTopology=hard(1))
    world = World(NODES, TREE, roles, members).run(CONF)
    assert len(world.bound) == 4 and set(world.bound.values()) == LEFT


def test_without_the_plugin_no_tier_is_kept_to() -> None:
    assert len(World(NODES, TREE, gang("a", 6)).run(configuration(["gang"], actions="allocate")).bound) == 6


def test_a_task_is_pipelined_onto_terminating_resources_within_the_leaf() -> None:
    used = [pod("x", "3c", on="n1", deleting=True), pod("y", "3c", on="n3"), pod("z", "3c", on="n4")]
    world = World(NODES, TREE, used, gang("a", 2, "3c")).run(CONF)
    assert world.bound == {}
    assert "can possibly be assigned to n1, once resource is released" in message(world, "a-1")


def test_the_next_session_finds_nothing_of_what_was_tried() -> None:
    world = World(NODES, TREE, gang("a", 5), gang("b", 4))
    first = world.run(CONF).bound
    assert set(first) == {"b-0", "b-1", "b-2", "b-3"}
    nodes = world.cluster.cache.snapshot(0).nodes
    assert nodes.used[0].tolist() == [4000, 4000, 0, 0]


# --- jobs that run already ---
def running(*placed: str, more: int, tier: int, asks: str = "1c") -> World:
    started = [pod(f"a-{i}", asks, "a", on=name) for i, name in enumerate(placed)]
    waiting = [pod(f"a-{i}", asks, "a") for i in range(len(placed), len(placed) + more)]
    members = group("a", minimum=len(placed), phase="Running", networkTopology=hard(tier))
    return World(NODES, TREE, members, started, waiting)


def test_a_running_gang_grows_in_its_leaf_alone() -> None:
    world = running("n3", more=8, tier=1).run(CONF)
    assert set(world.bound.values()) == RIGHT and len(world.bound) == 7


def test_a_running_gang_fills_the_leaf_it_is_in_before_it_takes_the_next() -> None:
    world = running("n3", more=8, tier=2).run(CONF)
    assert Counter("left" if name in LEFT else "right" for name in world.bound.values()) == {"right": 7, "left": 1}


def test_a_running_gang_that_is_spread_too_wide_gets_no_node_and_a_message() -> None:
    world = running("n1", "n3", more=1, tier=1).run(CONF)
    assert world.bound == {}
    assert message(world, "a-2") == (
        "no HyperNode up to tier 1 has room for the Pod that waits: the others are in HyperNode spine of tier 2 already"
    )


# --- sub-groups ---
def test_each_sub_group_has_a_leaf_of_its_own() -> None:
    asked = group("a", minimum=8, subGroupPolicy=[policy(4, 2)])
    world = World(NODES, TREE, asked, sub_groups(4, 4)).run(CONF)
    places = [{world.bound[f"a-{i}"] for i in part} for part in (range(4), range(4, 8))]
    assert places == [LEFT, RIGHT]


def test_sub_groups_start_once_as_many_as_are_needed_have_room() -> None:
    asked = group("a", minimum=4, subGroupPolicy=[policy(4, 1)])
    assert set(World(NODES[:2], LEAVES[:1], asked, sub_groups(4, 4)).run(CONF).bound) == {f"a-{i}" for i in range(4)}
    asked = group("a", minimum=4, subGroupPolicy=[policy(4, 2)])
    assert World(NODES[:2], LEAVES[:1], asked, sub_groups(4, 4)).run(CONF).bound == {}


def test_sub_groups_stay_within_the_tier_of_their_job() -> None:
    nodes = [node(f"n{i}", "4c") for i in range(1, 9)]
    leaves = [hyper_node(f"l{i}", 1, f"n{2 * i + 1}", f"n{2 * i + 2}") for i in range(4)]
    spines = [hyper_node("s0", 2, ">l0", ">l1"), hyper_node("s1", 2, ">l2", ">l3")]
    asked = group("a", minimum=8, networkTopology=hard(2), subGroupPolicy=[policy(4, 2)])
    world = World(nodes, leaves, spines, pod("used", "3c", on="n1"), asked, sub_groups(4, 4)).run(CONF)
    assert set(world.bound.values()) == {"n5", "n6", "n7", "n8"}


def test_the_sub_group_that_is_needed_goes_first() -> None:
    first = policy(1, 0, name="first", labelSelector={"matchLabels": {"g": "0"}})
    needed = policy(1, 1, name="needed", labelSelector={"matchLabels": {"g": "1"}})
    asked = group("a", minimum=1, subGroupPolicy=[first, needed])
    assert set(World([node("n1", "3c")], asked, sub_groups(1, 1)).run(CONF).bound) == {"a-1"}


def test_the_sub_group_of_the_more_important_pods_goes_first() -> None:
    members = [*sub_groups(1, priority=1), pod("a-9", "2c", "a", labels={"g": "9"}, priority=5)]
    world = World([node("n1", "3c")], group("a", subGroupPolicy=[policy(1, 1)]), members).run(CONF)
    assert set(world.bound) == {"a-9"}


def test_sub_groups_without_a_topology_are_gangs_of_their_own() -> None:
    asked = group("a", minimum=2, subGroupPolicy=[policy(2, 1, tier=None)])
    world = World(NODES[:3], asked, sub_groups(2, 2, asks="3c")).run(CONF)
    assert set(world.bound) == {"a-0", "a-1"}
    asked = group("a", minimum=4, subGroupPolicy=[policy(2, 3, tier=None)])
    assert World(NODES, asked, sub_groups(2, 2, 2, asks="3c")).run(CONF).bound == {}


def test_a_job_needs_its_minimum_beside_that_of_its_sub_groups() -> None:
    asked = group("a", minimum=6, subGroupPolicy=[policy(2, 1)])
    assert len(World(NODES, TREE, asked, sub_groups(4, 4)).run(CONF, 3).bound) == 0
    world = World(NODES, TREE, asked, sub_groups(4, 4)).run(CONF)
    assert len(world.bound) == 8


def test_fewer_sub_groups_than_needed_are_not_tried() -> None:
    asked = group("a", minimum=2, subGroupPolicy=[policy(2, 3)])
    world = World(NODES, TREE, asked, sub_groups(2, 2)).run(CONF)
    assert world.bound == {}
    assert "Not enough valid subGroups of each task for gang-scheduling (w: 2/3)" in message(world, "a-0")


def test_pods_that_no_policy_takes_pack_as_ordinary_ones() -> None:
    asked = group("a", minimum=3, subGroupPolicy=[policy(2, 1)])
    world = World(NODES, TREE, asked, sub_groups(2), pod("a-9", "2c", "a")).run(CONF)
    assert len(world.bound) == 3 and set(world.bound.values()) <= LEFT


@pytest.mark.parametrize("compared", [1, 3, 100])
def test_of_many_hyper_nodes_the_fullest_takes_the_sub_groups(monkeypatch: pytest.MonkeyPatch, compared: int) -> None:
    monkeypatch.setattr(domain_search, "MAX_COMPARED", compared)
    nodes = [node(f"n{i}", "4c") for i in range(6)]
    leaves = [hyper_node(f"l{i}", 1, f"n{i}") for i in range(6)]
    used = [pod("x", "1c", on="n2"), pod("y", "2c", on="n4"), pod("z", "3c", on="n5")]
    asked = group("a", minimum=2, networkTopology=hard(1), subGroupPolicy=[policy(1, 2)])
    world = World(nodes, leaves, used, asked, sub_groups(1, 1, asks="1c")).run(CONF)
    assert set(world.bound.values()) == {"n4"}


# --- messages ---
def test_the_message_of_a_gang_that_fits_in_no_leaf_says_how_much_is_free() -> None:
    world = World(NODES, TREE, pod("used", "1c", on="n1"), gang("a", 5)).run(CONF)
    expected = (
        "no HyperNode up to tier 1 has room for the 5 Pods that wait (cpu: asked 10, most free 8, in HyperNode right)"
    )
    assert message(world, "a-0") == message(world, "a-4") == expected
    (group_message,) = world.events("Unschedulable")
    assert group_message.endswith(f"Origin reason is a-0: {expected}")


def test_the_message_of_a_gang_that_fits_by_amounts_but_not_by_nodes_says_how_many_tasks_find_a_node() -> None:
    world = World(NODES, TREE, pod("used", "2c", on="n3"), gang("a", 2, "3c")).run(CONF)
    assert set(world.bound.values()) == LEFT
    world = World(NODES, TREE, *(pod(f"used-{i}", "1c", on=f"n{i}") for i in (2, 4)), gang("a", 3, "2c")).run(CONF)
    assert len(world.bound) == 3
    odd = [node("n1", "5c"), node("n2", "1c"), node("n3", "4c"), node("n4", "2c")]
    world = World(odd, TREE, gang("a", 2, "3c")).run(CONF)
    assert message(world, "a-0") == (
        "no HyperNode up to tier 1 has room for the 2 Pods that wait: "
        "2 have to find a node together, 1 would in HyperNode left"
    )


def test_the_message_is_about_the_domain_in_which_most_tasks_fit() -> None:
    nodes = [node(f"n{i}", "4c", {"fit": "yes" if i < 4 else "no"}) for i in (1, 2, 3, 4)]
    picky = [group("a", minimum=3, networkTopology=hard(1)), *pods("a", 3, "2c", "a", selector={"fit": "yes"})]
    world = World(nodes, TREE, pod("x", "3c", on="n1"), *picky).run(CONF)
    assert message(world, "a-0") == "Pod default/a-0 can possibly be assigned to n3, once minAvailable is satisfied"
    text = message(world, "a-2")
    assert text.startswith(
        "no HyperNode up to tier 1 has room for the 3 Pods that wait: 3 have to find a node together, 2"
    )
    assert "In hyperNode right: 0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) didn't match" in text


def test_a_waiting_sub_group_of_a_running_job_gets_a_message() -> None:
    asked = group("a", minimum=4, subGroupPolicy=[policy(4, 1)])
    world = World(NODES[:2], LEAVES[:1], asked, sub_groups(4, 4)).run(CONF)
    expected = (
        "no HyperNode up to tier 1 has room for the 4 Pods that wait (cpu: asked 8, most free 0, in HyperNode left)"
    )
    assert message(world, "a-5").startswith(expected)


def test_where_the_quota_is_in_the_way_nothing_is_said_of_room() -> None:
    conf = configuration(
        {"gang": {}, "proportion": {}}, FLAT, actions="allocate", arguments={"network-topology-aware": {}}
    )
    world = World(queue("q", capability="3c"), NODES, TREE, gang("a", 2, queue="q")).run(conf)
    assert world.bound == {} and "HyperNode" not in message(world, "a-1")


# --- nominations ---
def nominated(*names: str, asks: str = "2c", **more: Any) -> list[Raw]:
    result = pods("a", len(names), asks, "a", **more)
    for raw, name in zip(result, names, strict=True):
        raw["status"]["nominatedNodeName"] = name
    return result


def test_nominated_nodes_in_one_leaf_are_taken_at_once_though_another_is_fuller() -> None:
    asked = group("a", minimum=2, networkTopology=hard(1))
    world = World(NODES, TREE, pod("used", "1c", on="n1"), asked, nominated("n3", "n4")).run(CONF)
    assert world.bound == {"a-0": "n3", "a-1": "n4"}


@pytest.mark.parametrize("names", [("n2", "n3"), ("n3", "gone"), ("n3", "")], ids=["two leaves", "gone", "one only"])
def test_nominations_that_no_leaf_holds_are_not_redeemed(names: tuple[str, ...]) -> None:
    asked = group("a", minimum=2, networkTopology=hard(1))
    world = World(NODES, TREE, pod("used", "1c", on="n1"), asked, nominated(*names)).run(CONF)
    assert set(world.bound.values()) == LEFT


def test_a_nominated_node_that_was_taken_meanwhile_sends_the_gang_searching() -> None:
    asked = group("a", minimum=2, networkTopology=hard(1))
    members = nominated("n3", "n4", asks="3c")
    world = World(NODES, TREE, pod("used", "2c", on="n4"), asked, members).run(CONF)
    assert set(world.bound.values()) == LEFT


def test_tasks_are_pipelined_onto_nominated_nodes_whose_pods_terminate() -> None:
    asked = group("a", minimum=2, networkTopology=hard(1))
    used = [pod(f"used-{i}", "4c", on=f"n{i}", deleting=i > 2) for i in (1, 2, 3, 4)]
    world = World(NODES, TREE, used, asked, nominated("n3", "n4")).run(CONF)
    assert world.bound == {} and "assigned to n4, once resource is released" in message(world, "a-1")


# --- one job among others ---
def test_a_job_that_is_ready_has_its_other_pods_placed_in_turns() -> None:
    conf: Configuration = CONF
    world = World(NODES, TREE, gang("a", 4, minimum=2, asks="1c"), gang("b", 4, minimum=2, asks="1c")).run(conf)
    assert len(world.bound) == 8
    assert all({world.bound[f"{job}-{i}"] for i in range(4)} in (LEFT, RIGHT) for job in ("a", "b"))


def test_preempt_leaves_jobs_that_ask_for_a_topology_alone() -> None:
    conf = configuration(TOPOLOGY, FLAT, actions="allocate, preempt")
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("high", 100), ("low", 1))
    ]
    victims = [
        group("v", priority_class="low", phase="Running"),
        *(pod(f"v-{i}", "4c", "v", on=f"n{i}") for i in (1, 2)),
    ]
    world = World(classes, NODES[:2], LEAVES[:1], victims, gang("a", 1, priority_class="high")).run(conf)
    assert world.evicted == set()
    assert (
        World(classes, NODES[:2], victims, group("a", priority_class="high"), pods("a", 1, "2c", "a")).run(conf).evicted
    )


def test_what_the_job_announces_counts_where_it_is_more() -> None:
    world = World(NODES, TREE, gang("a", 2, asks="1c")[1:], group("a", asks="9c", minimum=2, networkTopology=hard(1)))
    expected = "has room for the 2 Pods that wait (cpu: asked 9, most free 8, in HyperNode left)"
    assert message(world.run(CONF), "a-0").endswith(expected)
