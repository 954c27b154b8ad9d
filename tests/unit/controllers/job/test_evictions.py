"""A Pod that ends because it is being deleted was evicted, whatever its phase and exit code, even if the controllers
are killed meanwhile; and no eviction and no action of a user uses up a retry."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api.kinds import POD, VCJOB
from tests.unit.controllers.job.world import KilledError, Raw, World, job, running, task

TERMINATE_OR_RESTART = [
    {"event": "PodFailed", "action": "TerminateJob"},
    {"event": "PodEvicted", "action": "RestartJob"},
]
RESTARTED = [None, "Pending", "Running", "Restarting", "Pending", "Running"]


def two_tasks(policies: list[Raw] = TERMINATE_OR_RESTART, **spec: Any) -> Raw:
    return job(tasks=[task("a"), task("b")], policies=policies, **spec)


def evict(world: World, name: str = "j-a-0", phase: str = "Failed", code: int = 137) -> None:
    """Deletes a Pod, which ends before its deletion is complete."""
    world.delete(POD, name)
    world.now += 3
    world.end_pod(name, phase, code)
    world.wait(2)


@pytest.mark.parametrize(("phase", "code"), [("Failed", 137), ("Failed", 1), ("Succeeded", 0)])
def test_a_pod_that_ends_while_it_is_being_deleted_was_evicted(phase: str, code: int) -> None:
    world = running(two_tasks([{"exitCode": code or 9, "action": "AbortJob"}, *TERMINATE_OR_RESTART]))

    evict(world, phase=phase, code=code)
    assert world.phase() == "Running"
    world.run()

    assert world.phases() == RESTARTED


def steps_of_an_eviction(world: World) -> list[Callable[[], None]]:
    return [
        lambda: world.delete(POD, "j-a-0"),
        lambda: world.end_pod("j-a-0", "Failed", 137),
        world.stop_deleted,
    ]


@pytest.mark.parametrize("until", range(4))
@pytest.mark.parametrize("since", range(4))
@pytest.mark.parametrize("pause", [0.1, 5.0])
def test_an_eviction_counts_although_no_controllers_run_meanwhile(since: int, until: int, pause: float) -> None:
    """Kills the controllers after the first ``since`` steps, and starts others after ``until`` steps."""
    world = running(two_tasks())
    for number, step in enumerate(steps_of_an_eviction(world)):
        if since == number:
            world.lag = True
        if until == number and world.lag:
            world.lag = False
            world.start()
        step()
        world.now += 2
        if not world.lag:
            world.wait(pause)
    world.lag = False
    world.start()
    world.run()

    assert world.phases() == RESTARTED
    assert (world.status()["retryCount"], world.status()["uncountedRestarts"]) == (1, 1)


@pytest.mark.parametrize("writes_left", range(12))
@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_a_restart_after_an_eviction_is_completed_and_counts_once(action: str, writes_left: int) -> None:
    policies = [{"event": "PodFailed", "action": "TerminateJob"}, {"event": "PodEvicted", "action": action}]
    world = running(job(tasks=[task("a", 3), task("b")], policies=policies))
    evict(world, "j-a-1")
    world.lag = True
    world.stop_deleted()
    world.lag = False
    world.deliver()
    world.writes_left = writes_left
    for _ in range(4):
        try:
            world.turn()
        except KilledError:
            world.start()
    world.run()

    assert world.phase() == "Running"
    assert world.phases() == RESTARTED
    assert world.status()["retryCount"] == world.status()["uncountedRestarts"] == 1


def test_a_preempted_job_whose_pods_exit_with_0_has_not_completed() -> None:
    world = running(two_tasks([{"event": "TaskCompleted", "action": "CompleteJob"}], minSuccess=1))

    for name in ("j-a-0", "j-b-0"):
        world.delete(POD, name)
    for name in ("j-a-0", "j-b-0"):
        world.end_pod(name, "Succeeded")
        world.wait(3)
    assert (world.phase(), world.status().get("succeeded", 0)) == ("Running", 0)
    world.run()

    assert world.phases()[:3] == [None, "Pending", "Running"] and "Completed" not in world.phases()
    assert (world.phase(), world.status()["running"]) == ("Running", 2)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_that_had_failed_before_its_deletion_has_failed(restarted: bool) -> None:
    """The container had finished, but the phase of the Pod did not show it yet."""
    world = running(two_tasks())
    world.lag = restarted
    finished = world.now
    world.now += 5
    world.delete(POD, "j-a-0")
    world.now += 1
    world.end_pod("j-a-0", "Failed", 3, finished)
    if restarted:
        world.lag = False
        world.start()
    world.run()

    assert world.phases()[-2:] == ["Terminating", "Terminated"]


def test_a_pod_that_had_succeeded_before_its_deletion_counts_as_succeeded() -> None:
    world = running(two_tasks([{"event": "PodEvicted", "action": "RestartJob"}]))
    held = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:09Z", "deletionGracePeriodSeconds": 0}}
    world.end_pod("j-a-0", "Succeeded")
    world.now += 5
    world.patch(POD, "j-a-0", held)  # a finalizer keeps it
    world.wait(3)
    assert world.status()["succeeded"] == 1

    world.end_pod("j-b-0", "Succeeded")
    world.wait(3)

    assert world.phase() == "Completed"


def test_the_deletion_of_a_pod_that_had_ended_is_no_eviction() -> None:
    world = running(two_tasks([{"event": "PodEvicted", "action": "AbortJob"}]))
    world.end_pod("j-a-0", "Failed", 1)
    world.wait(3)

    world.delete(POD, "j-a-0")
    world.run()

    assert world.phase() == "Running"
    assert "Aborting" not in world.phases()


def test_that_an_ended_pod_is_gone_is_no_eviction_for_controllers_that_start() -> None:
    world = running(job(tasks=[task("a", 3)], policies=[{"event": "PodEvicted", "action": "AbortJob"}]))
    world.end_pod("j-a-0", "Succeeded")
    world.wait(3)
    world.lag = True
    world.delete(POD, "j-a-0")
    world.lag = False

    world.start()
    world.run()

    assert "Aborting" not in world.phases()


def fail_by_garbage_collector(world: World, name: str) -> None:
    """The node is lost: the garbage collector of Pods marks the Pod as failed, then deletes it."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "lastTransitionTime": "2027-01-15T08:00:09Z",
    }
    world.patch(POD, name, {"status": {"phase": "Failed", "conditions": [condition]}})


@pytest.mark.parametrize("is_seen", [False, True], ids=["both at once", "one after the other"])
def test_a_pod_of_a_lost_node_was_evicted_although_it_is_failed_first(is_seen: bool) -> None:
    world = running(two_tasks())

    fail_by_garbage_collector(world, "j-a-0")
    if is_seen:
        world.settle()
        assert world.phase() == "Running"
    world.delete(POD, "j-a-0")
    world.stop_deleted()
    world.run()

    assert world.phases() == RESTARTED


@pytest.mark.parametrize("tasks", [[task("a")], [task("a"), task("b")]])
@pytest.mark.parametrize("killed", [False, True])
def test_a_job_does_not_fail_because_the_nodes_of_all_its_pods_are_lost(tasks: list[Raw], killed: bool) -> None:
    world = running(job(tasks=tasks))
    names = world.names(POD)

    for name in names:
        fail_by_garbage_collector(world, name)
    world.wait(3)
    if killed:
        world.start()
        world.wait(3)
    assert world.status()["terminating"] == len(names)
    for name in names:
        world.delete(POD, name)
    world.stop_deleted()
    world.run()

    assert "Failed" not in world.phases()
    assert (world.phase(), world.status()["running"]) == ("Running", len(names))


def test_an_eviction_goes_before_the_failure_that_it_causes() -> None:
    world = running(two_tasks())
    world.lag = True
    evict(world)
    world.end_pod("j-b-0", "Failed", 1)  # it lost its peer
    world.stop_deleted()
    world.lag = False
    world.deliver()
    world.run()

    assert world.phases() == RESTARTED


def test_the_delay_of_a_policy_begins_although_the_pod_is_seen_to_run_and_to_be_evicted_at_once() -> None:
    world = running(two_tasks([{"event": "PodEvicted", "action": "AbortJob", "timeout": "10s"}]))
    world.lag = True
    world.patch(POD, "j-a-0", {"status": {"phase": "Pending"}})
    world.patch(POD, "j-a-0", {"status": {"phase": "Running"}})
    world.delete(POD, "j-a-0")
    world.stop_deleted()
    world.lag = False
    world.deliver()
    world.wait(12)

    assert "Aborting" in world.phases()


# --- Pods that ended and Pods that were evicted, of which nothing is left ---
PARTITIONS = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 1}


def partitioned() -> World:
    """A job of which a partition restarts after an eviction: Pods 0 and 1, 2 and 3, 4 and 5."""
    policies = [{"event": "PodEvicted", "action": "RestartPartition"}]
    return running(job(tasks=[task("w", 6, partitionPolicy=PARTITIONS)], policies=policies, minimum=6))


def uids(world: World) -> dict[str, str]:
    return {name: world.find(POD, name)["metadata"]["uid"] for name in world.names(POD)}


def lose(world: World, *, ended: str, evicted: str) -> None:
    """Both Pods are deleted when the controllers start."""
    world.lag = True
    world.delete(POD, ended)
    world.delete(POD, evicted)
    world.stop_deleted()
    world.lag = False
    world.start()


def test_a_partition_that_is_over_does_not_restart_because_another_one_lost_a_pod() -> None:
    """The status says that one of the deleted Pods had ended; the other Pod of its partition has ended, too."""
    world = partitioned()
    for name in ("j-w-0", "j-w-1"):
        world.end_pod(name, "Succeeded")
    world.wait(3)
    before = uids(world)

    lose(world, ended="j-w-0", evicted="j-w-2")
    world.run()

    after = uids(world)
    assert {name for name, uid in before.items() if after[name] != uid} == {"j-w-0", "j-w-2", "j-w-3"}
    assert "Restarting" in world.phases()


def test_if_it_is_not_known_which_pod_was_evicted_the_partitions_of_all_that_are_gone_restart() -> None:
    world = partitioned()
    world.end_pod("j-w-0", "Succeeded")
    world.wait(3)
    before = uids(world)

    lose(world, ended="j-w-0", evicted="j-w-2")
    world.run()

    after = uids(world)
    assert {name for name, uid in before.items() if after[name] == uid} == {"j-w-4", "j-w-5"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_and_was_deleted_while_no_controllers_ran_counts_as_evicted(phase: str) -> None:
    """Nothing in the API says how the Pod ended: neither the status of the job nor the status of the PodGroup."""
    world = running(two_tasks())
    world.lag = True
    world.end_pod("j-a-0", phase, 1 if phase == "Failed" else 0)
    lose(world, ended="j-a-0", evicted="j-b-0")
    world.run()

    assert world.phases() == RESTARTED
    assert (world.status()["retryCount"], world.status()["uncountedRestarts"]) == (1, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_of_two_pods_that_are_gone_only_the_one_that_had_not_ended_counts_as_evicted(phase: str) -> None:
    """A separate action, which the status counts, starts each evicted Pod again."""
    world = running(job(tasks=[task("a", 4)], policies=[{"event": "PodEvicted", "action": "RestartPod"}], minimum=1))
    world.end_pod("j-a-0", phase, 1 if phase == "Failed" else 0)
    world.wait(3)

    lose(world, ended="j-a-0", evicted="j-a-1")
    world.run()

    assert world.status()["retryCount"] == world.status()["uncountedRestarts"] == 1


# --- what the controllers delete themselves ---
def replicas(world: World, *counts: int) -> None:
    tasks = world.find(VCJOB, "j")["spec"]["tasks"]
    changed = [each | {"replicas": count} for each, count in zip(tasks, counts, strict=True)]
    world.patch(VCJOB, "j", {"spec": {"tasks": changed}})


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_that_is_scaled_down_and_up_again_lost_no_pod(killed: bool) -> None:
    world = running(job(tasks=[task("a", 3)], minimum=1, policies=[{"event": "PodEvicted", "action": "AbortJob"}]))
    replicas(world, 1)
    world.settle()
    replicas(world, 3)  # the Pods of before are still being stopped
    if killed:
        world.start()
    world.run()

    assert "Aborting" not in world.phases()
    assert (world.phase(), world.status()["running"], world.status().get("retryCount", 0)) == ("Running", 3, 0)


def test_a_job_that_is_scaled_down_while_controllers_are_killed_lost_no_pod() -> None:
    world = running(job(tasks=[task("a", 3)], minimum=1, policies=[{"event": "PodEvicted", "action": "AbortJob"}]))
    replicas(world, 1)
    world.settle()
    world.stop_deleted()
    world.lag = True
    replicas(world, 3)
    world.lag = False

    world.start()
    world.run()

    assert "Aborting" not in world.phases()
    assert world.status()["running"] == 3


# --- retries ---
def test_a_job_resumes_every_time() -> None:
    world = running(job(tasks=[task("a")], maxRetry=3))

    for number in range(5):
        world.command("AbortJob", called=f"abort-{number}")
        world.run(3)
        assert world.phase() == "Aborted"
        world.command("ResumeJob", called=f"resume-{number}")
        world.run()
        assert world.phase() == "Running"

    assert (world.status()["retryCount"], world.status()["uncountedRestarts"]) == (5, 5)


@pytest.mark.parametrize("interruption", ["RestartJob", "RestartTask", "AbortJob", "evicted", "scaled"])
def test_only_failures_use_up_retries(interruption: str) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartJob"}]
    world = running(job(tasks=[task("a", 2)], minimum=1, maxRetry=3, policies=policies))

    for number in range(4):
        match interruption:
            case "evicted":
                world.delete(POD, "j-a-0")
            case "scaled":
                replicas(world, 1 + number % 2)
            case action:
                world.command(action, called=f"cmd-{number}")
                if action == "AbortJob":
                    world.run(3)
                    world.command("ResumeJob", called=f"resume-{number}")
        world.run()
        assert world.phase() == "Running"
    for _ in range(2):
        world.end_pod("j-a-0", "Failed", 1)
        world.run()
        assert world.phase() == "Running"
    world.end_pod("j-a-0", "Failed", 1)
    world.run()

    assert world.phase() == "Failed"


def test_a_job_without_retries_resumes() -> None:
    world = running(job(tasks=[task("a")], maxRetry=0))

    world.command("AbortJob")
    world.run(3)
    world.command("ResumeJob", called="again")
    world.run()

    assert world.phase() == "Running"
