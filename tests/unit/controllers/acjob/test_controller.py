"""The controller acjob-controller over a cluster in memory."""

import copy
import json
from typing import Any

import pytest

from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP, SERVICE
from scheduler.controllers.acjob import AscendJobController
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.controllers.acjob.killable import KillableControllers
from tests.unit.controllers.clusters import Controlled

Raw = dict[str, Any]
GROUP = "train-uid-train"
PODS = ["train-master-0", "train-worker-0", "train-worker-1"]


class World(Controlled):
    def __init__(self) -> None:
        super().__init__(lambda store: [AscendJobController(store, ("volcano",))])

    def admit(self) -> None:
        self.patch(POD_GROUP, GROUP, {"status": {"phase": "Inqueue"}})

    def pods(self) -> dict[str, Raw]:
        return {raw["metadata"]["name"]: raw for raw in self.cluster.server.of(POD)}

    def end(self, phase: str, *names: str) -> None:
        for name in names:
            self.patch(POD, name, {"status": {"phase": phase}})
        self.wait(2)

    def delete_pods(self, *names: str) -> None:
        for name in names:
            self.delete(POD, name)
        self.wait(2)

    def status(self) -> Raw:
        raw = self.find(ACJOB, "train")
        assert raw is not None
        status: Raw = raw.get("status") or {}
        return status

    def conditions(self) -> list[tuple[str, str, str]]:
        return [(c["type"], c["status"], c["reason"]) for c in self.status().get("conditions", [])]

    def state(self) -> list[str]:
        return [type for type, status, _ in self.conditions() if status == "True" and type != "Created"]


class KillableWorld(KillableControllers, World):
    """A running job whose controllers can be killed."""

    def __init__(self) -> None:
        super().__init__()
        self.create(acjob({"Master": role(), "Worker": role(2)}))
        self.admit()
        self.end("Running", *PODS)

    def lose_all_pods(self, writes: int) -> None:
        """Deletes all Pods; the controllers are killed after a number of writes, and another process continues."""
        self.kill_after(writes)
        for name in PODS:
            assert self.cluster.server.delete(POD, "default", name, force=True)
        self.settle()
        self.recover()

    def assert_pods_are_of_restart(self, number: str) -> None:
        assert sorted(self.pods()) == PODS
        assert {raw["metadata"]["labels"]["version"] for raw in self.pods().values()} == {number}
        assert self.groups()[GROUP]["metadata"]["annotations"]["volcano-py/restarts"] == number

    def recover(self) -> None:
        """Starts another process."""
        assert self.killed
        for _ in range(5):
            self.wait(1)


def started(**job: Any) -> World:
    """A job of a master and two workers whose Pods exist."""
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2)}, **job))
    world.admit()
    return world


def running(**job: Any) -> World:
    world = started(**job)
    world.end("Running", *PODS)
    return world


# --- objects ---
def test_a_job_gets_a_pod_group_with_its_labels_and_annotations() -> None:
    world = World()
    policy = {"schedulingPolicy": {"queue": "default", "priorityClass": "high"}}
    world.create(acjob({"Master": role(), "Worker": role(2)}, annotations={"sp-block": "16"}, run_policy=policy))
    group = world.groups()[GROUP]
    assert group["metadata"]["labels"] == {"framework": "pytorch"}
    assert group["metadata"]["annotations"] == {"sp-block": "16"}
    assert group["metadata"]["ownerReferences"][0]["kind"] == "AscendJob"
    assert group["spec"] == {
        "minMember": 3,
        "minTaskMember": {"master": 1, "worker": 2},
        "minResources": {"cpu": "3", "huawei.com/Ascend910": "24"},
        "queue": "default",
        "priorityClassName": "high",
    }


def test_the_smallest_number_of_pods_counts_for_the_resources() -> None:
    world = World()
    policy = {"schedulingPolicy": {"minAvailable": 2}}
    world.create(acjob({"Master": role(chips=1), "Worker": role(2)}, run_policy=policy))
    spec = world.groups()[GROUP]["spec"]
    assert (spec["minMember"], spec["minResources"]) == (2, {"cpu": "2", "huawei.com/Ascend910": "9"})


def test_pods_are_created_once_the_pod_group_is_admitted() -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2)}))
    assert world.pods() == {}
    assert world.conditions() == [("Created", "True", "PodGroupPending")]
    world.admit()
    assert sorted(world.pods()) == PODS


def test_the_service_of_the_leader_is_created_once_the_pod_group_is_admitted() -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2)}))
    assert world.find(SERVICE, "train-master-0") is None
    world.admit()
    assert world.find(SERVICE, "train-master-0") is not None


def test_the_pod_group_of_a_job_with_a_recover_strategy_says_that_processes_recover() -> None:
    world = World()
    world.create(acjob({"Master": role()}, annotations={"recover-strategy": "recover"}))
    assert world.groups()[GROUP]["metadata"]["labels"]["process-recover-enable"] == "on"


def test_a_pod_has_the_labels_the_rank_and_the_address_of_the_leader() -> None:
    world = started()
    found = world.pods()["train-worker-1"]
    assert found["metadata"]["labels"] == {
        "mine": "yes",
        "group-name": "mindxdl.gitee.com",
        "job-name": "train",
        "replica-index": "1",
        "replica-type": "worker",
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/operator-name": "ascendjob-controller",
        "training.kubeflow.org/replica-index": "1",
        "training.kubeflow.org/replica-type": "worker",
        "version": "0",
    }
    assert found["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": GROUP,
        "volcano.sh/task-spec": "worker",
        "hccl/rankIndex": "2",
    }
    assert (found["spec"]["schedulerName"], found["spec"]["restartPolicy"]) == ("volcano", "Never")
    service = world.find(SERVICE, "train-master-0")
    assert service is not None
    environment = {v["name"]: v.get("value") for v in found["spec"]["containers"][0]["env"]}
    assert environment["MASTER_ADDR"] == service["spec"]["clusterIP"]
    assert service["spec"]["selector"]["replica-type"] == "master"


def test_the_leader_has_the_port_and_the_label_of_the_master() -> None:
    found = started().pods()["train-master-0"]
    assert found["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    assert found["spec"]["containers"][0]["ports"] == [{"name": "ascendjob-port", "containerPort": 2222}]


def test_a_variable_of_the_template_is_replaced_and_others_stay() -> None:
    world = World()
    raw = acjob({"Master": role()})
    container = raw["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "7"}, {"name": "MINE", "value": "1"}]
    world.create(raw)
    world.admit()
    env = world.pods()["train-master-0"]["spec"]["containers"][0]["env"]
    assert [v["value"] for v in env if v["name"] in ("RANK", "MINE")] == ["1", "0"]


# --- running ---
def test_a_job_runs_and_succeeds_when_all_pods_have() -> None:
    world = running()
    assert world.state() == ["Running"]
    assert world.status()["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
    world.end("Succeeded", *PODS[1:])
    assert world.state() == ["Running"]
    world.end("Succeeded", PODS[0])
    assert world.state() == ["Succeeded"]
    assert "completionTime" in world.status()
    assert GROUP not in world.groups()


@pytest.mark.parametrize("policy", ["", "AllWorkers"])
def test_whatever_the_success_policy_a_leader_that_trains_must_have_succeeded_too(policy: str) -> None:
    world = running(successPolicy=policy)
    world.end("Succeeded", *PODS[1:])
    assert world.state() == ["Running"]
    world.end("Failed", PODS[0])
    assert world.state() == ["Failed"]


SCHEDULED = ["train-scheduler-0", "train-worker-0", "train-worker-1"]


def mindspore(chips: int = 0, **spec: Any) -> World:
    """A running MindSpore job, whose Scheduler has no chips by default."""
    world = World()
    world.create(acjob({"Scheduler": role(chips=chips), "Worker": role(2)}, "mindspore", **spec))
    world.admit()
    world.end("Running", *SCHEDULED)
    return world


def test_with_the_success_policy_all_workers_a_job_succeeds_although_mindspores_scheduler_runs() -> None:
    world = mindspore(successPolicy="AllWorkers")
    world.end("Succeeded", SCHEDULED[1])
    assert world.state() == ["Running"]
    world.end("Succeeded", SCHEDULED[2])
    assert world.state() == ["Succeeded"]
    assert world.status()["conditions"][-1]["message"].endswith("successfully completed: all its workers have.")
    assert sorted(world.pods()) == SCHEDULED[1:]
    assert GROUP not in world.groups()


def test_the_scheduler_of_a_job_whose_workers_have_succeeded_stays_if_no_pods_are_to_be_cleaned_up() -> None:
    world = mindspore(successPolicy="AllWorkers", run_policy={"cleanPodPolicy": "None"})
    world.end("Succeeded", *SCHEDULED[1:])
    assert (world.state(), sorted(world.pods())) == (["Succeeded"], SCHEDULED)


def test_by_default_all_pods_must_have_succeeded() -> None:
    world = mindspore()
    world.end("Succeeded", *SCHEDULED[1:])
    assert world.state() == ["Running"]
    world.end("Succeeded", SCHEDULED[0])
    assert world.state() == ["Succeeded"]


def test_a_scheduler_with_chips_is_a_worker_too() -> None:
    world = mindspore(chips=8, successPolicy="AllWorkers")
    world.end("Succeeded", *SCHEDULED[1:])
    assert world.state() == ["Running"]


def test_a_worker_that_fails_fails_a_job_with_the_success_policy_all_workers() -> None:
    world = mindspore(successPolicy="AllWorkers")
    world.end("Succeeded", SCHEDULED[1])
    world.end("Failed", SCHEDULED[2])
    assert world.state() == ["Failed"]


def test_an_elastic_job_succeeds_without_the_pods_that_never_got_a_node() -> None:
    world = started(run_policy={"schedulingPolicy": {"minAvailable": 2}})
    world.end("Running", *PODS[:2])
    world.end("Succeeded", PODS[0])
    assert world.state() == ["Running"]
    world.end("Succeeded", PODS[1])
    assert world.state() == ["Succeeded"]
    assert sorted(world.pods()) == PODS[:2]


def test_a_job_whose_other_pods_wait_has_not_succeeded() -> None:
    world = started()
    world.end("Succeeded", *PODS[:2])
    assert world.state() == []


def test_a_failed_pod_fails_a_job_without_retries() -> None:
    world = running()
    world.end("Failed", PODS[1])
    assert world.state() == ["Failed"]
    assert "1 of 3 Pods failed" in world.status()["conditions"][-1]["message"]


def test_a_pod_whose_virtual_npu_could_not_be_created_is_replaced_and_the_job_has_not_failed() -> None:
    world = running(run_policy={"backoffLimit": 1})
    message = "Pod was rejected: Allocate failed due to rpc error: NPUSegmentFailed, which is unexpected"
    for _ in range(3):
        rejected = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
        world.patch(POD, PODS[1], {"status": rejected})
        world.wait(2)
        assert "Failed" not in world.state()
        assert world.cluster.server.delete(POD, "default", PODS[1], force=True)  # by the scheduler
        world.wait(2)
        world.end("Running", PODS[1])
    assert world.state() == ["Running"]
    assert sorted(world.pods()) == PODS


RETRIES = {"fault-retry-times": "2", "fault-scheduling": "force"}


def record(world: World, **data: Any) -> None:
    """Writes the scheduler's record of the restarts of the job."""
    texts = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value) for key, value in data.items()
    }
    metadata = {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"}
    world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts})


def left(times: int) -> Raw:
    return {f"default/{GROUP}": {"UUID": "uid-train", "Times": times}}


def restart(*uids: str, uid: str = "uid-train") -> Raw:
    pods = [{"uid": each, "name": "p"} for each in uids]
    return {f"default/{GROUP}": {"uid": uid, "number": 1, "time": 1} | ({"pods": pods} if pods else {})}


def test_with_retries_a_job_restarts() -> None:
    world = running(labels=RETRIES)
    world.end("Failed", PODS[1])
    assert world.state() == ["Restarting"]


@pytest.mark.parametrize("value", [None, "off"])
def test_a_job_that_the_scheduler_does_not_restart_fails_whatever_its_number_of_retries(value: str | None) -> None:
    labels = {"fault-retry-times": "2"} | ({} if value is None else {"fault-scheduling": value})
    world = running(labels=labels)
    world.end("Failed", PODS[1])
    assert world.state() == ["Failed"]


def test_restarts_after_other_faults_take_no_retries() -> None:
    world = running(labels=RETRIES, run_policy={"backoffLimit": 0})
    for _ in range(4):
        world.delete_pods(PODS[1])
        world.end("Running", PODS[1])
    record(world, remain_retry_times=left(2), restarts=restart())
    world.end("Failed", PODS[1])
    assert "and 2 retries remain" in world.status()["conditions"][-1]["message"]


def test_a_job_fails_when_the_scheduler_has_no_retries_left_for_it() -> None:
    world = running(labels=RETRIES)
    record(world, remain_retry_times=left(0), restarts=restart())
    world.end("Failed", PODS[1])
    assert world.state() == ["Failed"]


def test_while_the_last_restart_is_under_way_the_job_has_not_failed() -> None:
    world = running(labels=RETRIES)
    record(world, remain_retry_times=left(0), restarts=restart("some-pod"))
    world.end("Failed", PODS[1])
    assert world.state() == ["Restarting"]


def test_the_restart_of_another_job_of_this_name_does_not_count() -> None:
    world = running(labels=RETRIES)
    record(world, remain_retry_times=left(0), restarts=restart("some-pod", uid="uid-of-before"))
    world.end("Failed", PODS[1])
    assert world.state() == ["Failed"]


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"default/train-uid-train": 5}', "[" * 5000, '{"a": {"Times": -1}}'])
def test_a_malformed_record_counts_as_empty(text: str) -> None:
    world = running(labels=RETRIES)
    record(world, remain_retry_times=text, restarts=text)
    world.end("Failed", PODS[1])
    assert world.state() == ["Restarting"]


@pytest.mark.parametrize("gone", [PODS, PODS[1:2]], ids=["all Pods", "one Pod"])
def test_pods_that_are_deleted_are_created_again_with_the_next_version(gone: list[str]) -> None:
    world = running()
    world.delete_pods(*gone)
    made = world.pods()
    assert sorted(made) == PODS
    assert {made[name]["metadata"]["labels"]["version"] for name in gone} == {"1"}
    assert world.groups()[GROUP]["metadata"]["annotations"]["volcano-py/restarts"] == "1"
    world.end("Running", *gone)
    assert world.state() == ["Running"]


@pytest.mark.parametrize("writes", range(6))
def test_a_restart_is_counted_once_whenever_the_controllers_are_killed(writes: int) -> None:
    world = KillableWorld()
    world.lose_all_pods(writes)
    world.assert_pods_are_of_restart("1")
    world.end("Running", *PODS)
    assert world.state() == ["Running"]


def test_pods_that_take_long_to_stop_belong_to_the_same_restart_although_the_controllers_are_killed() -> None:
    world = KillableWorld()
    for name in PODS:
        world.patch(POD, name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    world.delete_pods(PODS[0])
    world.end("Running", PODS[0])
    assert world.state() == ["Restarting"]
    world.kill_after(0)
    world.delete_pods(*PODS[1:])
    world.recover()
    world.end("Running", *PODS)
    assert {raw["metadata"]["labels"]["version"] for raw in world.pods().values()} == {"1"}
    assert world.state() == ["Running"]


@pytest.mark.parametrize("writes", range(6))
def test_the_next_restart_counts_although_no_pod_ran_since_the_last(writes: int) -> None:
    world = KillableWorld()
    world.delete_pods(*PODS)
    assert world.state() == ["Restarting"]
    world.lose_all_pods(writes)
    world.assert_pods_are_of_restart("2")


def test_the_loss_of_a_pod_that_an_earlier_restart_did_not_replace_counts_although_the_controllers_are_killed() -> None:
    world = KillableWorld()
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    world.kill_after(0)
    assert world.cluster.server.delete(POD, "default", PODS[2], force=True)
    world.settle()
    world.recover()
    assert world.pods()[PODS[2]]["metadata"]["labels"]["version"] == "2"


def test_a_running_job_that_is_given_more_pods_does_not_restart() -> None:
    world = running()
    world.patch(ACJOB, "train", {"spec": {"replicaSpecs": {"Worker": {"replicas": 3}}}})
    world.wait(3)
    assert world.pods()["train-worker-2"]["metadata"]["labels"]["version"] == "0"
    assert world.state() == ["Running"]


def test_the_pods_of_another_job_of_this_name_are_no_loss() -> None:
    world = started()
    old = copy.deepcopy(world.pods()[PODS[2]])
    old["metadata"] |= {"name": "train-worker-7", "uid": "uid-of-its-pod"}
    old["metadata"]["ownerReferences"][0]["uid"] = "uid-of-before"
    world.create(old)
    world.delete_pods("train-worker-7")
    world.patch(ACJOB, "train", {"spec": {"replicaSpecs": {"Worker": {"replicas": 3}}}})
    world.wait(2)
    assert world.pods()["train-worker-2"]["metadata"]["labels"]["version"] == "0"


FAULTS = {"fault-scheduling": "force"}
"""Labels of a job that the scheduler restarts after faults. The scheduler has recorded nothing, so all restarts
count."""


def test_a_job_fails_when_it_has_no_restarts_left() -> None:
    world = running(run_policy={"backoffLimit": 1}, labels=FAULTS)
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    world.delete_pods(PODS[1])
    assert world.state() == ["Failed"]
    assert "its limit of 1 restarts" in world.status()["conditions"][-1]["message"]


@pytest.mark.parametrize(
    ("limit", "retries", "restarts"),
    [(2, None, 2), (0, None, 9), (-1, None, 9), (None, None, 9), (None, "2", 2), (1, "3", 1), (0, "2", 9)],
)
def test_the_backoff_limit_is_by_default_the_number_of_retries_and_none_if_it_is_not_positive(
    limit: int | None, retries: str | None, restarts: int
) -> None:
    policy = {} if limit is None else {"backoffLimit": limit}
    world = running(run_policy=policy, labels=FAULTS | ({} if retries is None else {"fault-retry-times": retries}))
    for number in range(9):
        world.delete_pods(PODS[1])
        assert (world.state() == ["Failed"]) == (number >= restarts)
        if world.state() == ["Failed"]:
            break
        world.end("Running", PODS[1])
    assert world.state() == (["Failed"] if restarts < 9 else ["Running"])


@pytest.mark.parametrize("labels", [{}, FAULTS], ids=["no faults", "no fault"])
def test_restarts_after_evictions_do_not_count_towards_the_limit(labels: dict[str, str]) -> None:
    world = running(run_policy={"backoffLimit": 1}, labels=labels)
    record(world, restarts=restart())
    for number in range(1, 4):
        world.delete_pods(PODS[1])
        world.end("Running", PODS[1])
        assert world.state() == ["Running"]
        annotations = world.groups()[GROUP]["metadata"]["annotations"]
        names = ("volcano-py/restarts", "volcano-py/uncounted-restarts")
        assert [annotations[name] for name in names] == [str(number)] * 2
    suspend(world)
    assert (world.status()["restarts"], world.status()["uncountedRestarts"]) == (3, 3)
    resume(world)

    fault = json.dumps(restart("some-pod"))
    assert world.cluster.server.patch(CONFIG_MAP, "volcano-system", "vcjob-fault-npu-cm", {"data": {"restarts": fault}})
    world.settle()
    if labels:
        world.delete_pods(PODS[1])
        world.end("Running", PODS[1])
        assert world.state() == ["Running"]
        world.delete_pods(PODS[1])
        assert world.state() == ["Failed"]


def test_a_restart_after_the_failure_of_a_pod_counts() -> None:
    """A Pod that a signal ended is replaced, although the job has no retries."""
    job = acjob({"Master": role(), "Worker": role(2)}, run_policy={"backoffLimit": 1})
    job["spec"]["replicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    world = World()
    world.create(job)
    world.admit()
    world.end("Running", *PODS)
    for state in ("Running", "Failed"):
        killed = {"name": "ascend", "state": {"terminated": {"exitCode": 137}}}
        world.patch(POD, PODS[1], {"status": {"phase": "Failed", "containerStatuses": [killed]}})
        world.wait(3)
        world.wait(3)
        if state == "Running":
            world.end("Running", PODS[1])
        assert world.state() == [state]


def test_a_pod_that_was_lost_before_the_job_grew_is_no_restart() -> None:
    world = running()
    world.patch(ACJOB, "train", {"spec": {"replicaSpecs": {"Worker": {"replicas": 1}}}})
    world.delete_pods(PODS[2])
    world.patch(ACJOB, "train", {"spec": {"replicaSpecs": {"Worker": {"replicas": 2}}}})
    world.wait(3)
    assert world.pods()[PODS[2]]["metadata"]["labels"]["version"] == "0"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ends_because_it_is_being_deleted_was_evicted(phase: str) -> None:
    world = running()
    world.patch(POD, PODS[1], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    world.end(phase, PODS[1])
    assert world.state() == ["Running"]
    assert world.status()["replicaStatuses"]["Worker"] == {"active": 1}
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    assert (world.state(), world.pods()[PODS[1]]["metadata"]["labels"]["version"]) == (["Running"], "1")


def test_a_preempted_job_whose_pods_exit_with_0_has_not_succeeded() -> None:
    world = running()
    for name in PODS:
        world.patch(POD, name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    world.end("Succeeded", *PODS)
    assert world.state() == ["Running"]
    world.delete_pods(*PODS)
    assert world.state() == ["Restarting"]


@pytest.mark.parametrize(("phase", "state"), [("Failed", "Failed"), ("Succeeded", "Running")])
def test_a_pod_that_had_ended_before_its_deletion_counts_as_what_it_was(phase: str, state: str) -> None:
    world = running()
    ended = {"name": "ascend", "state": {"terminated": {"exitCode": 3, "finishedAt": "2025-12-31T23:00:00Z"}}}
    deletion = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    world.patch(POD, PODS[1], {"metadata": deletion})
    world.patch(POD, PODS[1], {"status": {"phase": phase, "containerStatuses": [ended]}})
    world.wait(2)
    assert world.state() == [state]
    assert world.status()["replicaStatuses"]["Worker"] == {"active": 1, phase.lower(): 1}


@pytest.mark.parametrize(
    ("policy", "code", "state"),
    [("ExitCode", 137, "Running"), ("ExitCode", 128, "Running"), ("ExitCode", 127, "Failed"), ("Never", 137, "Failed")],
)
@pytest.mark.parametrize("name", ["Worker", "worker"])
def test_with_the_restart_policy_exit_code_a_pod_that_a_signal_ended_is_replaced(
    policy: str, code: int, state: str, name: str
) -> None:
    world = World()
    world.create(acjob({"Master": role(), name: role(2) | {"restartPolicy": policy}}))
    world.admit()
    world.end("Running", *PODS)
    assert world.pods()[PODS[1]]["spec"]["restartPolicy"] == "Never"
    terminated = [{"name": "ascend", "state": {"terminated": {"exitCode": code}}}]
    world.patch(POD, PODS[1], {"status": {"containerStatuses": terminated}})
    before = world.pods()[PODS[1]]["metadata"]["uid"]
    world.end("Failed", PODS[1])
    world.wait(2)
    replaced = world.pods()[PODS[1]]["metadata"]["uid"] != before
    assert replaced == (state == "Running")
    if replaced:
        assert world.pods()[PODS[1]]["metadata"]["labels"]["version"] == "1"
        world.end("Running", PODS[1])
    assert world.state() == [state]


def test_a_pod_that_failed_by_itself_fails_the_job_although_another_is_replaced() -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2) | {"restartPolicy": "ExitCode"}}))
    world.admit()
    world.end("Running", *PODS)
    for name, code in ((PODS[1], 137), (PODS[2], 1)):
        terminated = [{"name": "ascend", "state": {"terminated": {"exitCode": code}}}]
        world.patch(POD, name, {"status": {"containerStatuses": terminated}})
    world.end("Failed", *PODS[1:])
    world.wait(2)
    assert world.state() == ["Failed"]


def test_the_newest_condition_is_the_last_because_kubectl_shows_its_type() -> None:
    world = running()
    assert [type for type, _, _ in world.conditions()] == ["Created", "Running"]
    world.delete_pods(*PODS)
    assert [type for type, _, _ in world.conditions()] == ["Created", "Restarting"]
    world.end("Running", *PODS)
    assert [type for type, _, _ in world.conditions()] == ["Created", "Running"]
    world.end("Failed", PODS[1])
    assert world.conditions()[1:] == [("Running", "False", "JobRunning"), ("Failed", "True", "JobFailed")]


def test_a_job_that_is_active_too_long_fails() -> None:
    world = running(run_policy={"activeDeadlineSeconds": 5})
    world.wait(6)
    assert world.state() == ["Failed"]
    assert world.conditions()[-1][2] == "DeadlineExceeded"


@pytest.mark.parametrize(("policy", "left"), [("", PODS), ("None", PODS), ("Running", PODS[:1]), ("All", [])])
def test_the_pods_of_a_finished_job_are_deleted_by_its_policy(policy: str, left: list[str]) -> None:
    world = running(run_policy={"cleanPodPolicy": policy})
    world.end("Failed", PODS[0])
    assert sorted(world.pods()) == left


@pytest.mark.parametrize(("policy", "kept"), [("None", True), ("Running", True), ("All", False)])
def test_the_service_of_a_finished_job_is_deleted_with_the_pod_of_the_leader(policy: str, kept: bool) -> None:
    world = running(run_policy={"cleanPodPolicy": policy})
    world.end("Failed", PODS[0])
    assert (world.find(SERVICE, "train-master-0") is not None) == kept


@pytest.mark.parametrize("policy", ["", "None", "Running", "All"])
def test_the_waiting_pods_of_a_finished_job_are_deleted(policy: str) -> None:
    world = started(run_policy={"cleanPodPolicy": policy})
    world.end("Failed", PODS[0])
    assert set(world.pods()) <= {PODS[0]}


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_finished_job_is_kept_for_its_time_and_no_longer(seconds: int) -> None:
    world = running(run_policy={"ttlSecondsAfterFinished": seconds})
    world.end("Failed", PODS[0])
    world.wait(seconds + 1)
    assert world.find(ACJOB, "train") is None


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    world = running(run_policy={"ttlSecondsAfterFinished": 5})
    world.end("Succeeded", *PODS)
    assert world.find(ACJOB, "train") is not None
    world.wait(6)
    assert world.find(ACJOB, "train") is None


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    world = running()
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": True}}})
    world.wait(2)
    assert (world.pods(), world.state()) == ({}, ["Suspended"])
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": False}}})
    world.wait(2)
    world.admit()
    world.end("Running", *PODS)
    assert world.state() == ["Running"]


def test_a_resumed_job_is_suspended_no_longer_and_has_its_whole_time() -> None:
    world = running(run_policy={"activeDeadlineSeconds": 20})
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": True}}})
    world.wait(30)
    assert world.state() == ["Suspended"]
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": False}}})
    world.wait(2)
    assert world.state() == []
    world.admit()
    world.end("Running", *PODS)
    assert world.state() == ["Running"]
    world.wait(20)
    assert world.state() == ["Failed"]


def suspend(world: World, value: bool = True) -> None:
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": value}}})
    world.wait(2)


def resume(world: World) -> None:
    """Resumes a job, and lets its Pods run."""
    suspend(world, False)
    world.admit()
    world.end("Running", *PODS)


def test_a_resumed_job_counts_its_restarts_from_where_it_was_suspended() -> None:
    world = running(run_policy={"backoffLimit": 2}, labels=FAULTS)
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    suspend(world)
    assert world.status()["restarts"] == 1
    resume(world)
    assert {each["metadata"]["labels"]["version"] for each in world.pods().values()} == {"1"}
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    assert world.state() == ["Running"]
    world.delete_pods(PODS[1])
    assert world.state() == ["Failed"]
    assert "its limit of 2 restarts" in world.status()["conditions"][-1]["message"]


def test_to_suspend_and_resume_a_job_is_no_restart() -> None:
    world = running(run_policy={"backoffLimit": 1})
    for _ in range(3):
        suspend(world)
        resume(world)
    assert world.state() == ["Running"]
    assert {each["metadata"]["labels"]["version"] for each in world.pods().values()} == {"0"}


def test_a_job_that_is_resumed_while_its_pods_terminate_waits_for_their_end() -> None:
    world = running()
    world.patch(POD, PODS[1], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    suspend(world)
    suspend(world, False)
    assert (sorted(world.pods()), world.groups()) == ([PODS[1]], {})
    world.delete_pods(PODS[1])
    assert GROUP in world.groups()
    world.admit()
    assert {each["metadata"]["labels"]["version"] for each in world.pods().values()} == {"0"}


@pytest.mark.parametrize("moment", ["new", "waiting", "created", "restarting", "failing"])
def test_a_job_can_be_suspended_at_any_moment_and_runs_when_it_is_resumed(moment: str) -> None:
    world = World()
    policy = {"suspend": moment == "new"}
    world.create(acjob({"Master": role(), "Worker": role(2)}, run_policy=policy, labels=RETRIES))
    if moment not in ("new", "waiting"):
        world.admit()
    if moment in ("restarting", "failing"):
        world.end("Running", *PODS)
    if moment == "restarting":
        world.delete_pods(*PODS)
    if moment == "failing":
        world.end("Failed", PODS[1])
    suspend(world)
    assert (world.pods(), world.groups(), world.state()) == ({}, {}, ["Suspended"])
    resume(world)
    assert world.state() == ["Running"]


def test_a_finished_job_is_not_suspended() -> None:
    world = running()
    world.end("Succeeded", *PODS)
    suspend(world)
    assert (world.state(), sorted(world.pods())) == (["Succeeded"], PODS)


# --- hostile input ---
def test_an_invalid_job_fails_with_a_reason_and_gets_no_objects() -> None:
    world = World()
    world.create(acjob({"Worker": role(chips=4)}, "mindspore"))
    assert world.conditions() == [("Created", "True", "JobCreated"), ("Failed", "True", "JobValidFailed")]
    assert (world.groups(), world.pods()) == ({}, {})
    assert ("AscendJob", "train", "Warning", "JobValidFailed") in [event[:4] for event in world.events()]


def test_a_job_that_is_seen_before_its_queue_does_not_fail() -> None:
    world = World()
    world.create(acjob({"Master": role()}, run_policy={"schedulingPolicy": {"queue": "late"}}))
    world.wait(2)
    assert world.state() == []
    world.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "late"}})
    world.wait(6)
    assert world.state() == []
    assert world.groups()[GROUP]["spec"]["queue"] == "late"


def test_a_queue_that_does_not_exist_is_named() -> None:
    world = World()
    world.create(acjob({"Master": role()}, run_policy={"schedulingPolicy": {"queue": "nowhere"}}))
    world.wait(6)
    assert world.status()["conditions"][-1]["message"] == "InvalidQueue: queue nowhere does not exist"


# --- schedulerNames ---
def warnings(world: World) -> list[str]:
    return [text for kind, _, type, reason, text in world.events() if (kind, type, reason) == (
        "AscendJob", "Warning", "Malformed")]  # fmt: skip


def test_a_misspelt_scheduler_name_is_one_warning_on_the_job() -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2)}, schedulerName="vulcano"))
    world.admit()
    expected = ["spec.schedulerName: 'vulcano' is not a name of this scheduler (volcano); did you mean 'volcano'?"]
    assert warnings(world) == expected
    world.end("Running", *PODS)
    (event,) = [each for each in world.cluster.objects() if each["kind"] == "Event" and each["reason"] == "Malformed"]
    assert event["count"] == 1


def test_a_misspelt_scheduler_name_of_a_template_is_a_warning_that_names_it() -> None:
    world = World()
    roles = {"Master": role(), "Worker": role(2, schedulerName="volcno")}
    world.create(acjob(roles, schedulerName="volcano"))
    assert warnings(world) == [
        "spec.replicaSpecs[Worker].template.spec.schedulerName: 'volcno' is not a name of this scheduler (volcano); "
        "did you mean 'volcano'?"
    ]


@pytest.mark.parametrize("name", ["volcano", "default-scheduler", "", "other-vendor"])
def test_a_template_may_name_another_scheduler(name: str) -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2, schedulerName=name)}, schedulerName=""))
    assert warnings(world) == []


def test_a_changed_scheduler_name_is_checked_again() -> None:
    world = World()
    world.create(acjob({"Master": role()}, schedulerName="volcano"))
    world.patch(ACJOB, "train", {"spec": {"schedulerName": "vulcano"}})
    assert len(warnings(world)) == 1
    world.delete(ACJOB, "train")
    world.create(acjob({"Master": role()}, schedulerName="vulcan"))
    assert len(warnings(world)) == 2


def test_a_job_that_is_invalid_has_its_scheduler_name_checked_too() -> None:
    world = World()
    world.create(acjob({"Master": role()}, "keras", schedulerName="vulcano"))
    assert len(warnings(world)) == 1
    assert world.state() == ["Failed"]
