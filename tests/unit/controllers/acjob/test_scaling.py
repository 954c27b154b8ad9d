"""An AscendJob whose number of workers changes: its PodGroup, its Pods and its rank table follow."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP
from scheduler.controllers.acjob import AscendJobController
from scheduler.controllers.ranktable import RankTableController
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.controllers.acjob.killable import KillableControllers
from tests.unit.controllers.acjob.test_controller import GROUP, PODS, World, running, started
from tests.unit.controllers.clusters import Controlled

Raw = dict[str, Any]


def scale(world: Controlled, workers: int, **run_policy: Any) -> None:
    spec: Raw = {"replicaSpecs": {"Worker": {"replicas": workers}}}
    world.patch(ACJOB, "train", {"spec": spec | ({"runPolicy": run_policy} if run_policy else {})})
    world.wait(3)


def group_spec(world: Controlled) -> Raw:
    spec: Raw = world.groups()[GROUP]["spec"]
    return spec


def scalings(world: Controlled) -> list[tuple[str, str]]:
    return [(reason, message) for *_, reason, message in world.events() if "cal" in reason]


def test_a_job_that_grows_has_its_pod_group_changed_before_the_pods_are_created() -> None:
    world = running()
    scale(world, 4)
    assert sorted(world.pods()) == [*PODS, "train-worker-2", "train-worker-3"]
    assert group_spec(world)["minMember"] == 5
    assert group_spec(world)["minTaskMember"] == {"master": 1, "worker": 4}
    assert group_spec(world)["minResources"]["huawei.com/Ascend910"] == "40"
    assert world.groups()[GROUP]["status"]["phase"] == "Inqueue"


def test_pods_that_run_are_not_restarted_and_an_event_says_that_they_keep_their_environment() -> None:
    world = running()
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    scale(world, 3)
    assert before.items() <= {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}.items()
    env = {v["name"]: v.get("value") for v in world.pods()["train-worker-2"]["spec"]["containers"][0]["env"]}
    assert env["WORLD_SIZE"] == "32"
    ((reason, message),) = scalings(world)
    assert reason == "Scaled"
    assert message.startswith("Job default/train is scaled from 2 to 3 Pods of the role worker. Pods that run keep")
    assert world.groups()[GROUP]["metadata"]["annotations"].get("volcano-py/restarts") is None


def test_a_job_that_shrinks_loses_the_workers_with_the_highest_indexes() -> None:
    world = running()
    scale(world, 4)
    world.end("Running", "train-worker-2", "train-worker-3")
    scale(world, 1)
    assert sorted(world.pods()) == PODS[:2]
    assert group_spec(world)["minMember"] == 2
    assert group_spec(world)["minTaskMember"] == {"master": 1, "worker": 1}
    assert group_spec(world)["minResources"]["huawei.com/Ascend910"] == "16"
    assert world.state() == ["Running"]
    assert world.status()["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 1}}
    assert world.groups()[GROUP]["metadata"]["annotations"]["volcano-py/complete"] == "0:2"


def test_a_job_that_has_no_workers_any_more_runs_with_its_leader() -> None:
    world = running()
    scale(world, 0)
    assert sorted(world.pods()) == PODS[:1]
    assert group_spec(world)["minTaskMember"] == {"master": 1, "worker": 0}
    world.end("Succeeded", PODS[0])
    assert world.state() == ["Succeeded"]


def test_the_smallest_number_of_pods_of_an_elastic_job_stays() -> None:
    world = started(run_policy={"schedulingPolicy": {"minAvailable": 2}})
    world.end("Running", *PODS)
    scale(world, 3)
    assert (group_spec(world)["minMember"], group_spec(world)["minTaskMember"]["worker"]) == (2, 3)
    scale(world, 3, schedulingPolicy={"minAvailable": 3})
    assert group_spec(world)["minMember"] == 3


def test_a_job_is_not_scaled_below_its_smallest_number_of_pods_and_a_warning_says_so_once() -> None:
    world = started(run_policy={"schedulingPolicy": {"minAvailable": 3}})
    world.end("Running", *PODS)
    scale(world, 1)
    world.wait(5)
    assert sorted(world.pods()) == PODS
    assert group_spec(world)["minTaskMember"]["worker"] == 2
    ((reason, message),) = scalings(world)
    assert reason == "InvalidScalingConfig"
    assert "it would have 2 Pods, fewer than schedulingPolicy.minAvailable, 3" in message
    scale(world, 1, schedulingPolicy={"minAvailable": 2})
    assert sorted(world.pods()) == PODS[:2]


def test_a_job_that_waits_for_its_queue_asks_for_what_it_is_scaled_to() -> None:
    world = World()
    world.create(acjob({"Master": role(), "Worker": role(2)}))
    scale(world, 1)
    assert (group_spec(world)["minMember"], world.pods()) == (2, {})


def test_a_pod_group_that_is_as_the_job_wants_it_is_not_written() -> None:
    world = running()
    version = world.groups()[GROUP]["metadata"]["resourceVersion"]
    world.patch(ACJOB, "train", {"metadata": {"annotations": {"note": "x"}}})
    world.wait(3)
    assert world.groups()[GROUP]["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("writes", range(5))
def test_a_job_is_scaled_although_the_controllers_are_killed(writes: int, workers: int) -> None:
    class Killable(KillableControllers, World):
        """A running job whose controllers can be killed."""

    world = Killable()
    world.create(acjob({"Master": role(), "Worker": role(2)}))
    world.admit()
    world.end("Running", *PODS)
    world.kill_after(writes)
    scale(world, workers)
    for _ in range(5):
        world.wait(1)
    assert sorted(world.pods()) == ["train-master-0", *(f"train-worker-{i}" for i in range(workers))]
    assert group_spec(world)["minMember"] == 1 + workers
    assert {pod["metadata"]["labels"]["version"] for pod in world.pods().values()} == {"0"}


def test_the_rank_table_has_the_pods_that_the_job_is_scaled_to() -> None:
    class Both(World):
        def __init__(self) -> None:
            Controlled.__init__(
                self, lambda store: [AscendJobController(store, ("volcano",)), RankTableController(store)]
            )

        def allocate(self, *names: str) -> None:
            for number, name in enumerate(names):
                devices = [{"device_id": str(i), "device_ip": f"10.0.{number}.{i}"} for i in range(8)]
                text = json.dumps({"pod_name": name, "server_id": name, "devices": devices})
                key = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
                self.patch(POD, name, {"metadata": {"annotations": {key: text}}, "spec": {"nodeName": name}})
                self.patch(POD, name, {"status": {"phase": "Running", "podIP": f"10.1.0.{number + 1}"}})
            self.wait(3)

        def table(self) -> Raw:
            found = self.find(CONFIG_MAP, "rings-config-train")
            assert found is not None
            table: Raw = json.loads(found["data"]["hccl.json"])
            return table

    world = Both()
    labels = {"ring-controller.atlas": "ascend-910b"}
    metadata = {"name": "rings-config-train", "namespace": "default", "labels": labels}
    table = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hccl.json": ""}}
    world.create(table, acjob({"Master": role(), "Worker": role(2)}, labels=labels))
    world.admit()
    world.allocate(*PODS)
    assert world.table()["server_count"] == "3"
    scale(world, 3)
    assert world.table()["status"] == "initializing"
    world.allocate(*PODS, "train-worker-2")
    assert (world.table()["status"], world.table()["server_count"]) == ("completed", "4")
    scale(world, 1)
    world.wait(3)
    assert (world.table()["status"], world.table()["server_count"]) == ("completed", "2")
    ranks = [device["rank_id"] for server in world.table()["server_list"] for device in server["device"]]
    assert ranks == [str(i) for i in range(16)]


def test_a_pod_that_is_no_place_of_the_job_is_left_alone() -> None:
    """A user may create Pods that name the job as their owner."""
    world = running()
    raw = json.loads(json.dumps(world.pods()[PODS[2]]))
    raw["metadata"] |= {"name": "mine", "uid": "uid-mine", "labels": {}}
    world.create(raw)
    scale(world, 1)
    assert sorted(world.pods()) == ["mine", *PODS[:2]]
    assert world.find(POD_GROUP, GROUP) is not None
