"""The action allocate: which Pods get which nodes, for each queue and each gang."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from tests.builders import Raw, World, configuration, group, node, only, pod, pods, queue

GANGS = configuration(
    {
        "gang": only("enableJobOrder", "enableJobReady", "enableJobPipelined", "enableJobStarving"),
        "drf": only("enablePreemptable", "enableJobOrder"),
        "proportion": only("enableQueueOrder", "enableReclaimable", "enabledAllocatable"),
        "predicates": {},
        "nodeorder": {},
    },
    actions="allocate",
)
FAIR = configuration(
    {
        "drf": {},
        "proportion": only("enableQueueOrder", "enableReclaimable"),
        "predicates": {},
        "nodeorder": {},
    },
    actions="allocate",
)
GANG_ONLY = configuration(["gang"], actions="allocate")
MASTER, WORKER = {"nodeRole": "master"}, {"nodeRole": "worker"}


# --- gangs ---
def test_a_pod_whose_selector_matches_is_bound_and_its_neighbour_waits() -> None:
    world = World(
        node("n1", "2c+4Gi", WORKER),
        group("pg1", minimum=1),
        pod("p1", "1c+1G", "pg1", role="master", selector=MASTER),
        pod("p2", "1c+1G", "pg1", role="worker", selector=WORKER),
    )
    assert world.run(GANGS).bound == {"p2": "n1"}


def roles(minimum: dict[str, int], workers: str) -> World:
    members = [pod(f"p{i}", "1c+1G", "pg1", role="master", selector=MASTER) for i in (0, 1)]
    members += [pod(f"p{i}", "1c+1G", "pg1", role="worker", selector=WORKER) for i in (2, 3)]
    return World(
        node("n1", "1c+4Gi", MASTER),
        node("n2", f"{workers}+4Gi", WORKER),
        group("pg1", minimum=2, roles=minimum),
        members,
    )


def test_a_gang_with_a_minimum_per_role_starts_with_one_of_each() -> None:
    assert roles({"master": 1, "worker": 1}, "1c").run(GANGS).bound == {"p0": "n1", "p2": "n2"}


def test_a_gang_whose_role_cannot_reach_its_minimum_does_not_start() -> None:
    assert roles({"master": 2, "worker": 0}, "2c").run(GANGS).bound == {}


def test_a_group_without_a_minimum_is_placed_as_far_as_it_fits() -> None:
    world = World(node("n1", "2c+4Gi"), group("pg1", minimum=0), pods("p", 2, "1c+1G", "pg1"))
    assert world.run(GANGS).bound == {"p-0": "n1", "p-1": "n1"}


def test_a_gang_that_does_not_fit_frees_its_places_for_a_younger_one() -> None:
    world = World(
        node("n1", "3c"),
        group("old", minimum=4),
        pods("o", 4, "1c", "old"),
        group("new", minimum=2),
        pods("n", 2, "1c", "new"),
    )
    assert world.run(GANG_ONLY).bound == {"n-0": "n1", "n-1": "n1"}


def test_a_gang_that_waits_for_terminating_pods_stays_pipelined_for_the_session() -> None:
    world = World(
        node("n1", "3c"),
        pod("leaving", "1c", on="n1", deleting=True),
        group("gang", minimum=3),
        pods("g", 3, "1c", "gang"),
        group("late", minimum=1),
        pod("l", "1c", "late"),
    )
    assert world.run(GANG_ONLY).bound == {}
    message = world.get("Pod", "g-2")["status"]["conditions"][0]["message"]
    assert (
        message
        == "Pod default/g-2 can possibly be assigned to n1, once resource is released and minAvailable is satisfied"
    )


def test_without_the_enqueue_action_a_pending_group_is_allocated() -> None:
    world = World(node("n1"), group("a", phase="Pending"), pod("p", "1c", "a")).run(GANG_ONLY)
    assert world.bound == {"p": "n1"}
    assert world.phase("a") == "Inqueue"


def test_with_the_enqueue_action_a_group_that_is_not_admitted_is_passed_over() -> None:
    closed = World(node("n1"), queue("q", state="Closed"), group("a", "q"), pod("p", "1c", "a"))
    assert closed.run(configuration(["gang", "proportion"])).bound == {}


def test_a_gated_pod_is_not_placed_and_its_gang_waits() -> None:
    world = World(node("n1"), group("a", minimum=2), pod("p", "1c", "a"), pod("g", "1c", "a", gated=True))
    assert world.run(GANG_ONLY).bound == {}


# --- fairness between queues ---
def test_two_queues_of_equal_weight_get_a_pod_each() -> None:
    world = World(
        node("n1", "2c+4G"), queue("c1"), queue("c2"),
        group("pg1", "c1", 0), pods("pg1-p", 2, "1c+1G", "pg1"),
        group("pg2", "c2", 0), pods("pg2-p", 2, "1c+1G", "pg2"),
    )  # fmt: skip
    assert world.run(GANGS).bound == {"pg1-p-0": "n1", "pg2-p-0": "n1"}


def test_a_pod_larger_than_its_queues_share_waits() -> None:
    world = World(
        node("n1", "2c+4G"), queue("c1"), queue("c2"),
        group("pg1", "c1", 0), pod("p1", "3c+1G", "pg1"), group("pg2", "c2", 0), pod("p2", "1c+1G", "pg2"),
    )  # fmt: skip
    assert world.run(GANGS).bound == {"p2": "n1"}


def shared() -> list[Raw]:
    return [
        node("node-1", "5c+5G"), queue("q-1"), queue("q-2"),
        group("pg-1", "q-1", 0), pod("pod-small-1", "1c+1G", "pg-1", on="node-1"), pod("pod-large-1", "2c+2G", "pg-1"),
    ]  # fmt: skip


def test_the_queue_that_has_less_is_served_first() -> None:
    world = World(shared(), group("pg-2", "q-2", 0), pod("pod-large-2", "3c+2G", "pg-2"))
    assert world.run(FAIR).bound == {"pod-large-2": "node-1"}


def test_queues_take_turns() -> None:
    world = World(
        shared(), group("pg-2", "q-2", 0), pod("pod-large-2", "2c+2G", "pg-2"),
        group("pg-3", "q-2", 0), pod("pod-small-2", "1c+1G", "pg-3"),
    )  # fmt: skip
    assert list(world.run(FAIR).bound) == ["pod-large-2", "pod-large-1"]


def test_a_group_that_runs_whole_does_not_stand_in_the_way() -> None:
    world = World(
        node("node-1", "5c+5G"), queue("q-1"), group("pg-1", "q-1", 0), pod("pod-1", "1c+1G", "pg-1", on="node-1"),
        group("pg-2", "q-1", 0), pod("pod-2", "2c+2G", "pg-2"),
    )  # fmt: skip
    assert world.run(FAIR).bound == {"pod-2": "node-1"}


# --- plugins that refuse ---
@pytest.fixture
def _refuses_n1() -> None:
    """A plugin that undoes placements on n1."""

    class RefusesN1:
        name: ClassVar[str] = "refuses-n1"

        def __init__(self, arguments: Arguments) -> None:
            pass

        def open(self, session: PluginSession) -> None:
            def refuse(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
                if any(session.nodes.names[row] == "n1" for row in rows):
                    raise AllocationError("n1 is taken")

            session.add_handlers(refuse, lambda job, tasks, rows: None)

    registry.register_plugin(RefusesN1)


REFUSES_N1: Configuration = configuration(["gang", "refuses-n1"])


@pytest.mark.usefixtures("_refuses_n1")
def test_a_refusal_of_a_plugin_is_in_the_pods_message() -> None:
    world = World(node("n1"), group("a"), pod("p", "1c", "a"), pod("be", "", "a")).run(REFUSES_N1)
    assert world.bound == {}
    for name in ("p", "be"):
        assert world.get("Pod", name)["status"]["conditions"][0]["message"] == "n1 is taken"


@pytest.mark.usefixtures("_refuses_n1")
def test_a_refusal_on_the_nominated_node_leaves_the_others() -> None:
    nominated = pod("p", "1c", "a")
    nominated["status"]["nominatedNodeName"] = "n1"
    world = World(node("n0"), node("n1"), group("a"), nominated)
    assert world.run(REFUSES_N1).bound == {"p": "n0"}


@pytest.mark.usefixtures("_refuses_n1")
def test_a_refused_pipelining_does_not_end_the_session() -> None:
    world = World(node("n1", "1c"), pod("old", "1c", on="n1", deleting=True), group("a"), pod("p", "1c", "a"))
    assert world.run(REFUSES_N1).bound == {}


def test_a_nominated_node_is_taken_before_a_better_one() -> None:
    nominated = pod("p", "1c", "a")
    nominated["status"]["nominatedNodeName"] = "n2"
    assert World(node("n1"), node("n2"), group("a"), nominated).run(GANG_ONLY).bound == {"p": "n2"}


def test_free_resources_that_a_pipelined_task_needs_are_not_given_to_another() -> None:
    conf = configuration(["gang"], ["predicates"], actions="allocate")
    old, big, small = group("old", minimum=0), group("big"), group("small")
    members = [pod("old", "1c", "old", on="n", deleting=True), pod("big", "2c", "big"), pod("small", "1c", "small")]
    assert World(node("n", "2c"), old, big, small, members).run(conf).bound == {}


def test_without_the_action_enqueue_a_group_is_admitted_before_it_has_pods() -> None:
    conf = configuration(["gang"], actions="allocate")
    assert World(node("n"), group("g")).run(conf).phase("g") == "Inqueue"


def test_a_job_is_pipelined_up_to_its_minimum_onto_terminating_resources_and_leaves_the_rest_to_others() -> None:
    old, first, second = group("old", minimum=0), group("first"), group("second")
    leaving = pods("old", 2, "1c", "old", on="n", deleting=True)
    members = pods("f", 3, "1c", "first") + pods("s", 3, "1c", "second")
    world = World(node("n", "2c"), old, leaving, first, second, members).run(GANG_ONLY)
    jobs = world.outcome.session.jobs if world.outcome else {}
    assert [job.waiting_count for job in (jobs["default/first"], jobs["default/second"])] == [1, 1]
