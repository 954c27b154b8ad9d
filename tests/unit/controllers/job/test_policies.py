"""The policy that applies to an event or an exit code, and whether it acts at once or later."""

from typing import Any

import pytest

from scheduler.api import batch
from scheduler.api.batch import Action, JobEvent
from scheduler.api.kinds import POD, VCJOB
from scheduler.controllers.job.parsed_spec import first_policy, parse_policies
from tests.unit.controllers.job.world import World, job, running, task


def policy(action: str = "RestartJob", **fields: Any) -> batch.LifecyclePolicy:
    return batch.LifecyclePolicy(action=action, **fields)


def chosen(event: str, exit_code: int = 0, *, task: Any = (), job: Any = ()) -> Action | None:
    levels = [parse_policies(level, "spec.policies")[0] for level in (task, job)]
    found = first_policy(JobEvent(event), exit_code, *levels)
    return None if found is None else found.action


def test_the_first_policy_that_names_the_event_is_taken() -> None:
    policies = [policy("AbortJob", event="PodEvicted"), policy(events=["Unknown", "PodFailed"]), policy("AbortJob")]

    assert chosen("PodFailed", job=policies) is Action.RESTART_JOB
    assert chosen("TaskCompleted", job=policies) is None


def test_a_star_is_any_event_but_those_of_the_controllers_own() -> None:
    policies = [policy(event="*")]

    assert chosen("PodFailed", job=policies) is Action.RESTART_JOB
    assert chosen("Unknown", job=policies) is Action.RESTART_JOB
    for event in ("OutOfSync", "CommandIssued", "PodRunning"):
        assert chosen(event, job=policies) is None


def test_a_pending_pod_counts_only_where_there_is_a_timeout() -> None:
    assert chosen("PodPending", job=[policy(event="PodPending"), policy(event="*")]) is None
    assert chosen("PodPending", job=[policy(event="PodPending", timeout="1m")]) is Action.RESTART_JOB


def test_an_exit_code_has_to_be_equal() -> None:
    assert chosen("PodFailed", 137, job=[policy(exit_code=137)]) is Action.RESTART_JOB
    assert chosen("PodFailed", 1, job=[policy(exit_code=137)]) is None


def test_the_task_goes_before_the_job() -> None:
    assert chosen("PodFailed", task=[policy("RestartTask", event="*")], job=[policy(event="PodFailed")]) is (
        Action.RESTART_TASK
    )


def test_policies_that_cannot_be_used_are_named_and_the_others_kept() -> None:
    policies = [policy("Reboot", event="*"), policy(event="*", timeout="soon"), policy(event="*")]

    good, bad = parse_policies(policies, "spec.policies")

    assert [p.action for p in good] == [Action.RESTART_JOB]
    assert [field for field, _ in bad] == ["spec.policies[0].action", "spec.policies[1].timeout"]


# --- what is done ---
def test_a_task_whose_pods_all_succeeded_has_completed() -> None:
    tasks = [task("a", 2, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]), task("b")]
    world = running(job(tasks=tasks))

    world.end_pod("j-a-0", "Succeeded")
    world.run(2)
    assert world.phase() == "Running"
    world.end_pod("j-a-1", "Succeeded")
    world.run(2)

    assert world.phase() == "Completed"


def restart_container(world: World, pod: str, times: int) -> None:
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": times}]}
    world.patch(POD, pod, {"status": status})
    world.run(2)


@pytest.mark.parametrize(("most", "phases"), [(4, "Restarting"), (0, "Restarting"), (-1, ""), (9, "")])
def test_a_task_has_failed_when_its_containers_were_restarted_too_often(most: int, phases: str) -> None:
    policies = [{"event": "TaskFailed", "action": "RestartTask"}]
    world = running(job(tasks=[task("a", 2, maxRetry=most, policies=policies)]))

    restart_container(world, "j-a-0", 2)
    assert "Restarting" not in world.phases()
    restart_container(world, "j-a-1", 2)

    assert ("Restarting" in world.phases()) == bool(phases)


@pytest.mark.parametrize(("code", "restarted"), [(1, {"j-w-2", "j-w-3"}), (2, {"j-w-3"})])
def test_a_partition_or_a_pod_is_restarted_alone(code: int, restarted: set[str]) -> None:
    policies = [{"exitCode": 1, "action": "RestartPartition"}, {"exitCode": 2, "action": "RestartPod"}]
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    world = running(job(tasks=[task(replicas=4, partitionPolicy=partitions, policies=policies)]))

    world.end_pod("j-w-3", "Failed", code)
    world.run()

    assert {name for name, (_, retries) in world.pod_versions().items() if retries == "1"} == restarted


def test_a_pod_that_is_in_no_partition_has_none_to_restart() -> None:
    world = running(job(policies=[{"event": "PodFailed", "action": "RestartPartition"}]))

    world.end_pod("j-w-0", "Failed", 1)
    world.run()

    assert ("Normal", "ExecuteAction", "Start to execute action RestartPartition ") in world.job_events()
    assert (world.phase(), world.status()["failed"]) == ("Running", 1)
    assert "Restarting" not in world.phases()


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_what_happens_to_the_pod_group_restarts_no_part_of_the_job_and_uses_up_no_retry(action: str) -> None:
    world = running(job(policies=[{"event": "*", "action": action}]))

    world.group_phase(world.group()["metadata"]["name"], "Unknown")
    world.run()

    assert world.phases() == [None, "Pending", "Running"]
    assert world.status().get("retryCount", 0) == 0


def test_pods_that_fail_together_restart_the_job_once() -> None:
    world = running(job(tasks=[task(replicas=3)], policies=[{"event": "PodFailed", "action": "RestartJob"}]))

    for index in range(3):
        world.end_pod(f"j-w-{index}", "Failed", 1)
    world.run()

    assert world.status()["retryCount"] == 1
    assert len(world.job_events()) == 1


def test_pods_that_fail_together_restart_their_task_once() -> None:
    world = running(job(tasks=[task(replicas=3)], policies=[{"event": "PodFailed", "action": "RestartTask"}]))

    for index in range(3):
        world.end_pod(f"j-w-{index}", "Failed", 1)
    world.run()

    assert world.status()["retryCount"] == 1
    assert len(world.job_events()) == 1


def test_what_concerns_the_whole_job_goes_before_what_concerns_a_part() -> None:
    policies = [{"exitCode": 1, "action": "RestartTask"}, {"exitCode": 2, "action": "AbortJob"}]
    world = running(job(policies=policies))

    world.end_pod("j-w-0", "Failed", 1)
    world.end_pod("j-w-1", "Failed", 2)
    world.run()

    assert world.phases()[-2:] == ["Aborting", "Aborted"]
    assert [message for _, _, message in world.job_events()] == ["Start to execute action AbortJob "]


def test_two_tasks_that_fail_together_are_both_restarted() -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    world = running(job(tasks=[task("a", 2, policies=policies), task("b", 2, policies=policies), task("c")]))

    world.end_pod("j-a-0", "Failed", 1)
    world.end_pod("j-b-0", "Failed", 1)
    world.run()

    again = {name for name, (_, retries) in world.pod_versions().items() if retries == "1"}
    assert again == {"j-a-0", "j-a-1", "j-b-0", "j-b-1"}
    assert world.phase() == "Running"


# --- timeouts ---
def test_a_pod_that_is_pending_for_too_long_calls_for_the_action() -> None:
    world = World()
    world.create(job(policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}]))
    world.settle()
    world.admit()
    world.wait(599)
    assert world.phase() == "Pending"
    assert ("Normal", "ExecuteAction", "Execute action AbortJob after 10m0s") in world.job_events()

    world.wait(2)

    assert world.phases()[-2:] == ["Aborting", "Aborted"]


def test_a_new_leader_counts_from_the_creation_of_the_pod() -> None:
    world = World()
    world.create(job(policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}]))
    world.settle()
    world.admit()
    world.wait(400)

    world.start()
    world.wait(150)
    assert world.phase() == "Pending"
    world.wait(60)

    assert world.phase() == "Aborted"


def test_the_time_of_a_recreated_pod_starts_again() -> None:
    policies = [
        {"event": "PodPending", "action": "AbortJob", "timeout": "10m"},
        {"event": "PodFailed", "action": "RestartTask"},
    ]
    world = World()
    world.create(job(policies=policies))
    world.settle()
    world.admit()
    world.wait(500)
    world.end_pod("j-w-0", "Failed", 1)
    world.wait(590)
    assert world.phase() == "Pending"

    world.wait(20)

    assert world.phase() == "Aborted"


def test_a_pod_that_runs_is_not_pending_any_more() -> None:
    world = World()
    world.create(job(policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}]))
    world.run(3)

    world.wait(3600)

    assert world.phase() == "Running"


def test_a_pod_that_was_evicted_and_runs_again_in_time_calls_for_nothing() -> None:
    world = running(job(policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "1m"}]))

    world.delete(POD, "j-w-0")
    world.run(3)
    world.wait(300)

    assert world.phase() == "Running"
    assert ("Normal", "ExecuteAction", "Execute action AbortJob after 1m0s") in world.job_events()


def test_a_pod_that_stays_away_calls_for_the_action_in_the_end() -> None:
    world = running(job(policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "1m"}]))

    world.delete(POD, "j-w-0")
    world.stop_deleted()
    world.wait(59)
    assert world.phase() == "Pending"
    world.wait(2)

    assert world.phases()[-1] == "Aborting"


def test_a_task_that_was_restarted_is_not_restarted_again_for_what_was_before() -> None:
    policies = [
        {"event": "TaskFailed", "action": "RestartTask", "timeout": "1m"},
        {"event": "PodFailed", "action": "RestartTask"},
    ]
    world = running(job(tasks=[task("a", 2, maxRetry=1, policies=policies)]))

    restart_container(world, "j-a-0", 1)
    world.end_pod("j-a-1", "Failed", 1)
    world.run()
    world.wait(300)

    assert world.status()["retryCount"] == 1


def test_a_restart_at_once_makes_one_that_waits_needless() -> None:
    policies = [
        {"exitCode": 2, "action": "RestartJob"},
        {"event": "PodFailed", "action": "RestartJob", "timeout": "1m"},
    ]
    world = running(job(policies=policies))

    world.end_pod("j-w-0", "Failed", 1)
    world.settle()
    world.end_pod("j-w-1", "Failed", 2)
    world.run()
    world.wait(300)

    assert world.status()["retryCount"] == 1
    assert world.find(VCJOB, "j")["status"]["state"]["phase"] == "Running"
