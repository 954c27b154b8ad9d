"""Jobs over time: crashes, lagging watches, Commands at the wrong moment, writes that fail, and how much is written."""

import pytest

from scheduler.api.kinds import (
    CLAIM,
    COMMAND,
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    VCJOB,
)
from scheduler.api.objects import ObjectMeta
from scheduler.api.scheduling import Queue
from scheduler.controllers.effects import Create, Delete, Patch
from scheduler.controllers.job.plugins import make_plugins
from tests.unit.controllers.job.world import START, KilledError, World, job, running, task

RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


# --- changes while the process was down ---
def test_a_pod_that_failed_while_the_process_was_down_counts() -> None:
    world = running(job(policies=RESTART))
    world.lag = True

    world.end_pod("j-w-0", "Failed", 1)
    world.lag = False
    world.start()
    world.run()

    assert world.phases()[-4:] == ["Running", "Restarting", "Pending", "Running"]
    assert world.status()["retryCount"] == 1


def test_a_task_that_completed_while_the_process_was_down_counts() -> None:
    world = running(
        job(tasks=[task("a", 2), task("b")], policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    )
    world.lag = True

    for name in ("j-a-0", "j-a-1"):
        world.end_pod(name, "Succeeded")
    world.lag = False
    world.start()
    world.run()

    assert world.phase() == "Completed"


def test_a_podgroup_that_became_unknown_while_the_process_was_down_counts() -> None:
    world = running(job(policies=[{"event": "Unknown", "action": "AbortJob"}]))
    world.lag = True

    world.group_phase(world.group()["metadata"]["name"], "Unknown")
    world.lag = False
    world.start()
    world.run(2)

    assert world.phase() == "Aborted"


def test_a_failure_that_was_acted_upon_is_not_acted_upon_by_the_next_process() -> None:
    world = running(job(policies=[{"event": "PodFailed", "action": "AbortJob"}]))
    world.end_pod("j-w-0", "Failed", 1)
    world.run(2)
    events = list(world.job_events())

    world.start()
    world.run(2)

    assert (world.phase(), world.status()["version"]) == ("Aborted", 1)
    assert world.job_events() == events


def test_a_start_with_nothing_to_do_writes_nothing() -> None:
    world = running(job(minimum=1, tasks=[task(replicas=3)]))
    world.end_pod("j-w-0", "Succeeded")
    world.run(2)
    world.writes.clear()

    world.start()
    world.run(3)

    assert world.writes == []


def test_the_second_time_that_a_podgroup_is_unknown_counts_too() -> None:
    world = running(job(policies=[{"event": "Unknown", "action": "RestartJob"}]))

    for _ in range(2):
        world.group_phase(world.group()["metadata"]["name"], "Unknown")
        world.run()

    assert world.status()["retryCount"] == 2
    assert world.phase() == "Running"


# --- resuming ---
def test_a_resumed_job_keeps_pods_that_had_ended() -> None:
    world = running(job(tasks=[task(replicas=3)], minimum=1))
    world.end_pod("j-w-0", "Succeeded")
    world.command("AbortJob")
    world.run(2)
    assert world.names(POD) == {"j-w-0"}

    world.command("ResumeJob", called="again")
    world.run()

    assert world.pod_versions() == {"j-w-0": ("0", "0"), "j-w-1": ("2", "1"), "j-w-2": ("2", "1")}
    assert world.status()["taskStatusCount"] == {"w": {"phase": {"Running": 2, "Succeeded": 1}}}


def test_a_pod_that_ended_before_the_job_was_resumed_is_restarted_with_its_task() -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    world = running(job(tasks=[task(replicas=3)], minimum=1, policies=policies))
    world.end_pod("j-w-0", "Succeeded")
    world.command("AbortJob")
    world.run(2)
    world.command("ResumeJob", called="again")
    world.run()
    group = world.group()["metadata"]["uid"]

    world.end_pod("j-w-1", "Failed", 1)
    world.run()

    assert set(world.pod_versions().values()) == {("2", "2")}
    assert world.group()["metadata"]["uid"] == group


@pytest.mark.parametrize("writes_left", range(8))
def test_a_job_that_is_resumed_keeps_them_although_the_process_is_killed(writes_left: int) -> None:
    world = running(job(tasks=[task(replicas=3)], minimum=1))
    world.end_pod("j-w-0", "Succeeded")
    world.command("AbortJob")
    world.run(2)

    world.command("ResumeJob", called="again")
    world.writes_left = writes_left
    for _ in range(6):
        try:
            world.turn()
        except KilledError:
            world.start()
    world.run(2)

    assert world.pod_versions()["j-w-0"] == ("0", "0")
    assert world.phase() == "Running"


# --- Commands ---
def test_a_command_ends_a_job_that_waits_for_its_queue() -> None:
    world = World()
    world.create(job(queue="nowhere"))
    world.settle()

    world.command("TerminateJob")
    world.run(2)

    assert world.phase() == "Terminated"
    assert world.names(COMMAND) == set()


def test_a_restarting_job_can_be_aborted() -> None:
    world = running(job(policies=RESTART))
    world.end_pod("j-w-0", "Failed", 1)
    world.settle()
    assert world.phase() == "Restarting"

    world.command("AbortJob")
    world.run(2)

    assert world.phases()[-3:] == ["Restarting", "Aborting", "Aborted"]


def test_a_command_that_changes_nothing_does_not_hold_up_a_job() -> None:
    world = World()
    world.create(job())
    world.command("RestartJob", called="first")
    world.now += 1
    world.command("RestartTask", called="second")

    world.run()

    assert world.phases() == [None, "Restarting", "Pending", "Running"]


def test_a_job_of_which_a_part_restarts_can_be_restarted_as_a_whole() -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    world = running(job(tasks=[task("a", 2, policies=policies), task("b")]))
    world.end_pod("j-a-0", "Failed", 1)
    world.settle()
    assert world.phase() == "Restarting"

    world.command("RestartJob")
    world.run()

    assert world.pod_versions() == {"j-a-0": ("1", "1"), "j-a-1": ("1", "1"), "j-b-0": ("1", "1")}
    assert world.group_history().count("GONE") == 1
    assert world.phases()[-3:] == ["Restarting", "Pending", "Running"]


def test_commands_are_carried_out_in_the_order_they_were_made() -> None:
    world = running(job())

    world.command("AbortJob", called="zzz")
    world.now += 1
    world.command("ResumeJob", called="aaa")
    world.run()

    assert world.phase() == "Running"
    assert "Aborting" in world.phases()
    assert world.names(COMMAND) == set()


def test_a_command_for_a_deleted_job_is_reported_and_deleted() -> None:
    world = running(job())

    world.command("AbortJob", uid="another")
    world.settle()

    assert world.phase() == "Running"
    assert world.names(COMMAND) == set()
    assert ("Command", "cmd", "Warning", "CommandIssued", "job j (another) is not there any more") in world.events


def test_a_command_waits_a_while_for_its_job() -> None:
    world = World()
    world.command("AbortJob", "j")
    world.wait(10)
    world.create(job())
    world.run(2)
    assert world.phase() == "Aborted"

    world.command("AbortJob", "never", called="lost")
    world.wait(31)

    assert world.names(COMMAND) == set()
    assert ("Command", "lost", "Warning", "CommandIssued", "job default/never is not there") in world.events


def test_an_unknown_command_is_deleted_and_reported() -> None:
    world = running(job())

    world.command("OpenQueue")
    world.run(1)

    assert (world.phase(), world.names(COMMAND)) == ("Running", set())
    assert any(event[0] == "Command" and event[3] == "Malformed" for event in world.events)


# --- others ---
def test_a_pod_of_the_same_name_and_another_owner_is_neither_counted_nor_touched() -> None:
    world = World()
    meta = {"name": "j-w-0", "namespace": "default", "uid": "theirs"}
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n1"}})
    world.create(job())
    world.run(2)
    assert world.find(POD, "j-w-0")["metadata"]["uid"] == "theirs"
    assert world.status()["taskStatusCount"] == {"w": {"phase": {"Running": 1}}}
    message = "Error creating pods: [pod default/j-w-0 exists already, owned by no controller]"
    assert world.job_events() == [("Warning", "FailedCreate", message)]

    world.delete(POD, "j-w-0")
    world.run(3)

    assert world.phase() == "Running"


def test_a_job_made_again_waits_for_the_pods_of_the_one_before() -> None:
    world = running(job())
    world.delete(VCJOB, "j")
    world.create(job())
    world.settle()
    world.admit()
    world.wait(5)
    assert world.job_events() == []

    world.run(3)

    assert world.phase() == "Running"
    uid = world.find(VCJOB, "j")["metadata"]["uid"]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in world.all(POD)} == {uid}


def test_pods_of_the_job_before_make_nothing_of_this_one_forgotten() -> None:
    policies = [{"event": "PodEvicted", "action": "AbortJob", "timeout": "1m"}]
    world = running(job(tasks=[task(replicas=2)], policies=policies))
    world.delete(VCJOB, "j")
    world.create(job(tasks=[task("x", 2)], policies=policies))
    world.settle()
    world.admit()
    world.settle()
    world.delete(POD, "j-x-0")
    world.settle()

    world.stop_deleted()
    world.wait(120)

    assert world.phase() == "Aborted"


def test_a_podgroup_that_was_deleted_is_made_again() -> None:
    world = running(job())

    world.delete(POD_GROUP, world.group()["metadata"]["name"])
    world.run(2)

    assert world.group_history() == [None, "Inqueue", "Running", "GONE", None, "Inqueue", "Running"]
    assert world.phases() == [None, "Pending", "Running"]


def test_one_dependency_of_several_is_enough_where_the_job_says_so() -> None:
    first = [task("a", minAvailable=1), task("b", minAvailable=1)]
    any_of = {"name": ["a", "b"], "iteration": "any"}
    world = World()
    world.create(job(tasks=[*first, task("c", dependsOn=any_of), task("d", dependsOn={"name": ["a", "b"]})], minimum=1))
    world.settle()
    world.admit()
    world.settle()
    assert world.names(POD) == {"j-a-0", "j-b-0"}

    world.patch(POD, "j-a-0", {"status": {"phase": "Running"}})
    world.settle()
    assert world.names(POD) == {"j-a-0", "j-b-0", "j-c-0"}
    not_ready = [{"name": "main", "ready": False}]
    world.patch(POD, "j-b-0", {"status": {"phase": "Running", "containerStatuses": not_ready}})
    world.settle()
    assert "j-d-0" not in world.names(POD)
    world.patch(POD, "j-b-0", {"status": {"containerStatuses": [{"name": "main", "ready": True}]}})
    world.settle()
    assert "j-d-0" in world.names(POD)


# --- writes that fail ---
def test_refused_pods_are_reported_and_the_job_is_terminated_in_the_end() -> None:
    world = World()
    world.refuse = lambda effect: "exceeded quota" if isinstance(effect, Create) and effect.kind is POD else ""
    world.create(job())
    world.settle()
    world.admit()
    world.wait(60)
    assert ("Warning", "FailedCreate", "Error creating pods: [exceeded quota]") in world.job_events()
    assert world.phase() == "Pending"

    world.wait(3600)

    assert world.phase() == "Terminated"
    assert ("Normal", "ExecuteAction", "Job failed on action SyncJob for retry limit reached") in world.job_events()
    assert world.names(POD_GROUP) == set()


def test_a_write_that_fails_at_first_changes_nothing_of_the_outcome() -> None:
    world = running(job(tasks=[task("a", 3, policies=[{"event": "PodFailed", "action": "RestartTask"}]), task("b")]))
    failures = iter([True, False] * 50)
    world.refuse = lambda effect: "try again" if next(failures) else ""

    world.end_pod("j-a-1", "Failed", 1)
    for _ in range(8):
        world.turn()
        world.wait(10)

    assert world.phase() == "Running"
    assert world.status()["retryCount"] == 1
    assert {name for name, (_, n) in world.pod_versions().items() if n == "1"} == {"j-a-0", "j-a-1", "j-a-2"}


def test_an_action_is_reported_once_although_its_deletions_fail_for_a_while() -> None:
    world = running(job(policies=[{"event": "PodFailed", "action": "RestartTask"}]))
    world.refuse = lambda effect: "try again" if isinstance(effect, Delete) else ""

    world.end_pod("j-w-0", "Failed", 1)
    world.wait(10)
    world.refuse = lambda effect: ""
    world.wait(60)
    world.run()

    reasons = [reason for _, reason, _ in world.job_events()]
    assert reasons.count("ExecuteAction") == 1
    assert "FailedDelete" in reasons
    assert (world.phase(), world.status()["retryCount"]) == ("Running", 1)


def test_a_job_has_not_ended_before_its_pods_are_deleted() -> None:
    world = running(job())
    world.refuse = lambda effect: "try again" if isinstance(effect, Delete) and effect.kind is POD else ""

    world.command("AbortJob")
    world.wait(5)
    assert world.status() == {
        "state": "Aborting",
        "conditions": ["Pending", "Running", "Aborting"],
        "minAvailable": 2,
        "terminating": 2,
        "version": 1,
    }
    world.wait(3600)
    assert not any("retry limit" in message for _, _, message in world.job_events())
    world.refuse = lambda effect: ""
    world.wait(60)
    world.stop_deleted()
    world.wait(5)

    assert world.phase() == "Aborted"


# --- number of writes ---
def test_a_job_of_ten_pods_costs_few_writes_until_it_runs() -> None:
    world = World()
    world.create(job(tasks=[task(replicas=10)]))

    world.run(4)

    assert world.phase() == "Running"
    assert len([write for write in world.writes if isinstance(write, Create)]) == 11
    assert len(world.status_writes()) == 2
    assert len(world.writes) == 13


def test_counts_are_written_at_most_once_a_second() -> None:
    world = running(job(tasks=[task(replicas=20)], minimum=1))
    world.wait(5)
    world.writes.clear()

    for index in range(19):
        world.end_pod(f"j-w-{index}", "Succeeded")
        world.wait(0.1)
    world.wait(2)

    assert world.status()["succeeded"] == 19
    assert len(world.status_writes()) <= 4
    assert {type(write) for write in world.writes} == {Patch}


def test_a_change_that_does_not_concern_a_job_does_not_reconcile_it() -> None:
    world = running(job())
    world.wait(5)

    world.patch(POD, "j-w-0", {"metadata": {"labels": {"touched": "1"}}})
    world.patch(POD, "j-w-0", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert len(world.worklist) == 0


def test_the_duration_of_a_job_is_written_when_it_ends() -> None:
    world = running(job(tasks=[task()]))
    world.wait(3600 - (world.now - START))

    world.end_pod("j-w-0", "Succeeded")
    world.settle()

    assert world.find(VCJOB, "j")["status"]["runningDuration"] == "1h0m0s"


# --- hostile input ---
def test_policies_and_volumes_that_cannot_be_used_are_reported_and_the_job_runs() -> None:
    policies = [{"event": "*", "action": "Explode"}, {"event": "*", "action": "AbortJob", "timeout": "soon"}]
    raw = job(policies=policies, volumes=[{"mountPath": "/x"}], tasks=[task(dependsOn={"name": ["ghost"]})])

    world = running(raw)

    fields = {message.partition(":")[0] for kind, reason, message in world.job_events() if reason == "Malformed"}
    assert fields == {
        "spec.policies[0].action",
        "spec.policies[1].timeout",
        "spec.volumes[0]",
        "spec.tasks[0].dependsOn.name",
    }


@pytest.mark.parametrize(
    "template",
    [{}, {"metadata": 1, "spec": []}, {"spec": {"containers": 7}}, {"metadata": {"labels": 5, "annotations": "x"}}],
)
def test_a_template_of_the_wrong_shape_stops_nothing(template: object) -> None:
    world = World()
    world.create(job("odd", tasks=[{"name": "w", "replicas": 1, "template": template}], volumes=[]))
    world.create(job("good"))

    world.run(3)

    assert world.phase("good") == "Running"
    assert world.phase("odd") in ("Pending", "Running")


def test_amounts_that_are_none_are_reported() -> None:
    odd = task()
    odd["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"

    world = running(job(tasks=[odd, task("x")]))

    assert world.group()["spec"]["minResources"]["cpu"] == "1"
    assert any("spec.tasks[0].template.spec" in message and "much" in message for _, _, message in world.job_events())


def test_a_job_of_two_tasks_of_one_name_or_of_too_many_pods_is_set_aside() -> None:
    world = World()
    world.create(job("twice", tasks=[task(), task()]))
    world.create(job("huge", tasks=[task(replicas=2_000_000_000)]))
    world.create(job("good"))

    world.run(3)

    assert (world.phase("twice"), world.phase("huge"), world.phase("good")) == (None, None, "Running")
    assert "two tasks are called 'w'" in world.job_events("twice")[0][2]
    assert "2000000000 Pods are asked for, at most 100000" in world.job_events("huge")[0][2]


def test_marks_of_pods_that_a_user_has_changed_do_no_harm() -> None:
    world = running(job())

    world.patch(POD, "j-w-0", {"metadata": {"annotations": {"volcano.sh/job-version": "seven"}}})
    world.end_pod("j-w-1", "Succeeded")
    world.run(2)

    assert world.phase() in ("Running", "Pending")
    assert world.status()["succeeded"] == 1


def test_a_phase_that_is_none_counts_as_pending() -> None:
    world = running(job())

    world.patch(VCJOB, "j", {"status": {"state": {"phase": "Dreaming"}}})
    world.run(2)

    assert world.phase() == "Running"


def test_a_plugin_that_is_unknown_is_reported_and_the_job_waits() -> None:
    world = World(make_plugins)
    world.create(job(plugins={"teleport": []}))

    world.run(2)

    assert (world.phase(), world.names(POD_GROUP)) == ("Pending", set())
    ((kind, reason, message),) = world.job_events()
    assert (kind, reason) == ("Warning", "PluginError")
    assert message.startswith("Execute plugin when job add failed, err: ")
    assert "teleport" in message


# --- what plugins brought ---
def brought(world: World) -> set[str]:
    return {name for kind in (CONFIG_MAP, SERVICE, SECRET, NETWORK_POLICY) for name in world.names(kind)}


def test_what_plugins_brought_goes_when_the_job_is_over() -> None:
    world = World(make_plugins)
    world.create(job(tasks=[task()], plugins={"svc": [], "ssh": [], "env": []}))
    world.run()
    assert brought(world) == {"j", "j-svc", "j-ssh"}

    world.end_pod("j-w-0", "Succeeded")
    world.run(3)

    assert (world.phase(), brought(world)) == ("Completed", set())
    assert "controlledResources" not in world.status()
    world.writes.clear()
    world.start()
    world.run(2)
    assert world.writes == []


@pytest.mark.parametrize("action", ["RestartJob", "RestartPod"])
def test_what_plugins_brought_stays_when_a_pod_is_restarted(action: str) -> None:
    world = World(make_plugins)
    world.create(job(plugins={"ssh": []}, policies=[{"event": "PodFailed", "action": action}]))
    world.run()
    keys = world.find(SECRET, "j-ssh")["data"]

    world.end_pod("j-w-0", "Failed", 1)
    world.run()

    assert (world.phase(), world.status()["retryCount"]) == ("Running", 1)
    assert world.find(SECRET, "j-ssh")["data"] == keys


def test_only_what_the_job_owns_goes() -> None:
    world = World(make_plugins)
    world.create(job(tasks=[task()], plugins={"svc": []}))
    world.run()
    world.writes.clear()

    world.command("TerminateJob")
    world.run(3)

    gone = [effect for effect in world.writes if isinstance(effect, Delete) and effect.kind in (CONFIG_MAP, SERVICE)]
    assert {effect.owner for effect in gone} == {world.find(VCJOB, "j")["metadata"]["uid"]}


def test_a_deleted_job_is_not_reconciled_when_its_queue_is_created() -> None:
    world = World()
    world.create(job(queue="nowhere"))
    world.settle()
    world.delete(VCJOB, "j")
    world.settle()

    queue = Queue(metadata=ObjectMeta(name="nowhere"))
    assert world.controller.observe(QUEUE, None, queue, world.now) == []


def test_what_plugins_bring_has_to_be_the_jobs_own_when_it_is_made_and_when_it_follows_the_job() -> None:
    world = running(job(tasks=[task()], plugins={"svc": []}), make_plugins)
    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=2)]}})
    world.run(3)

    of_maps = [e for e in world.writes if isinstance(e, Create | Patch) and e.kind is CONFIG_MAP]
    uid = world.find(VCJOB, "j")["metadata"]["uid"]
    assert [(type(e), e.owner) for e in of_maps] == [(Create, uid), (Patch, uid)]


def test_an_error_of_a_plugin_is_reported_with_the_name_of_the_plugin() -> None:
    world = World(make_plugins)
    world.create(job(tasks=[task("worker-of-many", 90_000)], plugins={"svc": []}))
    world.settle()

    (message,) = [message for _, reason, message in world.job_events() if reason == "PluginError"]
    assert message.startswith("Execute plugin when job add failed, err: plugin svc: the names of the 90000 replicas")


def test_what_plugins_brought_goes_with_a_job_that_never_ran() -> None:
    world = World(make_plugins)
    world.create(job(plugins={"svc": []}))
    world.settle()
    world.wait(5)
    assert brought(world) == {"j", "j-svc"}

    world.command("TerminateJob")
    world.wait(5)

    assert (world.phase(), brought(world)) == ("Terminated", set())


def test_a_job_that_is_resumed_gets_what_plugins_bring_again() -> None:
    world = World(make_plugins)
    world.create(job(plugins={"svc": []}))
    world.run()
    world.command("AbortJob")
    world.run(3)
    assert brought(world) == set()

    world.command("ResumeJob", called="again")
    world.run()

    assert (world.phase(), brought(world)) == ("Running", {"j", "j-svc"})
    assert world.status()["controlledResources"] == {"plugin-svc": "svc"}


def test_what_a_job_that_waits_has_is_not_made_again_by_the_next_process() -> None:
    world = World(make_plugins)
    world.create(job(plugins={"ssh": []}))
    world.settle()
    world.wait(5)
    assert "controlledResources" not in world.status()
    world.writes.clear()

    world.start()
    world.wait(5)

    assert world.writes == []
    world.run()
    assert world.status()["controlledResources"] == {"plugin-ssh": "ssh"}


def test_a_job_of_which_a_claim_is_refused_is_pending() -> None:
    world = World()
    world.refuse = lambda effect: "no" if isinstance(effect, Create) and effect.kind is CLAIM else ""
    world.create(job(volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["Odd"]}}]))
    world.wait(3)

    assert world.phase() == "Pending"
    assert ("Warning", "PVCError", "Failed to create PVC, err: no") in world.job_events()


# --- numbers in the status ---
def test_a_job_that_may_not_be_restarted_fails_with_its_first_restart_and_keeps_the_pod_that_shows_why() -> None:
    world = running(job(tasks=[task()], policies=RESTART, maxRetry=0))

    world.end_pod("j-w-0", "Failed", 1)
    world.run(2)

    assert (world.phase(), world.status()["retryCount"]) == ("Failed", 1)
    assert world.names(POD) == {"j-w-0"}


def test_how_many_pods_a_job_that_is_over_needed_does_not_change_with_its_spec() -> None:
    world = running(job())
    for name in ("j-w-0", "j-w-1"):
        world.end_pod(name, "Succeeded")
    world.run(2)

    world.patch(VCJOB, "j", {"spec": {"minAvailable": 1}})
    world.run(2)

    assert (world.phase(), world.status()["minAvailable"]) == ("Completed", 2)


def test_the_minimum_of_a_job_is_updated_once_its_pods_can_be_created() -> None:
    world = World()
    world.create(job())
    world.settle()

    world.patch(VCJOB, "j", {"spec": {"minAvailable": 1}})
    world.wait(3)
    assert world.status()["minAvailable"] == 2
    world.run(3)

    assert world.status()["minAvailable"] == 1


def test_the_status_names_the_plugins_but_hcclrank() -> None:
    world = World(make_plugins)
    world.create(job(plugins={"env": [], "hcclrank": []}))
    world.run()

    assert world.status()["controlledResources"] == {"plugin-env": "env"}
