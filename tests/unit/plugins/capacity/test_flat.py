"""Volcano's test cases of the capacity plugin without a hierarchy, and further ones."""

from typing import Any

import pytest

from tests.builders import World, configuration, group, node, only, pod, queue
from tests.unit.plugins.capacity.queues import pipelined_tasks

FLAGS = ("enabledAllocatable", "enablePreemptive", "enableReclaimable", "enableQueueOrder")
RECLAIM = configuration(
    {"capacity": only(*FLAGS), "predicates": only("enablePredicate"), "gang": only("enableJobStarving")},
    actions="allocate, reclaim",
)
GATE = configuration(
    {"capacity": only("enabledAllocatable", "enablePreemptive", "enableJobEnqueued")}, actions="enqueue, allocate"
)
WORKER = {"selector": "worker"}
N1, N2 = node("n1", "2c+4Gi+10p", WORKER), node("n2", "2c+4Gi+10p")
N8 = node("n8", "4c+8Gi+10p+nvidia.com/gpu=1")
FIXED = {"volcano.sh/preemptable": "false"}


def running(name: str, asks: str, in_group: str, on: str, **rest: Any) -> dict[str, Any]:
    return pod(name, asks, in_group, on=on, **rest)


def runs(name: str, queue_name: str) -> dict[str, Any]:
    return group(name, queue_name, phase="Running")


def waits(name: str, queue_name: str) -> dict[str, Any]:
    return group(name, queue_name, phase="Inqueue")


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, str], set[str], dict[str, str]]] = {
    "a Pod is placed while its queue is below its capability": (
        [
            *(N1, N2, queue("q1", capability="2c+2Gi"), runs("pg1", "q1"), waits("pg2", "q1")),
            running("p1", "1c+1Gi", "pg1", "n1"),
            pod("p2", "1c+1Gi", "pg2", selector=WORKER),
        ],
        {"p2": "n1"},
        set(),
        {},
    ),
    "no Pod is placed that would lift its queue above its capability": (
        [
            *(N1, N2, queue("q2", capability="1500mc+1536Mi"), runs("pg3", "q2"), waits("pg4", "q2")),
            running("p3", "1c+1Gi", "pg3", "n1"),
            pod("p4", "1c+1Gi", "pg4"),
        ],
        {},
        set(),
        {},
    ),
    "a queue below what it deserves takes from one above": (
        [
            *(N1, N2, queue("q3", deserved="2c+4Gi"), queue("q4", deserved="2c+4Gi")),
            *(runs("pg5", "q3"), waits("pg6", "q4")),
            running("p5", "2c+4Gi", "pg5", "n1", annotations=FIXED),
            running("p6", "2c+4Gi", "pg5", "n2"),
            pod("p7", "2c+4Gi", "pg6"),
        ],
        {},
        {"p6"},
        {"p7": "n2"},
    ),
    "cpu above what is deserved does not matter to a Pod that asks for cards only": (
        [
            *(node(n, "2c+4Gi+10p+nvidia.com/A100=10") for n in ("n3", "n4")),
            queue("q5", deserved="2c+4Gi+nvidia.com/A100=10"),
            queue("q6", deserved="2c+4Gi+nvidia.com/A100=10"),
            *(runs("pg7", "q5"), runs("pg8", "q6"), waits("pg9", "q6")),
            running("p8", "nvidia.com/A100=10", "pg7", "n3", annotations=FIXED),
            running("p9", "nvidia.com/A100=10", "pg7", "n4"),
            running("p10", "2c+4Gi", "pg8", "n3"),
            running("p11", "2c+4Gi", "pg8", "n4"),
            pod("p12", "nvidia.com/A100=10", "pg9"),
        ],
        {},
        {"p9"},
        {"p12": "n4"},
    ),
    "the queue of the highest priority is served first": (
        [
            *(node("n5", "2c+4Gi+10p"), node("n6", "2c+4Gi+10p")),
            *(queue(q, capability="2c+4Gi", priority=p) for q, p in (("q7", 5), ("q8", 1), ("q9", 10))),
            *(runs("pg10", "q7"), waits("pg11", "q8"), waits("pg12", "q9")),
            running("p13", "2c+4Gi", "pg10", "n5"),
            pod("p14", "2c+4Gi", "pg11"),
            pod("p15", "2c+4Gi", "pg12"),
        ],
        {"p15": "n6"},
        set(),
        {},
    ),
    "one resource within what is deserved is enough to take others back": (
        [
            *(N1, queue("q10", capability="4c+4Gi", deserved="2c+2Gi"), queue("q11", capability="2c+2Gi")),
            *(runs("pg16", "q10"), waits("pg17", "q10"), runs("pg18", "q11")),
            running("p16", "1c+3Gi", "pg16", "n1"),
            pod("p17", "1c+1Gi", "pg17"),
            running("p18", "1c+1Gi", "pg18", "n1"),
        ],
        {},
        {"p18"},
        {"p17": "n1"},
    ),
    "a queue that would have more than it deserves of everything takes nothing": (
        [
            *(N1, queue("q12", capability="4c+4Gi", deserved="1c+2Gi"), queue("q13", capability="2c+2Gi")),
            *(runs("pg19", "q12"), waits("pg20", "q12"), runs("pg21", "q13")),
            running("p19", "1c+1Gi", "pg19", "n1"),
            pod("p20", "1c+2Gi", "pg20"),
            running("p21", "1c+1Gi", "pg21", "n1"),
        ],
        {},
        set(),
        {},
    ),
    "a queue with no more than it deserves keeps Pods that have no card": (
        [
            node("n7", "4c+8Gi+10p+nvidia.com/gpu=4"),
            queue("q14", deserved="2c+4Gi+nvidia.com/gpu=2"),
            *(queue("q15"), queue("q16", deserved="2c+4Gi+nvidia.com/gpu=2")),
            *(runs("pg22", "q14"), runs("pg23", "q15"), runs("pg24", "q16"), waits("pg25", "q16")),
            running("p22", "2c+4Gi", "pg22", "n7"),
            running("p23", "nvidia.com/gpu=1", "pg23", "n7"),
            running("p24", "2c+1Gi+nvidia.com/gpu=1", "pg24", "n7"),
            pod("p25", "2c+3Gi+nvidia.com/gpu=1", "pg25"),
        ],
        {},
        set(),
        {},
    ),
    "only what the preemptor asks for is taken": (
        [
            *(N8, queue("q17", deserved="2c+2Gi"), queue("q18", deserved="2c+4Gi+nvidia.com/gpu=1")),
            *(runs(g, "q17") for g in ("pg26", "pg27", "pg28")),
            *(runs("pg29", "q18"), waits("pg30", "q18")),
            running("p26", "4Gi", "pg26", "n8"),
            running("p27", "1c", "pg27", "n8"),
            running("p28", "nvidia.com/gpu=1", "pg28", "n8"),
            running("p29", "2c+4Gi", "pg29", "n8"),
            pod("p30", "1c+nvidia.com/gpu=1", "pg30"),
        ],
        {},
        {"p28"},
        {"p30": "n8"},
    ),
    "nothing is taken for cpu from a queue that deserves cards only": (
        [
            *(N8, queue("q19", deserved="nvidia.com/gpu=1"), queue("q20", deserved="2c+2Gi")),
            *(runs("pg31", "q19"), waits("pg32", "q20")),
            running("p31", "4c+4Gi+nvidia.com/gpu=1", "pg31", "n8"),
            pod("p32", "1c+1Gi", "pg32"),
        ],
        {},
        set(),
        {},
    ),
    "a queue takes nothing that would lift it above its capability": (
        [
            *(node("n9", "8c+100Gi+10p"), node("n10", "8c+100Gi+10p")),
            queue("q21", capability="8c+100Gi", deserved="8c+100Gi"),
            *(queue("q22", capability="2c+5Gi"), runs("pg33", "q21"), waits("pg34", "q21"), runs("pg35", "q22")),
            running("p33", "7c+90Gi", "pg33", "n9"),
            pod("p34", "2c+5Gi", "pg34"),
            running("p35", "2c+5Gi", "pg35", "n10"),
        ],
        {},
        set(),
        {},
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_a_case_of_volcanos_table_has_the_same_result(title: str) -> None:
    objects, bound, evicted, pipelined = CASES[title]
    world = World(objects).run(RECLAIM)
    assert (world.bound, world.evicted, pipelined_tasks(world)) == (bound, evicted, pipelined)


# --- admission ---
def two_queues(*more: dict[str, Any]) -> World:
    return World(
        *(node("n1", "3c+3G+10p"), node("n2", "3c+3G+10p")),
        queue("q1", capability="2c+2G", deserved="2c+2G"),
        queue("q2", capability="3c+3G", deserved="2c+2G"),
        group("pg1", "q1", asks="1c+3G", phase="Running"),
        group("pg2", "q2", asks="3c+1G", phase="Running"),
        running("pod1", "1c+3G", "pg1", "n1"),
        running("pod2", "3c+1G", "pg2", "n2"),
        *more,
    ).run(GATE)


@pytest.mark.parametrize(("asks", "queue_name", "where"), [("1c", "q1", "n1"), ("1G", "q2", "n2")])
def test_only_requested_resources_are_compared_with_the_capability(asks: str, queue_name: str, where: str) -> None:
    world = two_queues(group("pg", queue_name, asks=asks), pod("new", asks, "pg"))
    assert world.bound == {"new": where}


def test_a_job_beyond_the_capability_is_not_admitted_and_gets_the_numbers() -> None:
    world = two_queues(group("pg", "q1", asks="1c+1G"), pod("new", "1c+1G", "pg"))
    assert world.bound == {}
    assert world.phase("pg") == "Pending"
    expected = "queue resource quota insufficient: insufficient memory (queue q1; memory: asked 1000000000, "
    assert any(
        expected + "used or reserved 3000000000, limit 2000000000)" in text for text in world.events("Unschedulable")
    )


def test_a_closed_queue_admits_and_places_nothing_with_the_reason() -> None:
    world = World(
        *(N1, queue("q3", capability="3c+3G", state="Closed")),
        *(group("late", "q3", asks="1c+1G"), group("early", "q3", phase="Inqueue")),
        *(pod("a", "1c", "late"), pod("b", "1c", "early")),
    ).run(GATE)
    assert world.bound == {}
    texts = world.events("Unschedulable")
    assert len([t for t in texts if "queue q3 is Closed: only an Open queue takes jobs" in t]) == 2


def test_an_admission_counts_for_the_next_job_of_the_session() -> None:
    world = World(
        *(N1, queue("q", capability="2c")),
        *(group("a", "q", asks="2c"), group("b", "q", asks="1c")),
    ).run(GATE)
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")


def test_elastic_amounts_of_a_job_are_available_for_admission() -> None:
    world = World(
        *(N1, queue("q", capability="2c"), group("a", "q", asks="1c", phase="Running"), group("b", "q", asks="1c")),
        *(running("a-0", "1c", "a", "n1"), running("a-1", "1c", "a", "n1")),
    ).run(GATE)
    assert world.phase("b") == "Inqueue"


# --- placing ---
def test_a_pod_of_a_queue_at_its_capability_gets_the_numbers() -> None:
    world = World(
        *(node("n1", "8c+8Gi"), queue("q", capability="2c"), group("a", "q", phase="Inqueue")),
        *(pod("a-0", "1c", "a"), pod("a-1", "1c", "a"), pod("a-2", "1c", "a")),
    ).run(configuration(["gang", "capacity"]))
    assert len(world.bound) == 2
    expected = "queue q has all it may have in use (cpu: asked 1, used 2, limit 2)"
    assert [expected in message for message in world.events("FailedScheduling")] == [True]


def test_the_guarantee_of_other_queues_is_kept_free() -> None:
    world = World(
        *(node("n1", "4c+8Gi"), queue("q"), queue("safe", guarantee="1c"), group("a", "q", phase="Inqueue")),
        *(pod(f"a-{i}", "1c", "a") for i in range(4)),
    ).run(configuration(["gang", "capacity"]))
    assert len(world.bound) == 3


def test_queues_that_deserve_nothing_come_after_queues_below_their_deserved_share() -> None:
    world = World(
        *(node("n1", "1c+8Gi"), queue("a"), queue("b", deserved="1c")),
        *(group("first", "a", phase="Inqueue"), group("second", "b", phase="Inqueue")),
        *(pod("p1", "1c", "first"), pod("p2", "1c", "second")),
    ).run(configuration(["gang", "capacity"]))
    assert world.bound == {"p2": "n1"}


# --- taking back ---
def test_the_guarantee_is_never_reclaimed() -> None:
    world = World(
        *(node("n1", "2c+8Gi"), queue("rich", guarantee="2c"), queue("poor", deserved="2c")),
        *(runs("a", "rich"), waits("b", "poor")),
        *(running("a-0", "1c", "a", "n1"), running("a-1", "1c", "a", "n1"), pod("b-0", "1c", "b")),
    ).run(RECLAIM)
    assert world.evicted == set()


def test_a_resource_deserved_with_zero_counts_as_deserved() -> None:
    world = World(
        *(N8, queue("none", deserved="4c+nvidia.com/gpu=0"), queue("one", deserved="1c+nvidia.com/gpu=1")),
        *(runs("a", "none"), waits("b", "one")),
        *(running("a-0", "1c+nvidia.com/gpu=1", "a", "n8"), pod("b-0", "1c+nvidia.com/gpu=1", "b")),
    ).run(RECLAIM)
    assert world.evicted == {"a-0"}
