"""acjob-controller over a cluster in memory."""

from typing import Any

import pytest

from scheduler.api.kinds import ACJOB, POD, POD_GROUP, SERVICE
from scheduler.controllers.acjob import AscendJobController
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.controllers.clusters import Controlled

Raw = dict[str, Any]
GROUP = "train-uid-train"
PODS = ["train-master-0", "train-worker-0", "train-worker-1"]


class World(Controlled):
    def __init__(self) -> None:
        super().__init__(lambda store: [AscendJobController(store, "volcano")])

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


# --- life ---
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


def test_with_all_workers_the_leader_need_not_have_succeeded() -> None:
    world = running(successPolicy="AllWorkers")
    world.end("Succeeded", *PODS[1:])
    assert world.state() == ["Succeeded"]


def test_a_failed_pod_fails_a_job_without_retries() -> None:
    world = running()
    world.end("Failed", PODS[1])
    assert world.state() == ["Failed"]
    assert "1 of 3 Pods failed" in world.status()["conditions"][-1]["message"]


def test_with_retries_a_job_restarts_and_counts_them() -> None:
    world = running(labels={"fault-retry-times": "2"})
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


def test_a_job_fails_when_it_has_no_restarts_left() -> None:
    world = running(run_policy={"backoffLimit": 1})
    world.delete_pods(PODS[1])
    world.end("Running", PODS[1])
    world.delete_pods(PODS[1])
    assert world.state() == ["Failed"]
    assert "its limit of 1 restarts" in world.status()["conditions"][-1]["message"]


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


# --- hostile input ---
def test_an_invalid_job_fails_with_a_reason_and_gets_no_objects() -> None:
    world = World()
    world.create(acjob({"Worker": role(chips=4)}, "mindspore"))
    assert world.conditions() == [("Created", "True", "JobCreated"), ("Failed", "True", "JobValidFailed")]
    assert (world.groups(), world.pods()) == ({}, {})
    assert ("AscendJob", "train", "Warning", "JobValidFailed") in [event[:4] for event in world.events()]


def test_a_queue_that_does_not_exist_is_named() -> None:
    world = World()
    world.create(acjob({"Master": role()}, run_policy={"schedulingPolicy": {"queue": "nowhere"}}))
    assert world.status()["conditions"][-1]["message"] == "InvalidQueue: queue nowhere does not exist"
