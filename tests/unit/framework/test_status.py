"""The phase of a PodGroup from its Pods, and the conditions of its Pods."""

import pytest

from scheduler.api.job import GroupCondition
from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE
from scheduler.api.queue import ancestors
from scheduler.cluster.kube.scheduler.status_throttle import StatusThrottle
from scheduler.framework.cycle import run_cycle
from scheduler.framework.status import close_session, group_phase
from tests.builders import Raw, World, configuration, feed, group, node, pod, pods, queue

RUNNING = {"on": "n", "phase": "Running"}
LEAVING = {"on": "n", "deleting": True}
GONE = {"deleting": True}
DONE = {"on": "n", "phase": "Succeeded"}
FAILED = {"on": "n", "phase": "Failed"}
BOUND: Raw = {"on": "n", "phase": "Pending"}
WAITS: dict[str, str] = {}


@pytest.mark.parametrize(
    ("members", "minimum", "phase", "unschedulable", "expected"),
    [
        ([LEAVING], 1, "Running", False, "Running"),
        ([RUNNING, LEAVING], 2, "Running", False, "Running"),
        ([GONE, WAITS], 2, "Pending", False, "Pending"),
        ([DONE, DONE], 2, "Running", False, "Completed"),
        ([DONE, FAILED], 2, "Running", False, "Completed"),
        ([LEAVING], 2, "Running", False, "Pending"),
        ([RUNNING, WAITS], 2, "Running", True, "Unknown"),
        ([RUNNING, WAITS], 2, "Running", False, "Pending"),
        ([BOUND, RUNNING], 2, "Inqueue", False, "Running"),
        ([WAITS], 1, "Inqueue", False, "Inqueue"),
        ([WAITS], 1, "Unknown", False, "Pending"),
        ([], 0, "Inqueue", False, "Completed"),
        ([], 1, "Inqueue", False, "Inqueue"),
    ],
)
def test_phase_of_a_group(members: list[Raw], minimum: int, phase: str, unschedulable: bool, expected: str) -> None:
    made = [pod(f"p{i}", "1c", "a", **member) for i, member in enumerate(members)]
    world = World(node("n", "9c"), group("a", minimum=minimum, phase=phase), made)
    job = world.session(configuration([])).jobs["default/a"]
    if unschedulable:
        job.new_conditions += (GroupCondition("Unschedulable", "NotEnoughResources", ""),)
    assert group_phase(job) == expected


@pytest.mark.parametrize(
    ("members", "minimum", "waiting", "counts", "expected"),
    [
        ([RUNNING, WAITS], 2, "", {"running": 1}, "Running"),
        ([DONE, WAITS], 2, "", {"succeeded": 1}, "Running"),
        ([RUNNING, WAITS], 2, "", {"running": 2}, "Unknown"),  # it has lost one
        ([DONE], 1, "b", {"running": 1}, "Running"),
        ([DONE, DONE], 2, "", {"running": 1}, "Completed"),
    ],
)
def test_a_group_whose_tasks_start_one_after_another_runs_while_the_next_ones_wait(
    members: list[Raw], minimum: int, waiting: str, counts: dict[str, int], expected: str
) -> None:
    made = [pod(f"p{i}", "1c", "a", **member) for i, member in enumerate(members)]
    raw = group("a", minimum=minimum, phase="Running")
    raw["metadata"]["annotations"] = {"volcano-py/ordered-tasks": waiting}
    raw["status"] |= counts
    job = World(node("n", "9c"), raw, made).session(configuration([])).jobs["default/a"]
    job.new_conditions += (GroupCondition("Unschedulable", "NotEnoughResources", ""),)
    assert group_phase(job) == expected


def test_a_cluster_that_nothing_changes_is_not_written_to() -> None:
    world = World(
        node("n", "2c"), group("a", minimum=3), pods("p", 3, "1c", "a"), group("b"), pod("r", "1c", "b", on="n")
    )
    conf = configuration(["priority", "gang", "proportion"])
    assert world.run(conf).decisions
    world.run(conf, 2)
    assert not world.run(conf).decisions


def test_messages_of_a_gang_that_nearly_fits_name_the_possible_nodes() -> None:
    world = World(node("n", "2c"), group("a", minimum=3), pods("p", 3, "1c", "a")).run(configuration(["gang"]))
    conditions = [world.get("Pod", f"p-{i}")["status"]["conditions"][0] for i in range(3)]
    assert [c["reason"] for c in conditions] == ["Schedulable", "Schedulable", "Unschedulable"]
    assert conditions[0]["message"] == "Pod default/p-0 can possibly be assigned to n, once minAvailable is satisfied"
    assert conditions[2]["message"].startswith("0/1 nodes are unavailable: 1 Insufficient cpu.")


def test_pods_that_wait_for_the_same_reason_are_one_decision() -> None:
    world = World(node("n", "2c"), group("a", minimum=50), pods("p", 50, "3c", "a"))
    conf = configuration(["gang"])
    for cpus in ("2", "1"):
        world.cluster.server.patch(NODE, "", "n", {"status": {"allocatable": {"cpu": cpus}}})
        (update,) = world.run(conf).decisions.pods
        assert len(update.tasks) == 50
        assert [event.about.name for event in update.events()] == [task.name for task in update.tasks]
        assert world.get("Pod", "p-49")["status"]["conditions"][0]["message"] == update.message
    assert world.run(conf).decisions.pods == []


def test_pods_with_another_message_than_the_others_are_decided_apart() -> None:
    world = World(node("n", "2c"), group("a", minimum=3), pods("p", 3, "3c", "a"))
    conf = configuration(["gang"])
    message = world.run(conf).message_of("p-0")
    raw = world.get("Pod", "p-1")
    condition = {**raw["status"]["conditions"][0], "message": "of another program"}
    world.cluster.server.patch(POD, "default", "p-1", {"status": {"conditions": [condition]}})
    (update,) = world.run(conf).decisions.pods
    assert [task.name for task in update.tasks] == ["p-1"] and update.message == message


def test_pods_whose_message_was_held_back_are_decided_again_and_the_others_are_not() -> None:
    cluster = World(node("n", "2c"), group("a", minimum=4), pods("p", 4, "3c", "a"))
    cache, conf = cluster.cluster.cache, configuration(["gang"])
    decisions = run_cycle(cache.snapshot(0.0), conf).decisions
    StatusThrottle(limit=3).throttle(decisions, 0.0)
    cache.assume(decisions)
    written = [task.name for update in decisions.pods for task in update.tasks]
    (update,) = run_cycle(cache.snapshot(1.0), conf).decisions.pods
    assert len(written) == 3 and {task.name for task in update.tasks} == {"p-0", "p-1", "p-2", "p-3"} - {*written}


def unschedulable(world: World, name: str = "a") -> str | None:
    """The status of the PodGroup's condition; None without one."""
    conditions = world.get("PodGroup", name)["status"].get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == "Unschedulable"), None)


STUCK = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "2/2 tasks ..."}
"""The statuses that an earlier session has written."""


def test_a_gang_that_had_waited_is_unschedulable_no_longer_once_it_is_placed() -> None:
    world = World(node("n", "1c"), group("a", minimum=2), pods("p", 2, "1c", "a"))
    conf = configuration(["gang"])
    assert unschedulable(world.run(conf, 10)) == "True"
    world.cluster.server.create(NODE, node("m", "1c"))
    assert unschedulable(world.run(conf)) == "False"
    assert unschedulable(world.run(conf, 3)) == "False"
    assert world.phase("a") == "Running"
    assert not world.run(conf).decisions


def test_a_gang_that_had_to_wait_a_moment_says_so_for_a_few_seconds() -> None:
    world = World(node("n", "1c"), group("a", minimum=2), pods("p", 2, "1c", "a"))
    conf = configuration(["gang"])
    world.run(conf)
    world.cluster.server.create(NODE, node("m", "1c"))
    assert unschedulable(world.run(conf, 9)) == "True"
    assert unschedulable(world.run(conf)) == "False"


@pytest.mark.parametrize("plugins", [["gang"], []])
@pytest.mark.parametrize("member", [RUNNING, BOUND, DONE])
def test_a_running_group_is_not_unschedulable_however_its_pods_were_bound(plugins: list[str], member: Raw) -> None:
    waited = group("a", minimum=2, phase="Inqueue")
    waited["status"]["conditions"] = [STUCK]
    members = [pod(f"p{i}", "1c", "a", **member) for i in range(2)]
    world = World(node("n", "9c"), waited, members).run(configuration(plugins))
    assert unschedulable(world) == "False"


def test_a_running_group_of_which_more_pods_are_needed_is_unschedulable_again() -> None:
    world = World(node("n", "2c"), group("a", minimum=2), pods("p", 2, "1c", "a"))
    conf = configuration(["gang"])
    assert unschedulable(world.run(conf, 3, kubelet=True)) is None
    world.cluster.server.patch(POD_GROUP, "default", "a", {"spec": {"minMember": 3}})
    world.cluster.server.create(POD, pod("more", "1c", "a"))
    assert unschedulable(world.run(conf, 10)) == "True"
    assert world.phase("a") == "Unknown"
    world.cluster.server.create(NODE, node("m", "1c"))
    assert unschedulable(world.run(conf, 3, kubelet=True)) == "False"
    assert world.phase("a") == "Running"


def test_a_running_group_that_this_session_finds_unschedulable_keeps_the_condition() -> None:
    waited = group("a", minimum=2, phase="Running")
    waited["status"]["conditions"] = [STUCK]
    world = World(node("n", "9c"), waited, [pod(f"p{i}", "1c", "a", **BOUND) for i in range(2)])
    session = world.session(configuration([]))
    session.jobs["default/a"].new_conditions += (GroupCondition("Unschedulable", STUCK["reason"], STUCK["message"]),)
    close_session(session)
    assert not session.decisions.pod_groups


@pytest.mark.parametrize("order", [("b-w-0", "a-w-0"), ("a-w-0", "b-w-0")])
def test_of_members_that_fit_nowhere_the_same_one_is_named_whichever_was_heard_of_first(order: tuple[str, str]) -> None:
    sizes = {"a-w-0": "4c", "b-w-0": "5c"}
    members = [pod(name, sizes[name], "a") for name in order]
    world = World(node("n", "2c"), group("a", minimum=1), members).run(configuration(["gang"]))
    (condition,) = world.get("PodGroup", "a")["status"]["conditions"]
    assert "Origin reason is a-w-0: 0/1 nodes are unavailable" in condition["message"]


def test_what_queues_hold_is_added_up_to_the_root() -> None:
    world = World(
        node("n", "9c"),
        queue("top", parent="root"),
        queue("leaf", parent="top"),
        group("a", "leaf"),
        pod("p", "2c", "a", on="n"),
    ).run(configuration(["gang"]))
    for name in ("leaf", "top", "root"):
        assert world.get("Queue", name)["status"]["allocated"] == {"cpu": "2", "memory": "0", "pods": "1"}
    assert world.get("Queue", "default")["status"]["allocated"] == {"cpu": "0", "memory": "0"}


def test_device_claims_of_pods_in_a_deleted_queue_stop_nothing() -> None:
    ask = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [ask]}},
    }
    holder = pod("p", "1c", "a", on="n", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    world = World(node("n"), claim, group("a", "gone"), holder, group("b"), pod("q", "1c", "b"))
    assert world.run(configuration(["gang"])).bound == {"q": "n"}


def test_a_circle_of_parents_ends() -> None:
    queues = (
        World(queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="missing"))
        .session(configuration([]))
        .queues
    )
    assert ancestors(queues, "a") == ["b"] and ancestors(queues, "c") == []


def test_what_a_queue_deserves_is_written_when_it_changes_and_only_then() -> None:
    conf = configuration(["proportion"], ["gang", "predicates"])
    world = World(node("n", "8c"), queue("a"), queue("b"), group("g", "a"), *pods("g", 9, "1c", "g")).run(conf)
    assert world.get("Queue", "a")["status"]["deserved"] == {"cpu": "8"}
    world.run(conf, 3, kubelet=True)
    assert not world.decisions.queues
    feed(world.cluster.cache, group("h", "b"), *pods("h", 9, "1c", "h"))
    world.run(conf)
    assert {each.name: (each.deserved, each.only_deserved) for each in world.decisions.queues} == {
        "a": ({"cpu": "4"}, True),
        "b": ({"cpu": "4"}, False),
    }


def test_deserved_amounts_that_the_api_server_does_not_store_are_not_written_again() -> None:
    conf = configuration(["proportion"], ["gang", "predicates"])
    world = World(node("n", "8c"), queue("a"), group("g", "a"), *pods("g", 9, "1c", "g")).run(conf, 3, kubelet=True)
    raw = world.get("Queue", "a")
    del raw["status"]["deserved"]  # as with Volcano's resource definition
    world.cluster.server.update(QUEUE, "", "a", raw)
    world.run(conf)
    assert not world.decisions.queues
