"""The environment of the container ``ascend``. The PyTorch and TensorFlow cases are recorded ones of the operator."""

from typing import Any

import pytest

from scheduler.api.acjob import roles_of
from scheduler.controllers.acjob.environment import CLUSTERD_DOMAIN, Addresses, environment
from tests.unit.controllers.acjob.jobs import acjob, decoded, role

ADDRESSES = Addresses("10.0.0.9", CLUSTERD_DOMAIN)
POD_IP = "status.podIP"


def variables(raw: dict[str, Any], index: int = 0, *, leader: bool = False) -> dict[str, str]:
    """Maps the variables of the Pod of a role to their values, or to the paths of the fields from which they come."""
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
    assert [scheduler[name] for name in names] == [POD_IP, "MS_SCHED", "0", "false", "8", "16"]
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


def test_a_job_without_chips_gets_the_common_variables_only() -> None:
    raw = acjob({"Master": role(chips=0), "Worker": role(chips=0)})
    assert variables(raw) == COMMON | {"REPLICA_TYPE": "Worker"}


def test_a_job_of_mindie_gets_its_own_task_and_nothing_of_a_framework() -> None:
    raw = acjob({"Master": role(), "Worker": role(2)}, labels={"jobID": "service-1", "app": "mindie-ms-server"})
    assert variables(raw) == {
        "MINDX_TASK_ID": "service-1",
        "APP_TYPE": "mindie-ms-server",
        "MINDX_SERVER_IP": CLUSTERD_DOMAIN,
        "MINDX_SERVER_DOMAIN": CLUSTERD_DOMAIN,
    }


SOFT_SHARE = {f"huawei.com/scheduler.softShareDev.{name}": "1" for name in ("aicoreQuota", "hbmQuota", "policy")}


@pytest.mark.parametrize(
    ("framework", "leader", "names"),
    [
        ("pytorch", "Master", ("LOCAL_WORLD_SIZE", "WORLD_SIZE")),
        ("mindspore", "Scheduler", ("MS_LOCAL_WORKER", "MS_WORKER_NUM")),
        ("tensorflow", "Chief", ("CM_LOCAL_WORKER", "CM_WORKER_SIZE")),
    ],
)
def test_a_pod_that_shares_a_chip_is_one_rank_and_is_not_given_the_chip(
    framework: str, leader: str, names: tuple[str, str]
) -> None:
    raw = acjob({leader: role(chips=4), "Worker": role(2, chips=4)}, framework, labels=SOFT_SHARE)
    for spec in raw["spec"]["replicaSpecs"].values():
        del spec["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    found = variables(raw)
    assert [found[name] for name in names] == ["1", "3"]
    assert "ASCEND_VISIBLE_DEVICES" not in found


@pytest.mark.parametrize(
    ("annotations", "number"),
    [
        ({"sp-block": "16"}, "2"),
        ({"sp-block": "4"}, "5"),  # smaller than a Pod: each Pod is one
        ({"sp-block": "many"}, "0"),
        ({"huawei.com/schedule_policy": "multilevel", "huawei.com/affinity-config": "level1=3,level2=6"}, "1"),
        ({"huawei.com/schedule_policy": "multilevel", "huawei.com/affinity-config": "level1"}, "0"),
    ],
)
def test_the_logical_super_pod_of_a_pod(annotations: dict[str, str], number: str) -> None:
    raw = acjob({"Master": role(), "Worker": role(7)}, annotations=annotations)
    assert variables(raw, 4)["HCCL_LOGIC_SUPERPOD_ID"] == number


def test_of_the_resource_npu_the_soft_super_pod_is_a_number() -> None:
    raw = acjob({"Master": role(resource="huawei.com/npu")}, labels={"super-pod-affinity": "soft"})
    assert variables(raw, leader=True)["HCCL_LOGIC_SUPERPOD_ID"] == "0"


# --- recovery ---
ON = {"PROCESS_RECOVER": "on", "ELASTIC_PROCESS_RECOVER_ENABLE": "1"}
PYTORCH_ON = ON | {"HCCL_ASYNC_ERROR_HANDLING": "0"}
MINDIO = {"MINDIO_FOR_MINDSPORE": "1"}
MINDSPORE_ON = ON | MINDIO | {"MS_ENABLE_THM": "{HCCL_WATCHDOG:0}"}


def recovery(framework: str, leader: str, strategy: str = "", env: Any = (), **labels: str) -> dict[str, str]:
    """The variables that a strategy and labels add."""
    roles = {leader: role(), "Worker": role()}
    for each in roles.values():
        each["template"]["spec"]["containers"][0]["env"] = list(env)
    labels = {name.replace("_", "-"): value for name, value in labels.items()}
    with_it = acjob(roles, framework, labels=labels, annotations={"recover-strategy": strategy} if strategy else {})
    without = variables(acjob(roles, framework))
    return {name: value for name, value in variables(with_it).items() if name not in without}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("recover", PYTORCH_ON | {"HIGH_AVAILABILITY": "recover"}),
        ("exit", PYTORCH_ON | {"HIGH_AVAILABILITY": "recover"}),
        ("retry,recover,dump", PYTORCH_ON | {"HIGH_AVAILABILITY": "dump,recover,retry"}),
        (
            "recover-in-place",
            PYTORCH_ON | {"HIGH_AVAILABILITY": "recover", "ENABLE_RESTART_FAULT_PROCESS": "on"},
        ),
        (
            "elastic-training",
            {"PROCESS_RECOVER": "on", "HCCL_ASYNC_ERROR_HANDLING": "0", "HIGH_AVAILABILITY": "elastic-training"},
        ),
        ("nonsense", {"HCCL_ASYNC_ERROR_HANDLING": "0", "HIGH_AVAILABILITY": ""}),
    ],
)
def test_recovery_of_pytorch(strategy: str, expected: dict[str, str]) -> None:
    assert recovery("pytorch", "Master", strategy) == expected


@pytest.mark.parametrize(
    ("strategy", "labels", "expected"),
    [
        ("recover", {}, MINDSPORE_ON | {"MS_ENABLE_TFT": "{ARF:1}"}),
        ("retry,dump", {}, MINDSPORE_ON | {"MS_ENABLE_TFT": "{HCCE:1,TTP:1,UCE:1}"}),
        ("recover", {"pod_rescheduling": "on"}, MINDSPORE_ON | {"MS_ENABLE_TFT": "{ARF:1,RSC:1}"}),
        ("", {"pod_rescheduling": "on"}, {"MS_ENABLE_TFT": "{RSC:1}"}),
        ("", {"subHealthyStrategy": "hotSwitch"}, ON | MINDIO | {"MS_ENABLE_TFT": "{ARF:1}"}),
        ("elastic-training", {}, MINDIO | {"MS_ENABLE_THM": "{HCCL_WATCHDOG:0}", "MS_ENABLE_TFT": "{}"}),
    ],
)
def test_recovery_of_mindspore(strategy: str, labels: dict[str, str], expected: dict[str, str]) -> None:
    assert recovery("mindspore", "Scheduler", strategy, **labels) == expected


def test_a_hot_switch_adds_to_the_strategies_of_the_job_or_of_its_template() -> None:
    own = [{"name": "HIGH_AVAILABILITY", "value": "dump"}]
    hot = {"subHealthyStrategy": "hotSwitch"}
    assert recovery("pytorch", "Master", "retry", **hot) == PYTORCH_ON | {"HIGH_AVAILABILITY": "recover,retry"}
    assert recovery("pytorch", "Master", env=own, **hot) == ON | {"HIGH_AVAILABILITY": "dump,recover"}


def test_tensorflow_has_no_recovery() -> None:
    assert recovery("tensorflow", "Chief", "recover", subHealthyStrategy="hotSwitch") == {}
