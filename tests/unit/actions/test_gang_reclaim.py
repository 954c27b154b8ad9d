"""The action gangreclaim: whose tasks a gang reclaims for a queue that has less than it deserves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.names import EVENT_RECLAIMED
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, pod, queue

GANG = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}, "capacity": {}},
    ["predicates", "nodeorder"],
    actions="enqueue, allocate, gangreclaim, backfill",
)
ON = [f"n{i}" for i in range(8)]


def below(plugin: str, flags: Mapping[str, bool] | None = None) -> Configuration:
    """The queue plugin in a tier below the others, as in Volcano's chart."""
    tiers = {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}}
    rest = {"predicates": {}, plugin: dict(flags or {}), "nodeorder": {}}
    return configuration(tiers, rest, actions="enqueue, allocate, gangreclaim, backfill")


def job(name: str, into: str, minimum: int, number: int = 0, on: Sequence[str] = (), **rest: Any) -> list[Raw]:
    """A gang of so many Pods of one core, or one on each of the nodes."""
    members = [
        pod(f"{name}-{i}", "1c+1Gi", name, on=on[i] if i < len(on) else "", **rest) for i in range(max(number, len(on)))
    ]
    return [group(name, into, minimum), *members]


def with_port(size: str) -> Raw:
    """A container that holds a port of its node."""
    requests = {"cpu": size, "memory": f"{size}Gi"}
    return {"name": "main", "resources": {"requests": requests}, "ports": [{"containerPort": 80, "hostPort": 80}]}


def half(name: str, deserved: str = "2c+2Gi", **spec: Any) -> Raw:
    return queue(name, deserved=deserved, **spec)


def reclaim(nodes: int, *objects: Raw | Sequence[Raw], conf: Configuration = GANG) -> World:
    return World([node(n, "1c+1Gi") for n in ON[:nodes]], *objects).run(conf)


def per_job(world: World) -> dict[str, int]:
    """Maps each PodGroup to the number of its evicted Pods."""
    return dict(Counter(name.rsplit("-", 1)[0] for name in world.evicted))


# --- Volcano's own table ---
def test_a_gang_gives_what_it_can_spare_and_runs_on() -> None:
    assert per_job(reclaim(4, half("q1"), half("q2"), job("v", "q2", 2, on=ON[:4]), job("r", "q1", 2, 2))) == {"v": 2}


def test_one_gang_is_broken_where_none_can_spare_anything_the_first_by_name() -> None:
    world = reclaim(
        4, half("q1"), half("q2"), job("b", "q2", 2, on=ON[:2]), job("a", "q2", 2, on=ON[2:4]), job("r", "q1", 2, 2)
    )
    assert per_job(world) == {"a": 2}


@pytest.mark.parametrize("conf", [GANG, below("capacity")])
def test_queues_within_what_they_deserve_lose_nothing_in_whichever_tier_that_is_said(conf: Configuration) -> None:
    queues = [half("q1"), half("q2"), half("q3")]
    victims = [*job("a", "q2", 1, on=ON[:2]), *job("b", "q3", 1, on=ON[2:4])]
    assert reclaim(4, queues, victims, job("r", "q1", 2, 2), conf=conf).evicted == set()


def test_a_queue_that_is_not_reclaimable_loses_nothing() -> None:
    queues = [half("q1"), half("q2", reclaimable=False)]
    assert reclaim(4, queues, job("v", "q2", 0, on=ON[:4]), job("r", "q1", 2, 2)).evicted == set()


def test_guaranteed_resources_are_not_reclaimed_and_no_task_is_evicted_for_half_a_gang() -> None:
    queues = [half("q1", "4c+4Gi"), half("q2", guarantee="2c+2Gi")]
    assert reclaim(4, queues, job("v", "q2", 0, on=ON[:4]), job("r", "q1", 4, 4)).evicted == set()


def test_a_queue_takes_no_more_than_it_deserves() -> None:
    queues = [half("q1", "1c+1Gi"), half("q2", "1c+1Gi")]
    assert reclaim(4, queues, job("v", "q2", 0, on=ON[:4]), job("r", "q1", 2, 2)).evicted == set()


def test_pods_that_do_not_run_yet_stay() -> None:
    victims = job("v", "q2", 0, on=ON[:4], phase="Pending")
    assert reclaim(4, half("q1"), half("q2"), victims, job("r", "q1", 2, 2)).evicted == set()


# --- who goes first ---
def test_the_queue_of_lower_priority_loses_first() -> None:
    queues = [half("q1", priority=5), half("q2", "1c+1Gi", priority=1), half("q3", "1c+1Gi", priority=3)]
    victims = [*job("b", "q2", 1, on=ON[:2]), *job("a", "q3", 1, on=ON[2:4])]
    assert per_job(reclaim(4, queues, victims, job("r", "q1", 1, 1))) == {"b": 1}


def test_the_gang_goes_of_which_least_is_lost_for_what_is_gained() -> None:
    queues = [half("q1"), half("q2", "1c+1Gi")]
    victims = [*job("a", "q2", 4, on=ON[:4]), *job("b", "q2", 2, on=ON[4:6])]
    assert per_job(reclaim(6, queues, victims, job("r", "q1", 2, 2))) == {"b": 2}


def test_a_queue_near_by_loses_before_one_farther_away() -> None:
    conf = configuration(
        {"priority": {}, "gang": {}, "conformance": {}, "capacity": {"enableHierarchy": True}},
        ["predicates"],
        actions="enqueue, allocate, gangreclaim",
    )
    queues = [
        half("root", ""),
        half("a", "4c+4Gi"),
        half("b"),
        half("a1", parent="a"),
        half("a2", "1c+1Gi", parent="a"),
    ]
    queues += [half("b1", parent="b")]
    victims = [*job("far", "b1", 1, on=ON[:3]), *job("near", "a2", 1, on=ON[3:6])]
    assert per_job(reclaim(6, queues, victims, job("r", "a1", 1, 1), conf=conf)) == {"near": 1}


def test_importance_counts_for_nothing_across_queues() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    victims = job("v", "q2", 0, on=ON[:4])
    victims[0]["spec"]["priorityClassName"] = "high"
    assert len(reclaim(4, high, half("q1"), half("q2"), victims, job("r", "q1", 2, 2)).evicted) == 2


# --- no more than is needed ---
@pytest.mark.parametrize("conf", [GANG, below("capacity"), below("proportion")])
def test_a_gang_of_four_that_deserves_four_gets_four_of_what_another_can_spare(conf: Configuration) -> None:
    queues = [half("q1", "4c+4Gi"), half("q2", "4c+4Gi")]
    assert len(reclaim(8, queues, job("v", "q2", 1, on=ON), job("r", "q1", 4, 4), conf=conf).evicted) == 4


def test_every_queue_gives_no_more_than_what_it_has_too_much() -> None:
    queues = [half("q1", "3c+3Gi"), half("q2", "1c+1Gi"), half("q3", "2c+2Gi")]
    victims = [*job("a", "q2", 0, on=ON[:3]), *job("b", "q3", 0, on=ON[3:6])]
    assert per_job(reclaim(6, queues, victims, job("r", "q1", 3, 3))) == {"a": 2, "b": 1}


def test_under_proportion_the_queue_that_has_more_than_its_share_gives() -> None:
    victims = [*job("a", "q2", 1, on=ON[:2]), *job("b", "q3", 1, on=ON[2:6])]
    queues = [queue("q1"), queue("q2"), queue("q3")]
    assert per_job(reclaim(6, queues, victims, job("r", "q1", 2, 2), conf=below("proportion"))) == {"b": 2}


def test_under_proportion_no_queue_gives_more_than_what_it_has_too_much() -> None:
    victims = [*job("a", "q2", 0, on=ON[:3]), *job("b", "q3", 0, on=ON[3:6])]
    queues = [queue("q1", weight=4), queue("q2"), queue("q3")]
    world = reclaim(6, queues, victims, job("r", "q1", 3, 3), conf=below("proportion"))
    assert sorted(per_job(world).values()) == [1, 2]


def test_a_gang_that_is_not_given_up_entirely_is_not_broken() -> None:
    """The queue of the victims has one core too many, and their gang could not run with three Pods."""
    queues = [half("q1", "1c+1Gi"), half("q2", "3c+3Gi")]
    assert reclaim(4, queues, job("v", "q2", 4, on=ON[:4]), job("r", "q1", 1, 1)).evicted == set()


def test_of_a_gang_that_runs_the_next_sub_group_need_be_deserved_and_no_more() -> None:
    conf = configuration(
        {"priority": {}, "gang": {"enableJobStarving": False}, "capacity": {}},
        ["predicates"],
        actions="allocate, gangreclaim",
    )
    preemptor = job("r", "q1", 2, 6, on=ON[:2])
    preemptor[0]["spec"]["subGroupPolicy"] = [{"name": "half", "subGroupSize": 2, "matchLabelKeys": ["part"]}]
    for i, member in enumerate(preemptor[1:]):
        member["metadata"]["labels"]["part"] = str(i // 2)
    queues = [half("q1", "4c+4Gi"), half("q2", "2c+2Gi")]
    world = reclaim(6, queues, preemptor, job("v", "q2", 0, on=ON[2:6]), conf=conf)
    assert per_job(world) == {"v": 2}


# --- in time ---
@pytest.mark.parametrize("conf", [GANG, below("proportion")])
def test_queues_do_not_take_from_each_other_for_ever(conf: Configuration) -> None:
    queues = [half("q1"), half("q2")]
    world = World([node(n, "1c+1Gi") for n in ON[:4]], queues, job("v", "q2", 1, on=ON[:4]), job("r", "q1", 2, 2))
    evictions = sum(len(world.run(conf, kubelet=True).evicted) for _ in range(6))
    assert evictions == 2
    assert {name: world.phase(name) for name in ("r", "v")} == {"r": "Running", "v": "Running"}


def test_no_task_is_evicted_whose_queue_would_reclaim_the_resources_at_once() -> None:
    """The queue deserves one core and holds two in one Pod. Without this Pod, the queue would be the one that has less
    than it deserves."""
    queues = [half("q1", "2c+2Gi"), half("q2", "1c+1Gi")]
    nodes = [node("n0", "2c+2Gi"), node("n1", "1c+1Gi")]
    victim = [group("v", "q2", 0), pod("v-0", "2c+2Gi", "v", on="n0")]
    mine = job("mine", "q1", 1, on=["n1"])
    assert World(nodes, queues, victim, mine, job("r", "q1", 1, 1)).run(GANG).evicted == set()


def test_nor_does_who_holds_a_port_on_a_node_with_room() -> None:
    """As in the preceding test, but only the port prevents the placement."""
    queues = [half("q1", "2c+2Gi"), half("q2", "1c+1Gi")]
    nodes = [node("n0", "4c+4Gi"), node("n1", "1c+1Gi")]
    victim = [group("v", "q2", 0), pod("v-0", "", "v", on="n0", containers=[with_port("2")])]
    preemptor = [group("r", "q1", 1), pod("r-0", "", "r", containers=[with_port("1")])]
    mine = job("mine", "q1", 1, on=["n1"])
    assert World(nodes, queues, victim, mine, preemptor).run(GANG).evicted == set()


def test_the_events_of_the_victims_name_the_gang_that_takes_their_place() -> None:
    world = reclaim(2, half("q1", "1c+1Gi"), half("q2", "1c+1Gi"), job("v", "q2", 1, on=ON[:2]), job("r", "q1", 1, 1))
    (eviction,) = world.decisions.evictions
    place = f"Makes room on node {eviction.task.node} for Pod default/r-0 of PodGroup default/r (priority 0, queue q1)"
    assert world.events(EVENT_RECLAIMED) == [place]
    assert world.events("Evict") == ["Pod is evicted, because of gangreclaim"]


def test_no_gang_is_broken_if_the_configuration_forbids_it() -> None:
    conf = replace(GANG, action_arguments={"gangreclaim": {"allowWholeBundle": False}})
    objects = [*job("v", "q2", 4, on=ON[:4]), *job("r", "q1", 2, 2)]
    assert reclaim(4, half("q1"), half("q2", ""), objects, conf=conf).evicted == set()
