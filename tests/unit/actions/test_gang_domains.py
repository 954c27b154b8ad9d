"""gangpreempt and network topology: the domain in which room is made. A gang stays together in this domain."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, hyper_node, node, pod, queue

GANG = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}, "capacity": {}},
    ["predicates", "nodeorder", "network-topology-aware"],
    actions="enqueue, allocate, gangpreempt, backfill",
)
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 100), ("mid", 50), ("low", 10))
]
ON = ["n0", "n1", "n2", "n3"]
CLUSTER = [
    *CLASSES, queue("q"), *(node(n, "1c+1Gi") for n in ON),
    hyper_node("s0", 1, "n0", "n1"), hyper_node("s1", 1, "n2", "n3"), hyper_node("top", 2, ">s0", ">s1"),
]  # fmt: skip


def tier(highest: int, mode: str = "hard") -> dict[str, Any]:
    return {"networkTopology": {"mode": mode, "highestTierAllowed": highest}}


def job(name: str, minimum: int, importance: str, number: int, on: Sequence[str] = (), **spec: Any) -> list[Raw]:
    members = [
        pod(f"{name}-{i}", "1c+1Gi", name, on=on[i] if i < len(on) else "", labels={"part": str(i // 2)})
        for i in range(max(number, len(on)))
    ]
    return [group(name, "q", minimum, priority_class=importance, **spec), *members]


def halves(**spec: Any) -> dict[str, Any]:
    """A sub-group for every two Pods."""
    return {"subGroupPolicy": [{"name": "half", "subGroupSize": 2, "matchLabelKeys": ["part"], **spec}]}


def gangs(*objects: Raw | Sequence[Raw], conf: Configuration = GANG) -> World:
    return World(CLUSTER, *objects).run(conf)


def cleared(world: World) -> set[str]:
    """The nodes from which Pods were evicted."""
    return {eviction.task.node for eviction in world.decisions.evictions}


def pipelined(world: World, name: str) -> set[str]:
    assert world.outcome is not None
    session = world.outcome.session
    return {session.nodes.names[row] for row in session.jobs[f"default/{name}"].placed.values()}


DOMAINS = [{"n0", "n1"}, {"n2", "n3"}]


# --- Volcano's own table ---
@pytest.mark.parametrize("highest", [1, 2])
def test_room_is_made_in_one_domain_of_the_lowest_tier_that_does(highest: int) -> None:
    world = gangs(job("v", 2, "low", 0, ON), job("p", 2, "high", 2, **tier(highest)))
    assert cleared(world) in DOMAINS
    assert pipelined(world, "p") == cleared(world)


def test_no_task_is_evicted_for_a_gang_that_no_domain_has_room_for() -> None:
    assert gangs(job("v", 0, "low", 0, ON), job("p", 3, "high", 3, **tier(1))).evicted == set()


def test_a_wider_domain_is_taken_where_it_is_allowed() -> None:
    world = gangs(job("v", 1, "low", 0, ON), job("p", 3, "high", 3, **tier(2)))
    assert len(world.evicted) == 3


def test_a_gang_of_sub_groups_loses_one_and_runs_on_with_the_other() -> None:
    world = gangs(job("v", 2, "low", 0, ON, **halves(minSubGroups=1)), job("p", 2, "high", 2, **tier(2)))
    assert world.evicted in ({"v-0", "v-1"}, {"v-2", "v-3"})


# --- domains ---
def test_of_a_gang_that_is_broken_what_is_elsewhere_stays() -> None:
    world = gangs(job("v", 4, "low", 0, ON), job("p", 2, "high", 2, **tier(1)))
    assert len(world.evicted) == 2 and cleared(world) in DOMAINS


def test_a_domain_without_victims_enough_is_passed_over() -> None:
    world = gangs(job("a", 2, "high", 0, ON[:2]), job("b", 2, "low", 0, ON[2:]), job("p", 2, "mid", 2, **tier(1)))
    assert cleared(world) == {"n2", "n3"}


def test_domains_that_could_not_do_count_for_nothing() -> None:
    conf = replace(GANG, action_arguments={"gangpreempt": {"maxDomains": 1}})
    objects = [*job("a", 2, "high", 0, ON[:2]), *job("b", 2, "low", 0, ON[2:])]
    assert cleared(gangs(objects, job("p", 2, "mid", 2, **tier(1)), conf=conf)) == {"n2", "n3"}


def test_where_no_topology_is_asked_for_any_nodes_will_do() -> None:
    world = gangs(job("a", 1, "low", 0, ["n0", "n2"]), job("b", 1, "low", 0, ["n1", "n3"]), job("p", 2, "high", 2))
    assert len(world.evicted) == 2


def test_each_sub_group_gets_a_domain_of_its_own() -> None:
    parts = halves(networkTopology={"mode": "hard", "highestTierAllowed": 1})
    world = gangs(job("v", 0, "low", 0, ON), job("p", 4, "high", 4, **parts))
    assert cleared(world) == set(ON)
    assert world.outcome is not None
    session = world.outcome.session
    waiting = session.jobs["default/p"]
    where = {uid: session.nodes.names[row] for uid, row in waiting.placed.items()}
    for sub_job in waiting.sub_jobs.values():
        assert {where[uid] for uid in sub_job.tasks} in DOMAINS


def test_a_gang_that_may_spread_is_kept_together_all_the_same() -> None:
    conf = configuration(
        ["priority", "gang"], ["predicates", "network-topology-aware"], actions="allocate, gangpreempt"
    )
    nodes = [node(n, "1c+1Gi") for n in ON]
    crossed = [hyper_node("a", 1, "n0", "n3"), hyper_node("b", 1, "n1", "n2"), hyper_node("top", 2, ">a", ">b")]
    objects = [*job("v", 4, "low", 0, ON), *job("p", 2, "high", 2, **tier(2))]
    world = World(CLASSES, queue("q"), nodes, crossed, objects).run(conf)
    assert pipelined(world, "p") == {"n0", "n3"}


def test_room_is_made_for_as_many_sub_groups_as_the_gang_needs() -> None:
    parts = halves(minSubGroups=1, networkTopology={"mode": "hard", "highestTierAllowed": 1})
    assert len(gangs(job("v", 0, "low", 0, ON), job("p", 2, "high", 4, **parts)).evicted) == 2


def test_a_gang_that_runs_gets_room_for_one_sub_group_at_a_time() -> None:
    elastic = configuration(
        {"priority": {}, "gang": {"enableJobStarving": False}}, ["predicates"], actions="allocate, gangpreempt"
    )
    more = [node(n, "1c+1Gi") for n in ("n4", "n5")]
    preemptor = job("p", 2, "high", 6, ON[:2], **halves(minSubGroups=1))
    world = gangs(more, job("v", 0, "low", 0, [*ON[2:], "n4", "n5"]), preemptor, conf=elastic)
    assert len(world.evicted) == 2


def test_what_was_nominated_in_a_domain_is_taken_there() -> None:
    world = gangs(job("v", 2, "low", 0, ON), job("p", 2, "high", 2, **tier(1)))
    domain = cleared(world)
    assert world.run(GANG).evicted == set()
    assert set(world.run(GANG).bound.values()) == domain
