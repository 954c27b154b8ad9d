"""The order in which tasks start: the gang does not wait for tasks whose turn has not come, but their resources are
reserved together with the resources of the other tasks."""

from typing import Any

import pytest

from scheduler.api.kinds import COMMAND, POD, POD_GROUP, VCJOB
from scheduler.api.names import ORDERED_TASKS
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, manifests, node, pod
from tests.unit.controllers.job.world import Raw, World, job, task


def depends(name: str, replicas: int, *names: str, **spec: Any) -> Raw:
    return task(name, replicas, dependsOn={"name": list(names)}, **spec)


def waiting(*tasks: Raw, minimum: int | None = None, **spec: Any) -> World:
    """A job whose PodGroup is admitted; none of its Pods runs."""
    world = World()
    world.create(job(tasks=tasks, minimum=minimum, **spec))
    world.settle()
    world.admit()
    world.wait(2)
    return world


def needs(world: World) -> tuple[int, dict[str, int], str | None]:
    """The requirements of the PodGroup, and the tasks that wait according to it."""
    group = world.group()
    annotations = group["metadata"].get("annotations") or {}
    return group["spec"].get("minMember", 0), group["spec"]["minTaskMember"], annotations.get(ORDERED_TASKS)


@pytest.mark.parametrize(
    ("tasks", "minimum", "first", "last"),
    [
        # The sum of the minimums.
        (
            [task("a", 4, minAvailable=2), depends("b", 2, "a", minAvailable=1)],
            3,
            (2, {"a": 2}),
            (3, {"a": 2, "b": 1}),
        ),
        ([task("a", minAvailable=1), depends("b", 1, "a", minAvailable=1)], 2, (1, {"a": 1}), (2, {"a": 1, "b": 1})),
        # More than that.
        (
            [task("a", 4, minAvailable=2), depends("b", 2, "a", minAvailable=1)],
            6,
            (4, {"a": 2}),
            (6, {"a": 2, "b": 1}),
        ),
        # Less: minTaskMember is not enforced.
        (
            [task("a", 2, minAvailable=2), depends("b", 4, "a", minAvailable=4)],
            4,
            (2, {"a": 2, "b": 4}),
            (4, {"a": 2, "b": 4}),
        ),
    ],
)
def test_the_minimums_of_the_pod_group_grow_with_the_tasks_whose_turn_has_come(
    tasks: list[Raw], minimum: int, first: tuple[int, dict[str, int]], last: tuple[int, dict[str, int]]
) -> None:
    world = waiting(*tasks, minimum=minimum)
    resources = world.group()["spec"]["minResources"]
    assert needs(world) == (*first, "b")
    assert resources["cpu"] == str(minimum)

    world.run(3)

    assert needs(world) == (*last, "")
    assert world.group()["spec"]["minResources"] == resources
    assert (world.phase(), world.group_history()) == ("Running", [None, "Inqueue", "Running"])


def test_a_job_that_needs_only_its_first_tasks_has_the_pod_group_that_volcano_gives_it() -> None:
    world = waiting(task("a", minAvailable=1), depends("b", 2, "a", minAvailable=2), minimum=1)
    assert needs(world) == (1, {"a": 1, "b": 2}, None)
    world.run(3)
    assert needs(world) == (1, {"a": 1, "b": 2}, None)


def test_the_status_says_what_a_task_waits_for_until_it_starts() -> None:
    either = {"name": ["a", "b"], "iteration": "any"}
    world = waiting(task("a", 2, minAvailable=2), depends("b", 1, "a", minAvailable=1), task("c", dependsOn=either))
    assert world.find(VCJOB, "j")["status"]["state"]["message"] == (
        "task b waits for task a (0 of 2 Pods ready); "
        "task c waits for task a (0 of 2 Pods ready) or b (0 of 1 Pods ready)"
    )
    world.run(4)
    assert "message" not in world.find(VCJOB, "j")["status"]["state"]


def test_a_task_whose_dependency_is_not_ready_any_more_is_required_as_far_as_its_pods_exist() -> None:
    world = waiting(task("a", minAvailable=1), depends("b", 2, "a", minAvailable=2))
    world.run(3)
    assert needs(world) == (3, {"a": 1, "b": 2}, "")

    for name in ("j-a-0", "j-b-1"):
        world.delete(POD, name)
    world.stop_deleted()
    world.wait(2)
    assert (world.names(POD), needs(world)) == ({"j-a-0", "j-b-0"}, (2, {"a": 1, "b": 1}, ""))
    world.run(3)

    assert (world.names(POD), needs(world)) == ({"j-a-0", "j-b-0", "j-b-1"}, (3, {"a": 1, "b": 2}, ""))


def test_sub_groups_of_a_task_that_waits_are_not_required() -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    world = waiting(
        task("a", minAvailable=1), depends("b", 4, "a", minAvailable=2, partitionPolicy=partitions), minimum=3
    )
    assert [policy["minSubGroups"] for policy in world.group()["spec"]["subGroupPolicy"]] == [0]
    world.run(3)
    assert [policy["minSubGroups"] for policy in world.group()["spec"]["subGroupPolicy"]] == [1]


def test_a_restarted_job_begins_with_its_first_task() -> None:
    world = waiting(task("a", minAvailable=1), depends("b", 1, "a", minAvailable=1))
    world.run(3)
    world.command("RestartJob")
    world.settle()
    world.stop_deleted()
    world.wait(2)
    assert needs(world) == (1, {"a": 1}, "b")
    world.run(4)
    assert (world.phase(), needs(world), world.names(COMMAND)) == ("Running", (2, {"a": 1, "b": 1}, ""), set())


def test_tasks_that_depend_on_each_other_are_reported() -> None:
    world = World()
    world.create(job(tasks=[depends("a", 1, "c"), depends("b", 1, "a"), depends("c", 1, "b"), task("d")]))
    world.settle()
    (message,) = (message for _, reason, message in world.job_events() if reason == "Malformed")
    assert "tasks depend on each other, so none of them can start" in message
    assert world.names(POD_GROUP) == set()


CIRCLE = (
    "spec.tasks: the job can never start: task master waits for 2 ready Pods of task worker (dependsOn), "
    "task worker waits for task master (plugin pytorch, --wait-master-enabled); "
    "minAvailable is 3, and 0 of 3 Pods can start"
)


def waits_for_master(least: int) -> Raw:
    """A job whose master depends on ``least`` workers, which wait for the master."""
    tasks = [depends("master", 1, "worker", minAvailable=1), task("worker", 2, minAvailable=least)]
    return job(tasks=tasks, minimum=1 + least, plugins={"pytorch": ["--wait-master-enabled"]})


def malformed(world: World) -> list[str]:
    return [message for _, reason, message in world.job_events() if reason == "Malformed"]


def test_nothing_is_reserved_for_a_job_whose_tasks_wait_for_each_other_because_of_a_plugin() -> None:
    """Admission refuses the job; without admission, it is stored."""
    world = World()
    world.create(waits_for_master(2))
    world.wait(100)
    assert malformed(world) == [CIRCLE]
    assert world.names(POD_GROUP) == set()
    assert "status" not in world.find(VCJOB, "j")

    world.patch(VCJOB, "j", {"spec": waits_for_master(0)["spec"]})
    world.run(3)
    assert (world.phase(), world.status()["running"]) == ("Running", 3)


def test_a_job_that_runs_goes_on_although_it_could_not_start_any_more() -> None:
    world = World()
    world.create(waits_for_master(0))
    world.run(3)

    world.patch(VCJOB, "j", {"spec": waits_for_master(2)["spec"]})
    world.delete(POD, "j-worker-0")
    world.stop_deleted()
    world.run(3)

    assert malformed(world) == [CIRCLE]
    assert (world.phase(), world.status()["running"]) == ("Running", 3)


def test_tasks_that_can_never_start_are_reported_though_the_job_can() -> None:
    world = World()
    raw = waits_for_master(2)
    raw["spec"] |= {"tasks": [task("a", 4), *raw["spec"]["tasks"]], "minAvailable": 4}
    world.create(raw)
    world.run(3)
    (text,) = malformed(world)
    assert text.startswith("spec.tasks: tasks master, worker can never start: ")
    assert world.names(POD_GROUP) != set()


# --- with the scheduler ---
def simulated(*objects: Raw, cycles: int | None = None) -> Simulation:
    simulation = Simulation(manifests(*objects), parse_configuration(DEFAULT_CONFIGURATION), [NAME])
    simulation.run(cycles)
    return simulation


def vcjob(*tasks: Raw, minimum: int | None = None) -> Raw:
    raw = job(tasks=tasks, minimum=minimum, schedulerName=NAME)
    if minimum is None:
        del raw["spec"]["minAvailable"]
    return raw


def placed(simulation: Simulation) -> set[str]:
    return {str(raw["metadata"]["name"]) for raw in simulation.cluster.server.of(POD) if raw["spec"].get("nodeName")}


def group_of_job(simulation: Simulation) -> Raw:
    groups = simulation.cluster.server.of(POD_GROUP)
    return next(group for group in groups if group["metadata"]["ownerReferences"][0]["kind"] == VCJOB.name)


@pytest.mark.parametrize("minimum", [3, None])
def test_the_first_task_runs_then_the_second(minimum: int | None) -> None:
    tasks = [task("a", 4, minAvailable=2), depends("b", 2, "a", minAvailable=1)]
    simulation = simulated(node("n", "32c+64Gi"), vcjob(*tasks, minimum=minimum))
    assert placed(simulation) == {"j-a-0", "j-a-1", "j-a-2", "j-a-3", "j-b-0", "j-b-1"}
    assert group_of_job(simulation)["status"]["phase"] == "Running"


def test_a_job_whose_tasks_do_not_fit_together_is_not_admitted() -> None:
    simulation = simulated(node("n", "1c+64Gi"), vcjob(task("a"), depends("b", 1, "a")))
    assert placed(simulation) == set()
    assert "cpu: asked 2" in group_of_job(simulation)["status"]["conditions"][0]["message"]


def test_a_later_task_that_finds_no_room_waits_as_a_gang_while_the_first_runs() -> None:
    """The group has lost nothing, so it is not Unknown, and its resources stay reserved."""
    objects = [node("n", "3c+64Gi"), node("m", "1c+64Gi"), vcjob(task("a"), depends("b", 3, "a"))]
    simulation = simulated(*objects, cycles=2)
    assert placed(simulation) == {"j-a-0"}
    simulation.change(manifests(pod("other", "2c", on="n")))
    simulation.run()

    group = group_of_job(simulation)
    assert placed(simulation) == {"j-a-0", "other"}
    assert group["status"]["phase"] == "Running"
    assert group["spec"]["minMember"] == 4
    (waits,) = (each for each in group["status"]["conditions"] if each["type"] == "Unschedulable")
    assert waits["status"] == "True"
