"""Volcano's test cases of the capacity plugin with a hierarchy of queues, and deliberate differences."""

from typing import Any

import pytest

from scheduler.api.task import TaskStatus
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import RECLAIMABLE
from tests.builders import Raw, World, configuration, group, node, only, pod, queue
from tests.unit.plugins.capacity.queues import pipelined_tasks, runs, waits

FIXED = {"volcano.sh/preemptable": "false"}
N1 = node("n1", "8c+8Gi+11p")
A100 = "nvidia.com/a100"
Q3 = [
    queue("q3", capability="4c+4Gi+10p", deserved="4c+4Gi+10p", parent="root"),
    queue("q31", capability="4c+4Gi+4p", deserved="2c+2Gi+2p", parent="q3"),
    queue("q32", capability="4c+4Gi+4p", deserved="2c+2Gi+2p", parent="q3"),
]


def hierarchy(level: int = 0, *more: str) -> Configuration:
    """The plugins and flags of Volcano's tests; ``level``: ancestorReclaimLevel."""
    flags = ("enabledAllocatable", "enablePreemptive", "enableReclaimable", "enableQueueOrder", "enableHierarchy")
    plugins = {
        "capacity": only(*flags, "enableJobEnqueued"),
        "predicates": only("enablePredicate"),
        "gang": only("enableJobStarving"),
        **{name: only("enableJobOrder", "enableTaskOrder") for name in more},
    }
    arguments = {"capacity": {"ancestorReclaimLevel": level}}
    return configuration(plugins, actions="enqueue, allocate, reclaim", arguments=arguments)


def q1_and_q2() -> list[Raw]:
    return [
        *(queue("q1", capability="4c+4Gi", parent="root"), queue("q2", capability="4c+4Gi", parent="root")),
        *(queue("q11", capability="1c+1Gi", parent="q1"), queue("q12", capability="3c+3Gi", parent="q1")),
    ]


CASES: dict[str, tuple[list[Any], dict[str, str], set[str], dict[str, str]]] = {
    "a Pod of a leaf is placed": ([N1, q1_and_q2(), waits("p1", "q11", "1c+1Gi")], {"p1": "n1"}, set(), {}),
    "a Pod of a queue with others below it is not": ([N1, q1_and_q2(), waits("p2", "q1", "1c+1Gi")], {}, set(), {}),
    "Pods are placed up to the capability of leaf and parent": (
        [
            *(N1, Q3, queue("q4", capability="4c+4Gi+4p", deserved="2c+2Gi+1p", parent="root")),
            *(group("pg3", "q31", 2, phase="Inqueue"), pod("p3", "2c+2Gi", "pg3"), pod("p4", "2c+2Gi", "pg3")),
        ],
        {"p3": "n1", "p4": "n1"},
        set(),
        {},
    ),
    "the sibling gives up what it has too much before a queue farther away does": (
        [
            *(N1, Q3, queue("q4", capability="4c+4Gi+4p", deserved="2c+2Gi+1p", parent="root")),
            *(runs("p5", "q4", "4c+4Gi", "n1"), group("pg5", "q31", phase="Running")),
            *(pod("p6", "2c+2Gi", "pg5", on="n1", annotations=FIXED), pod("p7", "2c+2Gi", "pg5", on="n1")),
            waits("p8", "q32", "2c+2Gi"),
        ],
        {},
        {"p7"},
        {"p8": "n1"},
    ),
    "nothing is placed beyond the capability of a parent": (
        [
            *(N1, Q3, queue("q33", capability="4c+4Gi+4p", deserved="2p", parent="q3")),
            *(runs("p6", "q31", "2c+2Gi", "n1", annotations=FIXED), runs("p9", "q32", "2c+2Gi", "n1")),
            waits("p10", "q33", "3c+3Gi"),
        ],
        {},
        set(),
        {},
    ),
    "cpu that is not limited is not limited below either": (
        [
            *(N1, queue("q5", capability="4Gi", parent="root"), queue("q51", capability="2Gi", parent="q5")),
            waits("p11", "q51", "1c"),
        ],
        {"p11": "n1"},
        set(),
        {},
    ),
    "guarantees that add up to more than the parent may have do no harm": (
        [
            *(N1, queue("q7", capability="6c+4Gi", parent="root")),
            *(queue(q, capability="6c+4Gi", guarantee="4c+3Gi", parent="q7") for q in ("q71", "q72")),
            waits("p", "q71", "4c+3Gi"),
        ],
        {"p": "n1"},
        set(),
        {},
    ),
    "cards that a parent does not mention are not limited": (
        [
            *(node("n2", "8c+8Gi+10p+nvidia.com/gpu=8"), queue("up", parent="root")),
            *(queue(q, capability="4c+4Gi+nvidia.com/gpu=4", parent="up") for q in ("left", "right")),
            *(waits("p14", "left", "1c+1Gi+nvidia.com/gpu=4"), waits("p15", "right", "1c+1Gi+nvidia.com/gpu=4")),
        ],
        {"p14": "n2", "p15": "n2"},
        set(),
        {},
    ),
    "one resource within what is deserved is enough to take from a queue that deserves nothing": (
        [
            node("n3", f"16c+16Gi+{A100}=5+rdma/hca=1001+11p"),
            queue("root", deserved=f"16c+16Gi+{A100}=4+rdma=1000"),
            queue("top", deserved=f"{A100}=2", parent="root"),
            *(queue("some", deserved=f"{A100}=2", parent="top"), queue("none", parent="top")),
            runs("p17", "none", f"1c+1Gi+{A100}=2+rdma/hca=1", "n3"),
            runs("p18", "none", f"1c+1Gi+{A100}=2+rdma/hca=1", "n3", annotations=FIXED),
            waits("p16", "some", f"1c+1Gi+{A100}=2+rdma/hca=1"),
        ],
        {},
        {"p17"},
        {"p16": "n3"},
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_a_case_of_volcanos_table_has_the_same_result(title: str) -> None:
    objects, bound, evicted, pipelined = CASES[title]
    world = World(*objects).run(hierarchy())
    assert (world.bound, world.evicted, pipelined_tasks(world)) == (bound, evicted, pipelined)


def test_a_job_is_admitted_only_if_all_ancestors_have_room_for_its_minimum() -> None:
    world = World(
        *(N1, queue("q6", capability="2c+4Gi"), queue("q61", parent="q6"), queue("q62", parent="q6")),
        *(group("first", "q61", asks="2c+4Gi"), group("second", "q62", asks="2c+4Gi")),
    ).run(hierarchy())
    assert (world.phase("first"), world.phase("second")) == ("Inqueue", "Pending")
    expected = "(queue q6, above q62,; cpu: asked 2, used or reserved 2, limit 2; memory: "
    assert any(expected in message for message in world.events("Unschedulable"))


# --- ancestors that have a say in reclaiming ---
N4 = node("n1", f"16c+16Gi+{A100}=4+rdma/hca=1001+11p")
N2C = node("n1", "2c+2Gi+10p")
CARD = f"1c+1Gi+{A100}=1+rdma/hca=1"
ROOT = queue("root", deserved=f"16c+16Gi+{A100}=4+rdma=1000")
PROJECTS = [
    *(ROOT, queue("one", deserved=f"{A100}=1", capability=f"{A100}=2", parent="root")),
    *(queue("one-kept", deserved=f"{A100}=1", capability=f"{A100}=1", parent="one"), queue("one-loose", parent="one")),
    queue("two", deserved=f"{A100}=3", capability=f"{A100}=4", parent="root"),
    *(queue("two-kept", deserved=f"{A100}=3", capability=f"{A100}=3", parent="two"), queue("two-loose", parent="two")),
]
THREE_LEVELS = [
    queue("grand-a", deserved="2c+2Gi", capability="4c+4Gi"),
    queue("parent-a", deserved="2c+2Gi", capability="2c+2Gi", parent="grand-a"),
    queue("queue-a", deserved="2c+2Gi", capability="2c+2Gi", parent="parent-a"),
    queue("grand-b", deserved="3c+3Gi", capability="4c+4Gi"),
    queue("parent-b", deserved="1c+1Gi", capability="2c+2Gi", parent="grand-b"),
    queue("queue-b", deserved="1c+1Gi", capability="2c+2Gi", parent="parent-b"),
]
WITH_ANCESTORS: dict[str, tuple[int, list[Any], set[str]]] = {
    "a leaf takes what its parent deserves": (
        1,
        [
            *(N4, ROOT, queue("top", deserved=f"{A100}=1"), queue("leaf", parent="top"), queue("other")),
            runs("victim", "other", f"1c+1Gi+{A100}=4+rdma/hca=1", "n1"),
            waits("preemptor", "leaf", CARD),
        ],
        {"victim"},
    ),
    "the least important Pod goes when leaf and parent have too much": (
        1,
        [
            *(N4, PROJECTS, runs("p1", "two-loose", CARD, "n1", priority=2)),
            *(runs(name, "two-loose", CARD, "n1", priority=2) for name in ("p2", "p3")),
            *(runs("victim", "two-loose", CARD, "n1", priority=1), waits("preemptor", "one-loose", CARD)),
        ],
        {"victim"},
    ),
    "nothing is taken from a leaf that has no more than it deserves": (
        1,
        [
            *(node("n1", f"8c+8Gi+{A100}=1+rdma/hca=1001+11p"), ROOT),
            *(queue("left", deserved=f"{A100}=1"), queue("left-kept", deserved=f"{A100}=1", parent="left")),
            *(queue("left-loose", parent="left"), queue("right", deserved=f"{A100}=1")),
            queue("right-kept", deserved=f"{A100}=1", parent="right"),
            *(runs("p1", "left-kept", CARD, "n1"), runs("p3", "left-loose", CARD, "n1", annotations=FIXED)),
            waits("preemptor", "right-kept", CARD),
        ],
        set(),
    ),
    "at level 0 only leaves are looked at": (
        0,
        [N2C, THREE_LEVELS, runs("victim", "queue-b", "2c+2Gi", "n1"), waits("preemptor", "queue-a", "2c+2Gi")],
        {"victim"},
    ),
    "at level 1 the parent has too much as well": (
        1,
        [N2C, THREE_LEVELS, runs("victim", "queue-b", "2c+2Gi", "n1"), waits("preemptor", "queue-a", "2c+2Gi")],
        {"victim"},
    ),
    "at level 2 the grandparent has not": (
        2,
        [N2C, THREE_LEVELS, runs("victim", "queue-b", "2c+2Gi", "n1"), waits("preemptor", "queue-a", "2c+2Gi")],
        set(),
    ),
    "siblings that deserve nothing have nothing to settle": (
        1,
        [
            *(N2C, queue("top", deserved="4c+4Gi", capability="4c+4Gi")),
            *(queue("queue-a", parent="top"), queue("queue-b", parent="top")),
            *(runs("p", "queue-b", "2c+2Gi", "n1"), waits("preemptor", "queue-a", "2c+2Gi")),
        ],
        set(),
    ),
    "nor have cousins": (
        2,
        [
            *(N2C, queue("grand", deserved="2c+2Gi", capability="2c+2Gi")),
            *(queue("parent-a", parent="grand"), queue("queue-a", parent="parent-a")),
            *(queue("parent-b", parent="grand"), queue("queue-b", parent="parent-b")),
            *(runs("p", "queue-b", "2c+2Gi", "n1"), waits("preemptor", "queue-a", "2c+2Gi")),
        ],
        set(),
    ),
    "nor has an uncle": (
        2,
        [
            *(N2C, queue("grand", deserved="1c+1Gi", capability="2c+2Gi")),
            queue("parent", deserved="1c+1Gi", capability="2c+2Gi", parent="grand"),
            *(queue("deep", parent="parent"), queue("shallow", parent="grand")),
            *(runs("p", "deep", "2c+2Gi", "n1"), waits("preemptor", "shallow", "2c+2Gi")),
        ],
        set(),
    ),
    "a grandparent with no more than it deserves protects its own, however far up the preemptor stands": (
        2,
        [
            node("n1", f"4c+4Gi+10p+{A100}=2"),
            *(queue("up", deserved=f"{A100}=1"), queue("shallow", deserved=f"{A100}=1", parent="up")),
            *(queue("grand", deserved=f"{A100}=2"), queue("parent", deserved=f"{A100}=1", parent="grand")),
            queue("deep", deserved=f"{A100}=1", parent="parent"),
            *(runs("p", "deep", f"1c+1Gi+{A100}=2", "n1"), waits("preemptor", "shallow", f"1c+1Gi+{A100}=1")),
        ],
        set(),
    ),
}


@pytest.mark.parametrize("title", WITH_ANCESTORS)
def test_ancestors_decide_about_reclaim_as_in_volcano(title: str) -> None:
    level, objects, evicted = WITH_ANCESTORS[title]
    world = World(*objects).run(hierarchy(level, "priority"))
    assert world.evicted == evicted
    assert pipelined_tasks(world) == ({"preemptor": "n1"} if evicted else {})


# --- where Volcano errs ---
PLAIN = configuration(["gang"], {"capacity": {"enableHierarchy": True}, "predicates": {}})


def test_a_missing_parent_stops_only_the_queue_and_its_descendants() -> None:
    world = World(
        *(N1, queue("lost", parent="nowhere"), queue("below", parent="lost"), queue("sound")),
        *(waits("a", "lost", "1c"), waits("b", "below", "1c"), waits("c", "sound", "1c")),
    ).run(PLAIN)
    assert world.bound == {"c": "n1"}
    assert sorted(world.events("Malformed")) == [
        "spec.parent: queue lost, which is above it, has a parent that is missing: queue nowhere does not exist; "
        "the jobs of this queue wait",
        "spec.parent: queue nowhere does not exist; the jobs of this queue wait",
    ]
    why = "queue lost is not in the hierarchy of queues, so its jobs wait: queue nowhere does not exist"
    assert why in world.get("PodGroup", "a")["status"]["conditions"][0]["message"]


def test_a_cycle_of_parents_stops_only_its_queues() -> None:
    world = World(
        *(N1, queue("a", parent="b"), queue("b", parent="a"), queue("sound")),
        *(waits("lost", "a", "1c"), waits("fine", "sound", "1c")),
    ).run(PLAIN)
    assert world.bound == {"fine": "n1"}
    assert any("its parents form a circle: a, b, a" in message for message in world.events("Malformed"))


def test_the_pod_group_of_a_job_in_a_non_leaf_queue_has_the_reason() -> None:
    world = World(N1, queue("up"), queue("down", parent="up"), waits("a", "up", "1c")).run(PLAIN)
    assert world.bound == {}
    (condition,) = world.get("PodGroup", "a")["status"]["conditions"]
    assert "queue up has 1 queues below it (down): only those without take jobs" in condition["message"]


def test_a_best_effort_pod_of_a_non_leaf_queue_waits() -> None:
    world = World(N1, queue("up"), queue("down", parent="up"), waits("a", "up", ""), waits("b", "down", "")).run(PLAIN)
    assert world.bound == {"b": "n1"}


def test_a_job_in_a_non_leaf_queue_is_not_admitted() -> None:
    world = World(N1, queue("up"), queue("down", parent="up"), group("a", "up", asks="1c")).run(PLAIN)
    assert world.phase("a") == "Pending"


def test_pods_running_in_a_queue_that_became_a_parent_still_count() -> None:
    world = World(
        *(N1, queue("up", capability="2c"), queue("down", parent="up")),
        *(runs("old", "up", "1c", "n1"), waits("a", "down", "1c"), waits("b", "down", "1c")),
    ).run(PLAIN)
    assert len(world.bound) == 1


def test_the_refusal_of_a_pod_names_the_full_ancestor_queue() -> None:
    world = World(
        *(N1, queue("up", capability="2c"), queue("left", parent="up"), queue("right", parent="up")),
        *(runs("a", "left", "2c", "n1"), waits("b", "right", "1c")),
    ).run(PLAIN)
    expected = "queue up, above right, has all it may have in use (cpu: asked 1, used 2, limit 2)"
    assert any(expected in message for message in world.events("FailedScheduling"))


def test_the_leaf_whose_branch_has_the_smaller_share_is_served_first() -> None:
    world = World(
        *(node("n1", "3c+8Gi"), queue("a", deserved="2c"), queue("b", deserved="4c")),
        *(queue("a1", parent="a"), queue("a2", parent="a", deserved="2c"), queue("b1", parent="b")),
        *(runs("x", "a1", "1c", "n1"), runs("y", "b1", "1c", "n1")),
        *(waits("p", "a2", "1c"), waits("q", "b1", "1c")),
    ).run(PLAIN)
    assert world.bound == {"q": "n1"}, "b has a quarter of what it deserves, a the half, though a2 has nothing"


def test_of_equal_branches_the_one_with_the_older_or_alphabetically_first_leaf_is_served_first() -> None:
    tree = [queue("dept", deserved="2c"), queue("t1", parent="dept", deserved="1c"), queue("other", deserved="2c")]
    for older, expected in (("2020-01-01T00:00:09Z", "b"), ("2020-01-01T00:00:01Z", "a")):
        for each, created in zip(tree, ("2020-01-01T00:00:00Z", older, "2020-01-01T00:00:09Z"), strict=True):
            each["metadata"]["creationTimestamp"] = created
        world = World(node("n1", "1c+8Gi"), *tree, waits("a", "t1", "1c"), waits("b", "other", "1c")).run(PLAIN)
        assert world.bound == {expected: "n1"}, "though dept is older than both"


def test_below_a_full_ancestor_victims_come_from_the_sibling_above_its_deserved_share() -> None:
    session = World(
        *(node("n1", "16c+16Gi"), node("n2", "8c+8Gi"), queue("top", capability="4c")),
        *(queue("rich", parent="top", deserved="2c"), queue("poor", parent="top", deserved="2c"), queue("far")),
        *(runs(f"r{i}", "rich", "1c", "n1") for i in range(4)),
        *(runs("f0", "far", "1c", "n1"), waits("preemptor", "poor", "1c")),
    ).session(PLAIN)
    job, poor = session.jobs["default/preemptor"], session.queues["poor"]
    (task,) = job.tasks()
    assert session.allocatable(poor, job, task.cls, 1) == 0, "though a node is idle"
    assert session.preemptive(poor, (task,))
    order = sorted(("far", "rich"), key=lambda name: session.victim_queue_key(session.queues[name], poor))
    assert order == ["rich", "far"]
    holders = [next(iter(session.jobs[f"default/{name}"].tasks())) for name in ("r0", "r1", "r2", "r3")]
    assert [victim.name for victim in session.ask(RECLAIMABLE, task, holders)] == ["r0", "r1"]
    session.statement().evict(session.jobs["default/r0"], holders[0], "test")
    assert session.allocatable(poor, job, task.cls, 1) == 1


def test_a_queue_reclaims_from_its_sibling_below_a_full_parent_despite_idle_nodes() -> None:
    conf = configuration(
        ["priority", "gang"],
        {"capacity": {"enableHierarchy": True}, "predicates": {}, "nodeorder": {}},
        actions="enqueue, allocate, reclaim, backfill",
    )
    world = World(
        *(node(name, "8c+16Gi") for name in ("n1", "n2", "n3")),
        *(queue("top", capability="8c"), queue("far", deserved="1c")),
        *(queue("rich", parent="top", deserved="4c"), queue("poor", parent="top", deserved="4c")),
        *(group("a", "rich", phase="Running"), group("f", "far", phase="Running")),
        *(pod(f"a-{i}", "1c", "a", on=f"n{1 + i % 2}") for i in range(8)),
        *(pod(f"f-{i}", "1c", "f", on=f"n{1 + i % 2}") for i in range(4)),
        *(group("b", "poor", 2, phase="Inqueue"), pod("b-0", "1c", "b"), pod("b-1", "1c", "b")),
    ).run(conf, kubelet=True)
    assert len(world.evicted) == 2
    assert {name[0] for name in world.evicted} == {"a"}
    world.run(conf, 3, kubelet=True)
    assert all(world.get("Pod", name)["spec"].get("nodeName") for name in ("b-0", "b-1"))
    assert world.evicted == set()


@pytest.mark.parametrize("title", [*CASES, *WITH_ANCESTORS])
def test_tasks_outside_the_bound_are_refused_as_victims(title: str) -> None:
    level, objects = (0, CASES[title][0]) if title in CASES else WITH_ANCESTORS[title][:2]
    session = World(*objects).session(hierarchy(level))
    (reclaimable,) = session.functions(RECLAIMABLE)[0]
    bound = session.bounds.get(reclaimable)
    assert bound is not None
    waiting = [t for job in session.jobs.values() for t in job.of(TaskStatus.PENDING).values()]
    assert waiting
    for preemptor in waiting:
        allowed = bound(preemptor, session.eviction_candidates)
        refused = [t for t, may in zip(session.eviction_candidates.tasks, allowed, strict=True) if not may]
        assert not any(reclaimable(preemptor, [task]) for task in refused)
