"""The recorded behaviour of Volcano with vcjobs, compared with ours: phases, names, marks and Events are equal.

Versions equal those of the records if an action of Volcano counts once; see docs/differences.md.
"""

from typing import Any

import pytest

from scheduler.api.kinds import CLAIM, COMMAND, CONFIG_MAP, NETWORK_POLICY, POD, POD_GROUP, QUEUE, SERVICE, VCJOB
from scheduler.controllers.job.plugins import make_plugins
from tests.unit.controllers.job.world import World, job, running, task

EXECUTE = "ExecuteAction"


def executed(action: str) -> tuple[str, str, str]:
    return ("Normal", EXECUTE, f"Start to execute action {action} ")


def issued(action: str) -> tuple[str, str, str]:
    text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
    return ("Normal", "CommandIssued", text)


def marks(name: str, task: str, index: int, group: str, version: int = 0, retries: int = 0) -> dict[str, str]:
    """The annotations of a Pod."""
    return {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/job-name": name,
        "volcano.sh/job-retry-count": str(retries),
        "volcano.sh/job-version": str(version),
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task,
        "volcano.sh/template-uid": f"{name}-{task}",
    }


def labels(name: str, task: str, index: int, **more: str) -> dict[str, str]:
    """The labels of a Pod."""
    return {
        "volcano.sh/job-name": name,
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task,
        **more,
    }


# --- creation ---
def test_a_job_of_two_tasks_gets_its_podgroup_and_pods() -> None:
    worker = task("worker", 2)
    worker["template"]["metadata"] = {"labels": {"mine": "yes"}, "annotations": {"note": "x"}}
    raw = job("train", [task("ps", 1), worker], labels={"team": "a"}, annotations={"who": "me"})

    world = running(raw)

    group = world.group("train")
    name, uid = group["metadata"]["name"], world.find(VCJOB, "train")["metadata"]["uid"]
    assert name == f"train-{uid}"
    assert (group["metadata"]["labels"], group["metadata"]["annotations"]) == ({"team": "a"}, {"who": "me"})
    assert group["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "train",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert group["spec"] == {
        "minMember": 3,
        "minResources": {"count/pods": "3", "cpu": "3", "pods": "3", "requests.cpu": "3"},
        "minTaskMember": {"ps": 1, "worker": 2},
        "queue": "default",
    }
    assert world.names(POD) == {"train-ps-0", "train-worker-0", "train-worker-1"}
    first, last = world.find(POD, "train-ps-0"), world.find(POD, "train-worker-1")
    assert first["metadata"]["annotations"] == marks("train", "ps", 0, name)
    assert first["metadata"]["labels"] == labels("train", "ps", 0)
    assert last["metadata"]["annotations"] == marks("train", "worker", 1, name) | {"note": "x"}
    assert last["metadata"]["labels"] == labels("train", "worker", 1, mine="yes")
    assert last["metadata"]["ownerReferences"] == group["metadata"]["ownerReferences"]
    assert last["spec"]["schedulerName"] == "volcano"
    assert world.phases("train") == [None, "Pending", "Running"]
    assert world.group_history("train") == [None, "Inqueue", "Running"]
    assert world.status("train") == {
        "state": "Running",
        "conditions": ["Pending", "Running"],
        "minAvailable": 3,
        "running": 3,
        "taskStatusCount": {"ps": {"phase": {"Running": 1}}, "worker": {"phase": {"Running": 2}}},
    }
    assert world.job_events("train") == []


def test_pods_are_created_once_the_podgroup_is_admitted() -> None:
    world = World()
    world.create(job())

    world.wait(5)

    assert len(world.names(POD_GROUP)) == 1
    assert world.names(POD) == set()
    assert world.status() == {"state": "Pending", "conditions": ["Pending"], "minAvailable": 2}


def test_plugins_mutate_pods_and_create_objects_that_the_status_lists() -> None:
    raw = job("train", [task("ps", 1), task("worker", 2)], plugins={"env": [], "svc": []})

    world = running(raw, make_plugins)

    assert world.status("train")["controlledResources"] == {"plugin-env": "env", "plugin-svc": "svc"}
    assert world.find(CONFIG_MAP, "train-svc")["data"]["worker.host"] == "train-worker-0.train\ntrain-worker-1.train"
    assert world.names(SERVICE) == world.names(NETWORK_POLICY) == {"train"}
    pod = world.find(POD, "train-worker-1")["spec"]
    env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    assert (env["VC_TASK_INDEX"], pod["hostname"], pod["subdomain"]) == ("1", "train-worker-1", "train")


def test_the_jobs_priority_class_is_that_of_its_podgroup_and_pods() -> None:
    world = running(job(tasks=[task()], priorityClassName="hi"))

    assert world.group()["spec"]["priorityClassName"] == "hi"
    assert world.find(POD, "j-w-0")["spec"]["priorityClassName"] == "hi"


def test_partitions_become_sub_groups() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": {"mode": "soft"}}

    world = running(job(tasks=[task(replicas=4, partitionPolicy=policy)], minimum=2))

    assert world.group()["spec"] == {
        "minMember": 2,
        "minResources": {"count/pods": "2", "cpu": "2", "pods": "2", "requests.cpu": "2"},
        "minTaskMember": {"w": 2},
        "queue": "default",
        "subGroupPolicy": [
            {
                "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
                "matchLabelKeys": ["volcano.sh/partition-id"],
                "minSubGroups": 1,
                "name": "w",
                "networkTopology": {"mode": "soft"},
                "subGroupSize": 2,
            }
        ],
    }
    partitions = [world.find(POD, f"j-w-{i}")["metadata"]["labels"]["volcano.sh/partition-id"] for i in range(4)]
    assert partitions == ["0", "0", "1", "1"]


def test_a_claim_is_made_and_another_is_found() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/a", "volumeClaim": spec}, {"mountPath": "/b", "volumeClaimName": "have"}]
    world = World()
    have = {"metadata": {"name": "have", "namespace": "default"}, "spec": spec}
    world.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | have)
    world.create(job(tasks=[task()], volumes=volumes))

    world.run(3)

    (made,) = world.names(CLAIM) - {"have"}
    assert made.startswith("j-pvc-")
    assert len(made) == len("j-pvc-") + 12
    assert made[6:].isalnum()
    assert made == made.lower()
    claim = world.find(CLAIM, made)
    assert claim["spec"] == spec
    assert claim["metadata"]["ownerReferences"][0]["name"] == "j"
    assert world.status()["controlledResources"] == {f"volume-pvc-{made}": made, "volume-pvc-have": "have"}
    pod = world.find(POD, "j-w-0")["spec"]
    by_name = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]}
    mounted = {by_name[mount["name"]]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {made: "/a", "have": "/b"}


def test_a_job_in_a_queue_that_is_not_there_waits_untouched_and_starts_when_it_comes() -> None:
    world = World()
    world.create(job(queue="nowhere"))

    world.wait(300)

    assert world.status() == {"state": None, "conditions": []}
    assert (world.names(POD_GROUP), world.writes) == (set(), [])
    assert world.job_events() == [("Warning", "QueueNotFound", "queue nowhere is not there; the job waits for it")]
    queue = {"metadata": {"name": "nowhere"}}
    world.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"} | queue)
    world.run(2)
    assert world.phase() == "Running"
    assert world.names(QUEUE) == {"default", "nowhere"}


def test_the_whole_of_an_admitted_job_runs() -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    tasks = [task("default0", 2, minAvailable=2, maxRetry=3, template={"spec": {"containers": [container]}})]
    raw = job("train", tasks, plugins={"svc": [], "env": []})

    world = running(raw, make_plugins)

    assert world.status("train") == {
        "state": "Running",
        "conditions": ["Pending", "Running"],
        "controlledResources": {"plugin-env": "env", "plugin-svc": "svc"},
        "minAvailable": 2,
        "running": 2,
        "taskStatusCount": {"default0": {"phase": {"Running": 2}}},
    }
    assert world.group("train")["spec"]["minTaskMember"] == {"default0": 2}


# --- policies ---
@pytest.mark.parametrize(
    ("policy", "exit_code"),
    [({"event": "PodFailed", "action": "RestartJob"}, 1), ({"exitCode": 3, "action": "RestartJob"}, 3)],
    ids=["event", "exit code"],
)
def test_a_failed_pod_restarts_the_job_with_a_podgroup_of_its_own(policy: Any, exit_code: int) -> None:
    world = running(job(policies=[policy]))

    world.end_pod("j-w-0", "Failed", exit_code)
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Restarting", "Pending", "Running"]
    assert world.group_history() == [None, "Inqueue", "Running", "GONE", None, "Inqueue", "Running"]
    assert world.status() == {
        "state": "Running",
        "conditions": ["Restarting", "Pending", "Running"],
        "minAvailable": 2,
        "retryCount": 1,
        "running": 2,
        "taskStatusCount": {"w": {"phase": {"Running": 2}}},
        "version": 1,
    }
    group = world.group()["metadata"]["name"]
    assert world.find(POD, "j-w-0")["metadata"]["annotations"] == marks("j", "w", 0, group, 1, 1)
    assert world.job_events() == [executed("RestartJob")]


def test_another_exit_code_restarts_nothing() -> None:
    world = running(job(policies=[{"exitCode": 3, "action": "RestartJob"}]))

    world.end_pod("j-w-0", "Failed", 4)
    world.run()

    assert world.phases() == [None, "Pending", "Running"]
    assert world.status()["failed"] == 1


def test_a_failed_pod_terminates_the_job_and_stays() -> None:
    world = running(job(policies=[{"event": "PodFailed", "action": "TerminateJob"}]))

    world.end_pod("j-w-0", "Failed", 1)
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Terminating", "Terminated"]
    assert world.group_history() == [None, "Inqueue", "Running", "GONE"]
    assert world.names(POD) == {"j-w-0"}
    assert world.status() == {
        "state": "Terminated",
        "conditions": ["Pending", "Running", "Terminating", "Terminated"],
        "minAvailable": 2,
        "version": 1,
    }
    assert world.job_events() == [executed("TerminateJob")]


def test_a_failed_pod_restarts_its_task() -> None:
    tasks = [task("a", 2, policies=[{"event": "PodFailed", "action": "RestartTask"}]), task("b")]
    world = running(job(tasks=tasks))

    world.end_pod("j-a-0", "Failed", 1)
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Restarting", "Pending", "Running"]
    assert "GONE" not in world.group_history()
    assert world.pod_versions() == {"j-a-0": ("0", "1"), "j-a-1": ("0", "1"), "j-b-0": ("0", "0")}
    assert world.status() == {
        "state": "Running",
        "conditions": ["Restarting", "Pending", "Running"],
        "minAvailable": 3,
        "retryCount": 1,
        "running": 3,
        "taskStatusCount": {"a": {"phase": {"Running": 2}}, "b": {"phase": {"Running": 1}}},
    }
    assert world.job_events() == [executed("RestartTask")]


def test_an_evicted_pod_restarts_its_task() -> None:
    tasks = [task("a", 2, policies=[{"event": "PodEvicted", "action": "RestartTask"}]), task("b")]
    world = running(job(tasks=tasks))

    world.delete(POD, "j-a-1")
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Restarting", "Pending", "Running"]
    assert world.pod_versions() == {"j-a-0": ("0", "1"), "j-a-1": ("0", "1"), "j-b-0": ("0", "0")}
    assert world.job_events() == [executed("RestartTask")]


def test_without_a_policy_a_job_fails_when_its_last_pod_has_ended() -> None:
    world = running(job())
    group = world.group()["metadata"]["name"]

    world.end_pod("j-w-0", "Failed", 1)
    message = "1/2 tasks in gang unschedulable: pod group is not ready, 1 Failed, 1 Running, 2 minAvailable"
    world.group_phase(
        group,
        "Unknown",
        {"type": "Scheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"},
        {"type": "Unschedulable", "status": "True", "lastTransitionTime": "2027-01-15T08:00:01Z", "message": message},
    )
    world.wait(2)

    assert world.status() == {
        "state": "Running",
        "conditions": ["Pending", "Running"],
        "failed": 1,
        "minAvailable": 2,
        "running": 1,
        "taskStatusCount": {"w": {"phase": {"Failed": 1, "Running": 1}}},
    }
    world.end_pod("j-w-1", "Succeeded")
    world.run()
    assert world.phases() == [None, "Pending", "Running", "Failed"]
    assert world.group_history() == [None, "Inqueue", "Running", "Unknown", "GONE"]
    assert world.names(POD) == {"j-w-0", "j-w-1"}
    assert world.status() == {
        "state": "Failed",
        "conditions": ["Pending", "Running", "Failed"],
        "minAvailable": 2,
        "version": 1,
    }
    event = ("Warning", "PodGroupPending", f"PodGroup default:j unschedulable, reason: {message}")
    assert world.job_events() == [event]


def test_a_deleted_pod_is_made_again_without_any_policy() -> None:
    world = running(job())

    world.delete(POD, "j-w-1")
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Pending", "Running"]
    assert world.pod_versions() == {"j-w-0": ("0", "0"), "j-w-1": ("0", "0")}
    assert "version" not in world.status()
    assert world.job_events() == []


def test_a_job_fails_when_its_retries_are_used_up() -> None:
    world = running(job(tasks=[task()], policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2))

    for _ in range(2):
        world.end_pod("j-w-0", "Failed", 1)
        world.run()

    assert world.phases() == [
        None, "Pending", "Running", "Restarting", "Pending", "Running", "Restarting", "Failed"
    ]  # fmt: skip
    assert world.pod_versions() == {"j-w-0": ("1", "1")}
    assert world.status() == {
        "state": "Failed",
        "conditions": ["Pending", "Running", "Restarting", "Failed"],
        "minAvailable": 1,
        "retryCount": 2,
        "version": 3,
    }
    assert world.group_history()[-1] == "GONE"


def test_enough_successes_complete_a_job() -> None:
    world = running(job(tasks=[task(replicas=4)], minSuccess=2))

    world.end_pod("j-w-0", "Succeeded")
    world.wait(2)
    assert world.status()["taskStatusCount"] == {"w": {"phase": {"Running": 3, "Succeeded": 1}}}
    world.end_pod("j-w-1", "Succeeded")
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Completed"]
    assert world.names(POD) == {"j-w-0", "j-w-1"}
    assert world.status() == {
        "state": "Completed",
        "conditions": ["Pending", "Running", "Completed"],
        "minAvailable": 4,
        "version": 1,
    }
    assert world.group_history()[-1] == "GONE"


def test_a_tasks_policy_goes_before_the_jobs() -> None:
    tasks = [task("a", policies=[{"event": "PodFailed", "action": "CompleteJob"}]), task("b")]
    world = running(job(tasks=tasks, policies=[{"event": "PodFailed", "action": "AbortJob"}]))

    world.end_pod("j-a-0", "Failed", 1)
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Completing", "Completed"]
    assert world.names(POD) == {"j-a-0"}
    assert world.status()["conditions"] == ["Pending", "Running", "Completing", "Completed"]
    assert world.job_events() == [executed("CompleteJob")]


def test_a_podgroup_of_unknown_state_restarts_the_job() -> None:
    world = running(job(policies=[{"event": "Unknown", "action": "RestartJob"}]))
    first = world.group()["metadata"]["uid"]

    world.delete(POD, "j-w-1")
    world.stop_deleted()
    world.settle()
    assert world.phase() == "Pending"
    world.group_phase(world.group()["metadata"]["name"], "Unknown")
    world.settle()
    world.stop_deleted()
    world.wait(1)
    world.admit()
    world.wait(2)

    assert world.phases() == [None, "Pending", "Running", "Pending", "Restarting", "Pending"]
    assert world.group_history() == [None, "Inqueue", "Running", "Unknown", "GONE", None, "Inqueue"]
    assert world.group()["metadata"]["uid"] != first
    assert world.pod_versions() == {"j-w-0": ("1", "1"), "j-w-1": ("1", "1")}
    assert world.status() == {
        "state": "Pending",
        "conditions": ["Running", "Restarting", "Pending"],
        "minAvailable": 2,
        "pending": 2,
        "retryCount": 1,
        "taskStatusCount": {"w": {"phase": {"Pending": 2}}},
        "version": 1,
    }
    assert executed("RestartJob") in world.job_events()


def test_a_job_that_needs_fewer_goes_on_when_one_has_succeeded() -> None:
    world = running(job(tasks=[task(replicas=3)], minimum=2))

    world.end_pod("j-w-0", "Succeeded")
    world.run(2)

    assert world.phases() == [None, "Pending", "Running"]
    assert world.status()["taskStatusCount"] == {"w": {"phase": {"Running": 2, "Succeeded": 1}}}
    assert world.group()["spec"]["minTaskMember"] == {"w": 3}


def test_pods_wait_for_the_task_they_depend_on() -> None:
    tasks = [task("ps", minAvailable=1), task("w", 2, dependsOn={"name": ["ps"]})]
    world = World()
    world.create(job(tasks=tasks, minimum=1))
    world.settle()
    assert world.group()["spec"]["minTaskMember"] == {"ps": 1, "w": 2}

    world.admit()
    world.settle()
    assert world.names(POD) == {"j-ps-0"}
    world.bind()
    world.settle()

    assert world.names(POD) == {"j-ps-0", "j-w-0", "j-w-1"}


# --- Commands, scaling ---
def test_a_command_aborts_the_job_and_another_resumes_it() -> None:
    world = running(job())

    world.command("AbortJob")
    world.run(2)
    assert world.status() == {
        "state": "Aborted",
        "conditions": ["Pending", "Running", "Aborting", "Aborted"],
        "minAvailable": 2,
        "version": 1,
    }
    assert (world.names(POD), world.names(POD_GROUP)) == (set(), set())
    world.command("ResumeJob", called="cmd-2")
    world.run()

    assert world.phases() == [None, "Pending", "Running", "Aborting", "Aborted", "Restarting", "Pending", "Running"]
    assert world.group_history() == [None, "Inqueue", "Running", "GONE", None, "Inqueue", "Running"]
    assert world.status() == {
        "state": "Running",
        "conditions": ["Aborting", "Aborted", "Restarting", "Pending", "Running"],
        "minAvailable": 2,
        "retryCount": 1,
        "uncountedRestarts": 1,
        "running": 2,
        "taskStatusCount": {"w": {"phase": {"Running": 2}}},
        "version": 2,
    }
    assert world.job_events() == [issued("AbortJob"), executed("AbortJob"), issued("ResumeJob"), executed("ResumeJob")]
    assert world.names(COMMAND) == set()


def test_a_command_terminates_the_job() -> None:
    world = running(job())

    world.command("TerminateJob")
    world.run(2)

    assert world.phases() == [None, "Pending", "Running", "Terminating", "Terminated"]
    assert (world.names(POD), world.names(POD_GROUP), world.names(COMMAND)) == (set(), set(), set())
    assert world.status()["conditions"] == ["Pending", "Running", "Terminating", "Terminated"]
    assert world.job_events() == [issued("TerminateJob"), executed("TerminateJob")]


def test_a_job_is_scaled_up_and_down() -> None:
    world = running(job(minimum=1, policies=[{"event": "PodEvicted", "action": "RestartJob"}]))

    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=4)]}})
    world.run(3)
    assert world.status()["taskStatusCount"] == {"w": {"phase": {"Running": 4}}}
    assert world.group()["spec"]["minTaskMember"] == {"w": 4}
    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=1)]}})
    world.run(3)

    assert world.pod_versions() == {"j-w-0": ("0", "0")}
    assert world.group()["spec"] == {
        "minMember": 1,
        "minResources": {"count/pods": "1", "cpu": "1", "pods": "1", "requests.cpu": "1"},
        "minTaskMember": {"w": 1},
        "queue": "default",
    }
    assert world.phases() == [None, "Pending", "Running"]
    assert world.job_events() == []


def test_a_deleted_job_leaves_nothing_behind() -> None:
    world = running(job(plugins={"svc": []}), make_plugins)

    world.delete(VCJOB, "j")
    world.run(2)

    for kind in (POD, POD_GROUP, CONFIG_MAP, SERVICE, NETWORK_POLICY):
        assert world.names(kind) == set()
