"""The action preempt: which task is evicted for which task within a queue, and when no task is evicted."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.actions.eviction import solver
from scheduler.api.names import PREEMPTABLE
from scheduler.api.task import TaskStatus
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, only, pod, pods, queue

TIER = {
    "conformance": only("enablePreemptable"),
    "gang": only("enablePreemptable", "enableJobPipelined", "enableJobStarving"),
    "priority": only(
        "enableTaskOrder", "enableJobOrder", "enablePreemptable", "enableJobPipelined", "enableJobStarving"
    ),
    "proportion": only("enabledOverused", "enabledAllocatable", "enableQueueOrder"),
}
PREEMPT = configuration(TIER, actions="preempt")
CHART = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}},
    ["predicates", "nodeorder"],
    actions="enqueue, allocate, preempt, backfill",
)
YES, NO = {PREEMPTABLE: "true"}, {PREEMPTABLE: "false"}
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 100000), ("mid", 500), ("low", 10))
]


Manifests = Raw | Sequence[Raw]


def low(minimum: int = 1, name: str = "low", queue: str = "q1") -> Raw:
    return group(name, queue, minimum, phase="Inqueue", priority_class="low")


def high(minimum: int = 1, name: str = "high", queue: str = "q1") -> Raw:
    return group(name, queue, minimum, phase="Inqueue", priority_class="high")


def running(name: str, asks: str = "1c+1G", group: str = "low", on: str = "n1", **rest: Any) -> Raw:
    return pod(name, asks, group, on=on, **rest)


def evicted(*objects: Raw | Sequence[Raw], conf: Configuration = PREEMPT) -> set[str]:
    return World(CLASSES, *objects).run(conf).evicted


# --- Volcano's own table ---
def test_no_task_is_evicted_where_there_is_room() -> None:
    gang = group("pg1", "q1", 3, phase="Inqueue")
    members = [running("a", group="pg1"), running("b", group="pg1"), pod("c", "1c+1G", "pg1")]
    assert evicted(node("n1", "10c+10G"), queue("q1"), gang, members) == set()


def test_a_job_that_has_its_minimum_takes_nothing() -> None:
    one, two = group("pg1", "q1", 1, phase="Inqueue"), group("pg2", "q1", 1, phase="Inqueue")
    members = [
        running("a", group="pg1"),
        running("b", group="pg1"),
        running("c", group="pg2"),
        pod("d", "1c+1G", "pg2"),
    ]
    assert evicted(node("n1", "3c+3G"), queue("q1"), one, two, members) == set()


def test_one_goes_for_the_minimum_and_none_that_is_not_preemptable() -> None:
    victims = [running("v1", annotations=YES), running("v2", annotations=NO)]
    preemptors = pods("p", 2, "1c+1G", "high")
    assert evicted(node("n1", "2c+2G"), queue("q1"), low(), high(), victims, preemptors) == {"v1"}


def test_as_many_go_as_a_large_pod_needs() -> None:
    victims = [running("v1", annotations=YES), running("v2", annotations=YES), running("v3", annotations=NO)]
    assert evicted(node("n1", "6c+6G"), queue("q1"), low(), high(), victims, pod("p", "5c+5G", "high")) == {"v1", "v2"}


@pytest.mark.parametrize(("capability", "expected"), [("4c+4G", {"v"}), ("6c+6G", set())])
def test_a_pod_goes_for_the_queues_quota_although_the_node_has_room(capability: str, expected: set[str]) -> None:
    objects = [low(0), high(), running("v", "3c+3G", annotations=YES), pod("p", "3c+3G", "high")]
    assert evicted(node("n1", "12c+12G"), queue("q1", capability=capability), objects) == expected


def test_the_less_important_pod_of_a_job_goes_first() -> None:
    victims = [
        running("v1", annotations=NO),
        running("v2", annotations=YES),
        running("v3", annotations=YES, priority=100000),
    ]
    objects: list[Manifests] = [queue("q1", capability="3c+3G"), low(), high(), victims, pod("p", "1c+1G", "high")]
    assert evicted(node("n1", "12c+12G"), *objects) == {"v2"}


@pytest.mark.parametrize("asks", ["3c+3G", ""])
def test_a_pod_that_asks_for_nothing_goes_for_the_place_it_takes(asks: str) -> None:
    objects = [queue("q1", capability="6c+6G"), low(0), high(), running("v", "", annotations=YES)]
    assert evicted(node("n1", "12c+12G+1p"), *objects, pod("p", asks, "high")) == {"v"}


def test_a_pod_that_never_preempts_waits() -> None:
    preemptor = pod("p", "1c+1G", "high", preemptionPolicy="Never")
    assert evicted(node("n1", "1c+1G"), queue("q1"), low(0), high(), running("v"), preemptor) == set()


def test_no_task_is_evicted_where_evictions_would_not_meet_the_quota() -> None:
    objects = [low(), high(), running("v1"), running("v2"), pod("p", "4c+4G", "high")]
    assert evicted(node("n1", "10c+10G"), queue("q1", capability="3c+3G"), objects) == set()


def test_a_node_where_the_quota_cannot_be_met_is_left_for_another() -> None:
    objects = [
        queue("q1", capability="6c+6G"),
        low(0), low(0, "low3"), high(),
        running("v1", "1c+1G"), running("v2", "4c+4G", "low3", "n2"), pod("p", "3c+3G", "high"),
    ]  # fmt: skip
    assert evicted(node("n1", "3c+3G"), node("n2", "4c+4G"), *objects) == {"v2"}


def test_jobs_of_other_queues_are_left_alone() -> None:
    objects = [
        queue("q1"), queue("q2", capability="4c+4G"),
        low(0, "one"), low(0, "two", "q2"), high(1, queue="q2"),
        running("q1-v", group="one"), running("q2-v", group="two"), pod("p", "1c+1G", "high"),
    ]  # fmt: skip
    assert evicted(node("n1", "2c+2G"), *objects) == {"q2-v"}


@pytest.mark.parametrize(("flags", "expected"), [({}, {"v1"}), ({"enablePreemptable": False}, set())])
def test_only_lower_priority_gives_way_and_only_if_the_plugin_is_asked(
    flags: Mapping[str, bool], expected: set[str]
) -> None:
    conf = configuration({"priority": flags, "gang": only("enableJobPipelined"), "proportion": {}}, actions="preempt")
    victims = [running("v1", "3c+3G"), running("v2", "3c+3G", priority=1000)]
    world = World(CLASSES, node("n1", "6c+6G"), queue("q1", capability="6c+6G"), low(0), high(), victims,
                  pod("p", "3c+3G", "high")).run(conf)  # fmt: skip
    assert world.evicted == expected
    assert world.outcome is not None
    pipelined = world.outcome.session.jobs["default/high"].of(TaskStatus.PIPELINED).values()
    assert [task.name for task in pipelined] == ["p"] * len(expected)


# --- whom the tiers give ---
SMALL = [node("n1", "2c+2G"), queue("q1")]


def tiers(*rest: str) -> Configuration:
    return configuration(["priority", "gang", "conformance"], [*rest, "predicates"], actions="preempt")


def test_a_gang_at_its_minimum_is_spared_while_no_lower_tier_says_otherwise() -> None:
    objects = [*SMALL, low(2), high(), running("v1"), running("v2"), pod("p", "1c+1G", "high")]
    assert evicted(*objects, conf=tiers()) == set()


def test_a_lower_tier_decides_where_the_first_has_no_victim() -> None:
    objects = [*SMALL, low(2), high(), running("v1"), running("v2"), pod("p", "1c+1G", "high")]
    assert len(evicted(*objects, conf=tiers("drf"))) == 1


def test_drf_takes_from_equal_priority() -> None:
    objects = [*SMALL, high(1, "rich"), high(), running("v1", group="rich"), running("v2", group="rich")]
    assert len(evicted(*objects, pod("p", "1c+1G", "high"), conf=tiers("drf"))) == 1


def test_no_tier_gives_a_more_important_job_to_a_less_important_one() -> None:
    objects = [*SMALL, high(1, "rich"), low(), running("v1", group="rich"), running("v2", group="rich")]
    assert evicted(*objects, pod("p", "1c+1G", "low"), conf=tiers("drf")) == set()


@pytest.mark.parametrize("flags", [{}, {"enablePreemptable": False}])
def test_system_critical_pods_stay_whatever_tiers_and_flags_say(flags: Mapping[str, bool]) -> None:
    conf = configuration({"conformance": flags, "gang": {}, "priority": {}}, ["drf"], actions="preempt")
    victims = [running(f"v{i}", priorityClassName="system-node-critical") for i in (1, 2)]
    assert evicted(*SMALL, low(0), high(), victims, pod("p", "1c+1G", "high"), conf=conf) == set()


# --- no more than is needed ---
def test_a_pod_that_holds_nothing_of_what_lacks_stays() -> None:
    gpu = "nvidia.com/gpu=1"
    victims = [running("plain", "1c+1G", priority=1), running("card", f"1c+1G+{gpu}", priority=5)]
    objects: list[Manifests] = [
        node("n1", f"8c+8G+{gpu}"),
        queue("q1"),
        low(0),
        high(),
        victims,
        pod("p", f"1c+1G+{gpu}", "high"),
    ]
    assert evicted(*objects) == {"card"}


def test_victims_that_turn_out_to_be_unnecessary_stay() -> None:
    ports: Raw = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    victims = [running(f"v{i}", "", priority=i) for i in range(3)] + [running("with-port", "", priority=9, **ports)]
    objects: list[Manifests] = [
        node("n1"),
        low(0, queue="default"),
        high(queue="default"),
        victims,
        pod("p", "", "high", **ports),
    ]
    assert evicted(*objects, conf=CHART) == {"with-port"}


def test_a_pod_goes_that_another_may_not_be_near() -> None:
    apart = {"labelSelector": {"matchLabels": {"app": "loud"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    victims = [running("plain", priority=1), running("loud", priority=5, labels={"app": "loud"})]
    preemptor = pod("p", "1c+1G", "high", affinity=affinity)
    objects: list[Manifests] = [node("n1"), low(0, queue="default"), high(queue="default"), victims, preemptor]
    assert evicted(*objects, conf=CHART) == {"loud"}


def test_no_task_is_evicted_for_a_gang_that_cannot_be_completed() -> None:
    objects: list[Manifests] = [*SMALL, low(0), high(3), running("v1"), running("v2"), pods("p", 3, "1c+1G", "high")]
    world = World(CLASSES, *objects).run(PREEMPT)
    assert world.evicted == set()
    assert "nominatedNodeName" not in world.get("Pod", "p-0")["status"]


def test_a_member_that_fits_takes_the_free_node_and_not_the_full_one() -> None:
    conf = configuration(["priority", "gang"], ["predicates", "nodeorder", "binpack"], actions="allocate, preempt")
    objects = [low(0), high(2), running("v1", "1c+1G", on="n1"), running("v2", "1c+1G", on="n1")]
    nodes = [node("n1", "2c+2G"), node("n2", "1c+1G")]
    assert len(evicted(*nodes, queue("q1"), *objects, pods("p", 2, "1c+1G", "high"), conf=conf)) == 1


def test_a_gang_keeps_to_the_node_it_began_with_for_those_who_go_count_no_more_in_its_scores() -> None:
    """The outcome equals Volcano's on a cluster: after the first exchange, all nodes are as full as before."""
    nodes = [node(name, "2c+8Gi") for name in ("n1", "n2")]
    victims = [running(f"v{i}", "1c", on=on) for i, on in enumerate(("n1", "n1", "n2", "n2"))]
    assert evicted(*nodes, queue("q1"), low(), high(2), victims, pods("p", 2, "1c", "high"), conf=CHART) == {"v0", "v1"}


# --- within a job ---
OWN = configuration({"priority": {}, "gang": {"enableJobStarving": False}}, ["predicates"], actions="preempt")


def test_a_task_takes_the_place_of_a_less_important_one_of_its_own_job() -> None:
    members = [running("lo-0", group="a", priority=10), running("lo-1", group="a", priority=10)]
    a = group("a", "q1", 1, phase="Inqueue")
    assert len(evicted(*SMALL, a, members, pod("hi", "1c+1G", "a", priority=1000), conf=OWN)) == 1
    assert evicted(*SMALL, a, members, pod("hi", "1c+1G", "a", priority=10), conf=OWN) == set()


# --- the node whose victims matter least ---
def comparing_nodes(**arguments: Any) -> Configuration:
    base = configuration(["priority", "gang"], ["predicates", "binpack"], actions="preempt")
    return replace(base, action_arguments={"preempt": {"enableTopologyAwarePreemption": True, **arguments}})


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([9], [1], {"n2-0"}),
        ([5, 5], [5, 1], {"n2-0", "n2-1"}),
        ([5, -3], [5], {"n2-0"}),
        ([5], [5], {"n2-0"}),
    ],
)
def test_highest_priority_then_sum_then_number_and_then_youth_of_victims_decide(
    first: list[int], second: list[int], expected: set[str]
) -> None:
    objects: list[Raw] = [low(0), high(), pod("p", "2c", "high")]
    for name, priorities in (("n1", first), ("n2", second)):
        objects.append(node(name, "2c+4Gi"))
        asks = "1c" if len(priorities) == 2 else "2c"
        objects += [running(f"{name}-{i}", asks, on=name, priority=p) for i, p in enumerate(priorities)]
    everywhere = comparing_nodes(minCandidateNodesPercentage=100)
    assert evicted(queue("q1"), *objects, conf=everywhere) == expected


def test_as_many_nodes_are_compared_as_the_arguments_say() -> None:
    nodes = [o for i in range(4) for o in (node(f"n{i}", "1c+1Gi"), running(f"v{i}", "1c", on=f"n{i}", priority=9 - i))]
    objects: list[Manifests] = [queue("q1"), low(0), high(), nodes, pod("p", "1c", "high")]
    assert evicted(*objects, conf=comparing_nodes()) == {"v0"}
    assert evicted(*objects, conf=comparing_nodes(minCandidateNodesAbsolute=3)) == {"v2"}
    assert evicted(*objects, conf=comparing_nodes(minCandidateNodesAbsolute=9, maxCandidateNodesAbsolute=2)) == {"v1"}


def test_a_victim_made_unnecessary_by_a_later_one_stays_where_nodes_are_compared() -> None:
    objects = [node("n1", "4c+4Gi"), queue("q1"), low(0), high(), pod("p", "3c", "high")]
    victims = [running("small", "1c", priority=1), running("large", "3c", priority=2)]
    assert evicted(*objects, victims, conf=comparing_nodes()) == {"large"}


# --- Events and nominations ---
def test_the_event_of_the_victim_names_the_pod_that_takes_its_place() -> None:
    objects = [node("n1", "1c+1Gi"), low(0, queue="default"), high(queue="default"), running("v", "1c")]
    world = World(CLASSES, *objects, pod("p", "1c", "high")).run(CHART)
    assert world.events("Evict") == ["Pod is evicted, because of preempt"]
    assert world.events("Preempted") == [
        "Makes room on node n1 for Pod default/p of PodGroup default/high (priority 100000, queue default)"
    ]


def test_the_preemptor_is_nominated_to_its_node_and_waits_there_for_the_victim_to_go() -> None:
    objects = [node("n1", "1c+1Gi"), node("n2", "1c+1Gi"), low(0, queue="default"), high(queue="default")]
    world = World(CLASSES, *objects, running("v1", "1c"), running("v2", "1c", on="n2"), pod("p", "1c", "high"))
    world.run(CHART)
    (victim,) = world.evicted
    place = world.get("Pod", "p")["status"]["nominatedNodeName"]
    assert place == {"v1": "n1", "v2": "n2"}[victim]
    world.run(CHART, cycles=3, exits=False)
    assert world.evicted == set() and world.bound == {}
    world.cluster.run_kubelet()
    assert world.run(CHART).bound == {"p": place}


def test_a_preemptor_waits_for_the_port_its_victim_still_holds() -> None:
    ports: Raw = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    objects = [node("n1"), node("n2"), low(0, queue="default"), high(queue="default")]
    victims = [running("v1", "", **ports), running("v2", "", on="n2", **ports)]
    world = World(CLASSES, *objects, victims, pod("p", "", "high", **ports)).run(CHART)
    assert len(world.evicted) == 1
    assert world.run(CHART, cycles=2, exits=False).evicted == set()


def test_refusals_of_the_trial_are_not_recorded() -> None:
    objects = [queue("q1", capability="4c+4G"), low(0), high(), running("v", "3c+3G"), pod("p", "3c+3G", "high")]
    world = World(CLASSES, node("n1", "12c+12G"), *objects).run(PREEMPT)
    assert world.evicted == {"v"}
    assert world.outcome is not None and world.outcome.session.jobs["default/high"].refusals == ()


def test_a_best_effort_member_that_was_pipelined_without_evictions_is_bound_by_backfill() -> None:
    objects = [node("n1", "1c+1Gi"), high(2, queue="default"), pod("x", "", "high"), pod("y", "1c", "high")]
    world = World(CLASSES, *objects).run(CHART)
    assert world.bound == {"x": "n1", "y": "n1"}


def test_a_preemptor_of_a_pod_slot_waits_for_it_and_takes_no_second_one() -> None:
    objects = [node("n1", "9c+9Gi+2p"), low(0, queue="default"), high(queue="default"), pod("p", "1c", "high")]
    world = World(CLASSES, *objects, running("v1", "1c"), running("v2", "1c")).run(CHART)
    assert len(world.evicted) == 1
    assert world.run(CHART, cycles=3, exits=False).evicted == set()


def test_a_gang_that_needs_no_eviction_is_left_to_allocate_even_if_preempt_runs_first() -> None:
    plan = configuration({"priority": {}, "gang": {}}, ["predicates"], actions="preempt, allocate")
    objects = node("n1", "4c+4Gi"), node("n2", "4c+4Gi"), queue("q1"), low(), high(3)
    running = pod("v", "1c+1Gi", "low", on="n1")
    world = World(CLASSES, *objects, running, pods("p", 3, "1c+1Gi", "high")).run(plan)
    assert set(world.bound) == {"p-0", "p-1", "p-2"} and not world.evicted


def test_after_many_evictions_the_other_jobs_are_left_to_the_next_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_EVICTIONS", 2)
    gangs = [[high(2, f"high-{i}", "default"), *pods(f"h{i}", 2, "1c", f"high-{i}")] for i in range(2)]
    held = [running(f"v{i}", "1c") for i in range(4)]
    world = World(CLASSES, node("n1", "4c+4Gi"), low(0, queue="default"), held, *gangs)
    first = world.run(CHART).evicted
    nominated = [world.get("Pod", name)["status"].get("nominatedNodeName") for name in ("h0-0", "h0-1", "h1-0", "h1-1")]
    assert len(first) == 2 and nominated == ["n1", "n1", None, None]
    assert world.run(CHART).evicted == {"v0", "v1", "v2", "v3"} - first
    assert world.run(CHART).evicted == set()
