"""The environment of the container ``ascend``. The PyTorch and TensorFlow cases are recorded ones of the operator."""

from typing import Any

from scheduler.api.acjob_roles import roles_of
from scheduler.controllers.acjob.environment import CLUSTERD_DOMAIN, Addresses, environment
from tests.unit.controllers.acjob.jobs import acjob, decoded, role

ADDRESSES = Addresses("10.0.0.9", CLUSTERD_DOMAIN)
POD_IP = "status.podIP"


def variables(raw: dict[str, Any], index: int = 0, *, leader: bool = False) -> dict[str, str]:
    """Name -> value, or the path of the field that it comes from, of the Pod of a role."""
    job = decoded(raw)
    roles = roles_of(job)
    found = next(each for each in roles.roles if (each is roles.leader) == leader)
    env = environment(job, roles, found, index, ADDRESSES)
    return {v["name"]: v["value"] if "value" in v else v["valueFrom"]["fieldRef"]["fieldPath"] for v in env}


COMMON = {
    "MINDX_TASK_ID": "uid-train",
    "MINDX_SERVER_IP": CLUSTERD_DOMAIN,
    "MINDX_SERVER_DOMAIN": CLUSTERD_DOMAIN,
    "HostNetwork": "false",
}


def test_pytorch_in_super_pods() -> None:
    raw = acjob({"Master": role(chips=16), "Worker": role(chips=16)}, annotations={"sp-block": "16"})
    assert variables(raw) == {
        **COMMON,
        "REPLICA_TYPE": "Worker",
        "HCCL_LOGIC_SUPERPOD_ID": "1",
        "LOCAL_WORLD_SIZE": "16",
        "WORLD_SIZE": "32",
        "LOCAL_RANK": "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "MASTER_ADDR": "10.0.0.9",
        "MASTER_PORT": "2222",
        "RANK": "1",
    }


def test_tensorflow_chief_and_worker() -> None:
    raw = acjob({"Chief": role(), "Worker": role()}, "tensorflow")
    both = {
        "CM_CHIEF_DEVICE": "0",
        "CM_CHIEF_PORT": "2222",
        "CM_LOCAL_WORKER": "8",
        "CM_WORKER_IP": POD_IP,
        "CM_WORKER_SIZE": "16",
        "HCCL_LOGIC_SUPERPOD_ID": "0",
    }
    chief = COMMON | both | {"CM_CHIEF_IP": POD_IP, "CM_RANK": "0", "REPLICA_TYPE": "Chief"}
    assert variables(raw, leader=True) == chief
    assert variables(raw) == COMMON | both | {"CM_CHIEF_IP": "10.0.0.9", "CM_RANK": "1", "REPLICA_TYPE": "Worker"}


def test_mindspore_scheduler_without_chips_and_worker() -> None:
    raw = acjob({"Scheduler": role(chips=0), "Worker": role(2)}, "mindspore")
    scheduler, worker = variables(raw, leader=True), variables(raw, 1)
    names = ("MS_SCHED_HOST", "MS_ROLE", "MS_NODE_RANK", "NPU_POD", "MS_LOCAL_WORKER", "MS_WORKER_NUM")
    assert [scheduler[name] for name in names] == [POD_IP, "MS_SCHED", "0", "false", "0", "0"]
    assert [worker[name] for name in names] == ["10.0.0.9", "MS_WORKER", "1", "true", "8", "16"]
    assert "HCCL_LOGIC_SUPERPOD_ID" not in scheduler


def test_a_mindspore_job_of_one_worker_gets_nothing() -> None:
    assert variables(acjob({"Worker": role(chips=1)}, "mindspore")) == {}


def test_the_chips_are_visible_where_the_container_requests_nothing_else() -> None:
    raw = acjob({"Master": role()})
    container = raw["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"huawei.com/Ascend910": "8"}
    assert variables(raw, leader=True)["ASCEND_VISIBLE_DEVICES"] == "metadata.annotations['huawei.com/Ascend910']"


def test_soft_super_pods_are_read_from_the_pod() -> None:
    raw = acjob({"Master": role()}, labels={"super-pod-affinity": "soft"}, annotations={"sp-block": "16"})
    assert variables(raw, leader=True)["HCCL_LOGIC_SUPERPOD_ID"] == "metadata.annotations['super-pod-rank']"


def test_pods_with_cores_of_chips_have_no_sizes() -> None:
    found = variables(acjob({"Master": role(chips=2, resource="huawei.com/npu-core")}), leader=True)
    assert not {"LOCAL_WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK"} & set(found)
