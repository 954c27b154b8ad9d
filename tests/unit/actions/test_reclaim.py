"""The action reclaim: which queue gets back which amounts, and from which queues."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.actions.eviction import solver
from scheduler.api.names import PREEMPTABLE
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, only, pod, pods, queue

RECLAIM = configuration(
    {
        "conformance": only("enableReclaimable"),
        "gang": only("enableReclaimable", "enableJobStarving"),
        "proportion": only("enableReclaimable", "enableQueueOrder", "enablePreemptive"),
        "priority": only("enableJobOrder", "enableTaskOrder"),
    },
    actions="reclaim",
)
CHART = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}},
    ["predicates", "proportion", "nodeorder"],
    actions="enqueue, allocate, reclaim, backfill",
)
YES, NO = {PREEMPTABLE: "true"}, {PREEMPTABLE: "false"}
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 100000), ("mid", 500), ("low", 100))
]


def job(name: str, queue: str, minimum: int = 1, priority_class: str = "") -> Raw:
    return group(name, queue, minimum, phase="Inqueue", priority_class=priority_class)


def running(name: str, group: str, asks: str = "1c+1Gi", on: str = "n1", **rest: Any) -> Raw:
    return pod(name, asks, group, on=on, **rest)


def evicted(*objects: Any, conf: Configuration = RECLAIM) -> set[str]:
    return World(CLASSES, *objects).run(conf).evicted


# --- Volcano's own table ---
def two_queues(**preemptor: Any) -> list[Any]:
    victims = [running(f"v{i}", "a", annotations=YES if i == 2 else NO) for i in (1, 2, 3)]
    return [
        node("n1", "3c+3Gi"),
        queue("q1"),
        job("a", "q1"),
        job("b", "q2"),
        victims,
        pod("p", "1c+1Gi", "b", **preemptor),
    ]


def test_a_queue_over_its_share_gives_back_what_is_preemptable() -> None:
    assert evicted(*two_queues(), queue("q2")) == {"v2"}


def test_the_worse_queue_loses_first() -> None:
    objects = [
        node("n1", "4c+4Gi"), queue("q1"), queue("q2"), queue("q3"),
        job("a", "q1", 1, "mid"), job("b", "q2", 1, "low"), job("c", "q3", 1, "high"),
        running("a-1", "a", annotations=YES), running("a-2", "a", annotations=YES),
        running("b-1", "b", annotations=YES), running("b-2", "b", annotations=NO),
        pod("p", "1c+1Gi", "c"),
    ]  # fmt: skip
    assert evicted(*objects) == {"b-1"}


def test_the_queue_of_lower_priority_loses_first() -> None:
    objects = [
        node("n1", "4c+4Gi"), queue("q1", priority=5), queue("q2", priority=10), queue("q3", priority=1),
        job("a", "q1"), job("b", "q2"), job("c", "q3"),
        running("a-1", "a", annotations=YES), running("a-2", "a", annotations=NO),
        running("b-1", "b", annotations=YES), running("b-2", "b", annotations=NO),
        pod("p", "1c+1Gi", "c"),
    ]  # fmt: skip
    assert evicted(*objects) == {"a-1"}


@pytest.mark.parametrize(
    ("preemptor", "state"), [({"preemptionPolicy": "Never"}, "Open"), ({}, "Closed"), ({}, "Closing")]
)
def test_a_pod_that_never_preempts_and_a_queue_that_is_not_open_get_nothing(preemptor: Any, state: str) -> None:
    assert evicted(*two_queues(**preemptor), queue("q2", state=state)) == set()


def test_what_is_idle_counts_and_only_the_rest_is_taken() -> None:
    objects = [
        node("n1", "10c+2Gi"), queue("q1"), queue("q2"), queue("q3", 2),
        job("a", "q1", 0), job("b", "q2", 0), job("c", "q3"),
        running("a-1", "a", "1c+1G"), running("b-1", "b", "1c+1G"), pod("p", "2c+1G", "c"),
    ]  # fmt: skip
    assert len(evicted(*objects)) == 1


def test_a_task_that_may_reclaims_although_the_one_before_may_not() -> None:
    objects = [
        node("n1", "2c+2Gi"), queue("q1"), queue("q2"), job("a", "q1"), job("b", "q2", 2),
        running("v1", "a", annotations=YES), running("v2", "a", annotations=NO),
        pod("p1", "1c+1Gi", "b", preemptionPolicy="Never"), pod("p2", "1c+1Gi", "b"),
    ]  # fmt: skip
    assert evicted(*objects) == {"v1"}


def test_no_task_is_evicted_where_the_reclaimer_fits() -> None:
    objects = [node("n1", "10c+10Gi"), queue("q1"), queue("q2", 9), job("a", "q1"), job("b", "q2")]
    assert evicted(*objects, running("v", "a", "2c+1Gi"), pod("p", "3c+1Gi", "b")) == set()


# --- who gives, and how much ---
def full(minimum: int = 1, **q1: Any) -> list[Any]:
    members = [running(f"a-{i}", "a", "1c+1Gi", f"n{i % 2 + 1}") for i in range(8)]
    return [
        node("n1", "4c+16Gi"),
        node("n2", "4c+16Gi"),
        queue("q1", **q1),
        queue("q2"),
        job("a", "q1", minimum),
        members,
    ]


@pytest.mark.parametrize(("q1", "number"), [({}, 1), ({"reclaimable": True}, 1), ({"reclaimable": False}, 0)])
def test_a_queue_that_is_not_reclaimable_loses_nothing(q1: Mapping[str, bool], number: int) -> None:
    assert len(evicted(*full(**q1), job("b", "q2"), pods("b", 8, "1c+1Gi", "b"))) == number


def test_single_jobs_take_up_to_the_share_of_their_queue() -> None:
    preemptors = [(job(f"b{i}", "q2"), pod(f"b{i}", "1c+1Gi", f"b{i}")) for i in range(8)]
    assert len(evicted(*full(), [o for pair in preemptors for o in pair])) == 4


@pytest.mark.parametrize(("minimum", "number"), [(4, 4), (5, 0)])
def test_a_gang_reclaims_as_a_whole_or_not_at_all(minimum: int, number: int) -> None:
    assert len(evicted(*full(), job("b", "q2", minimum), pods("b", 8, "1c+1Gi", "b"), conf=CHART)) == number


def test_the_first_node_by_name_that_can_be_had_is_taken() -> None:
    assert evicted(*full(), job("b", "q2", 4), pods("b", 4, "1c+1Gi", "b"), conf=CHART) == {"a-0", "a-2", "a-4", "a-6"}


def test_a_gang_at_its_minimum_is_broken_only_by_a_lower_tier() -> None:
    gang_first = configuration(["priority", "gang"], ["proportion"], actions="reclaim")
    together = configuration(["priority", "gang", "proportion"], actions="reclaim")
    objects = [*full(8), job("b", "q2"), pods("b", 4, "1c+1Gi", "b")]
    assert len(evicted(*objects, conf=gang_first)) == 1
    assert evicted(*objects, conf=together) == set()


def test_only_running_pods_are_reclaimed() -> None:
    objects = [node("n1", "1c+1Gi"), queue("q1"), queue("q2"), job("a", "q1", 0), job("b", "q2")]
    assert evicted(*objects, running("v", "a", phase="Pending"), pod("p", "1c+1Gi", "b"), conf=CHART) == set()


@pytest.mark.parametrize(
    "critical", [{"priorityClassName": "system-node-critical"}, {"priorityClassName": "system-cluster-critical"}]
)
def test_system_critical_pods_stay_although_a_lower_tier_would_give_them(critical: Mapping[str, str]) -> None:
    objects = [node("n1", "1c+1Gi"), queue("q1"), queue("q2"), job("a", "q1", 0), job("b", "q2")]
    assert evicted(*objects, running("v", "a", **critical), pod("p", "1c+1Gi", "b"), conf=CHART) == set()


def test_no_task_is_evicted_for_a_pod_that_could_not_run_on_the_node_anyway() -> None:
    ports: dict[str, Any] = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    keeper = running("keeper", "a", "", annotations=NO, **ports)
    cpu = {"resources": {"requests": {"cpu": "1"}}}
    preemptor = pod("p", "", "b", containers=[{**ports["containers"][0], **cpu}])
    objects = [node("n1", "1c+1Gi"), queue("q1"), queue("q2"), job("a", "q1", 0), job("b", "q2")]
    assert evicted(*objects, keeper, running("v", "a", "1c"), preemptor, conf=CHART) == set()


def test_the_event_of_the_victim_names_the_job_and_queue_that_take_its_place() -> None:
    world = World(CLASSES, *two_queues(), queue("q2")).run(RECLAIM)
    assert world.events("Evict") == ["Pod is evicted, because of reclaim"]
    assert world.events("Reclaimed") == [
        "Makes room on node n1 for Pod default/p of PodGroup default/b (priority 0, queue q2)"
    ]


def test_no_task_is_evicted_whose_queue_would_reclaim_the_resources_at_once() -> None:
    """The first tier evicts the Pods that a job has beyond its minimum, whatever its queue deserves."""
    conf = configuration(["gang"], ["predicates", "proportion"], actions="enqueue, allocate, reclaim")
    members = [running("a", "a", "1c"), running("b", "b", "1c"), running("c", "c", "4c")]
    jobs = [job("a", "q1", 0), job("b", "q2", 0), job("c", "q3"), job("more", "q1"), pod("m", "1c", "more")]
    queues = [queue("q1"), queue("q2"), queue("q3", reclaimable=False)]
    assert evicted(node("n1", "6c+8Gi"), queues, jobs, members, conf=conf) == set()


def test_a_port_that_a_victim_still_holds_causes_no_further_eviction() -> None:
    ports: dict[str, Any] = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    cpu = {"resources": {"requests": {"cpu": "1"}}}
    server: Raw = {"containers": [{**ports["containers"][0], **cpu}]}
    objects = [node("n1", "1c+1Gi"), node("n2", "1c+1Gi"), queue("q1"), queue("q2"), job("a", "q1", 0), job("b", "q2")]
    victims = [running(f"v{i}", "a", "", f"n{i}", **server) for i in (1, 2)]
    world = World(CLASSES, objects, victims, pod("p", "", "b", **server)).run(CHART)
    assert world.evicted == {"v1"}
    assert world.run(CHART, cycles=3, exits=False).evicted == set()


def test_a_gang_that_needs_no_eviction_is_left_to_allocate_even_if_reclaim_runs_first() -> None:
    plan = configuration({"priority": {}, "gang": {}}, ["proportion", "predicates"], actions="reclaim, allocate")
    objects = node("n1", "4c+4Gi"), node("n2", "4c+4Gi"), queue("q1"), queue("q2"), job("a", "q1"), job("b", "q2", 3)
    world = World(CLASSES, *objects, running("v", "a"), pods("p", 3, "1c+1Gi", "b")).run(plan)
    assert set(world.bound) == {"p-0", "p-1", "p-2"} and not world.evicted


def test_after_many_evictions_the_other_jobs_are_left_to_the_next_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_EVICTIONS", 1)
    held = [running(f"v{i}", "a", annotations=YES) for i in range(4)]
    waiting = [[job(f"b{i}", "q2"), pod(f"p{i}", "1c+1Gi", f"b{i}")] for i in range(2)]
    world = World(CLASSES, node("n1", "4c+4Gi"), queue("q1"), queue("q2"), job("a", "q1"), held, *waiting)
    first = world.run(CHART).evicted
    assert len(first) == 1
    second = world.run(CHART).evicted
    assert len(second) == 1 and second.isdisjoint(first)
