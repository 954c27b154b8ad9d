"""Rank tables on a real API server: from a vcjob to ``hccl.json``, and a new table after a Pod was replaced."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from tests.integration.rights import account
from tests.integration.stage import a_control_plane, running, wait

pytestmark = pytest.mark.controlplane

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: ascend}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CHIPS = 8
ATLAS = {"ring-controller.atlas": "ascend-910"}
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
CONFIG_MAP = "/api/v1/namespaces/default/configmaps/rings-config-train"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Iterator[ControlPlane]:
    """Three servers of eight chips, a scheduler with the NPU plugin, and controllers that write files."""
    logs = tmp_path_factory.mktemp("logs")
    configuration = logs / "scheduler.yaml"
    configuration.write_text(CONFIGURATION)
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.start_controller_manager()
        for number in range(3):
            server(plane, number)
        options = ("--leader-elect=false", "--schedule-period=200ms", f"--scheduler-conf={configuration}")
        with (
            running("scheduler", account(plane, "scheduler"), logs, *options),
            running(
                "controllers", account(plane, "controllers"), logs, "--leader-elect=false", f"--rank-table-dir={tables}"
            ),
        ):
            plane.admin.create(
                "/api/v1/namespaces/default/configmaps",
                {
                    "metadata": {"name": "rings-config-train", "labels": ATLAS},
                    "data": {"hccl.json": '{"status":"initializing"}'},
                },
            )
            plane.admin.create(JOBS, job())
            yield plane


def server(plane: ControlPlane, number: int) -> None:
    name, chips = f"npu{number}", [f"Ascend910-{chip}" for chip in range(CHIPS)]
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "100", "huawei.com/Ascend910": str(CHIPS)}
    devices = {chip: {"IP": f"10.0.{number}.{position}", "SuperDeviceID": 0} for position, chip in enumerate(chips)}
    plane.admin.create(
        "/api/v1/nodes",
        {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "accelerator": "huawei-Ascend910"},
                "annotations": {"baseDeviceInfos": json.dumps(devices)},
            },
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "addresses": [{"type": "InternalIP", "address": f"192.168.1.{number}"}],
            },
        },
    )
    lists = {"huawei.com/Ascend910": ",".join(chips), "huawei.com/Ascend910-Unhealthy": ""}
    info = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "CheckCode": ""}
    plane.admin.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {
            "metadata": {"name": f"mindx-dl-deviceinfo-{name}", "labels": {"mx-consumer-cim": "true"}},
            "data": {"DeviceInfoCfg": json.dumps(info)},
        },
    )


def job() -> dict[str, Any]:
    amounts = {"cpu": "1", "huawei.com/Ascend910": str(CHIPS)}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "ranktable", "emptyDir": {}}],
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": ATLAS},
        "spec": {
            "schedulerName": "volcano-py",
            "minAvailable": 2,
            "tasks": [{"name": "worker", "replicas": 2, "template": {"metadata": {"labels": ATLAS}, "spec": spec}}],
        },
    }


def test_a_vcjob_gets_its_rank_table_and_another_after_a_pod_was_replaced(plane: ControlPlane) -> None:
    give_addresses(plane)
    first = wait(lambda: completed(plane))
    assert first["data"]["version"] == "0"
    assert hosts(first) == {pod["metadata"]["name"]: host for pod, host in placed(plane)}
    assert ranks(first) == [str(rank) for rank in range(2 * CHIPS)]
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod, _ in placed(plane)}

    plane.admin.delete("/api/v1/namespaces/default/pods/train-worker-1")

    wait(lambda: not completed(plane))
    give_addresses(plane)
    second = wait(lambda: (found := completed(plane)) and found["data"]["version"] != "0" and found)
    replaced = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod, _ in placed(plane)}
    assert replaced["train-worker-1"] != pods["train-worker-1"]
    assert hosts(second) == {pod["metadata"]["name"]: host for pod, host in placed(plane)}
    assert ranks(second) == ranks(first)


def test_the_files_have_the_table_of_the_config_map(plane: ControlPlane, tables: Path) -> None:
    give_addresses(plane)
    wait(lambda: completed(plane))

    def same() -> bool:
        data: dict[str, str] = plane.admin.get(CONFIG_MAP)["data"]
        return {key: read(tables / "default.train" / key) for key in data} == data

    wait(same)


def give_addresses(plane: ControlPlane) -> None:
    """Does the work of a network plugin: gives each Pod an address."""
    pods = wait(lambda: len(found := running_pods(plane)) == 2 and found)
    for number, pod in enumerate(pods):
        address = f"10.9.0.{number}"
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        plane.admin.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status", status)


def running_pods(plane: ControlPlane) -> list[dict[str, Any]]:
    pods = plane.admin.get("/api/v1/namespaces/default/pods")["items"]
    return [p for p in pods if p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp")]


def completed(plane: ControlPlane) -> dict[str, Any] | None:
    found: dict[str, Any] = plane.admin.get(CONFIG_MAP)
    return found if json.loads(found["data"]["hccl.json"])["status"] == "completed" else None


def placed(plane: ControlPlane) -> list[tuple[dict[str, Any], str]]:
    """The Pods with the addresses of their hosts."""
    pods = plane.admin.get("/api/v1/namespaces/default/pods")["items"]
    return [(pod, f"192.168.1.{pod['spec']['nodeName'].removeprefix('npu')}") for pod in pods]


def hosts(config_map: dict[str, Any]) -> dict[str, str]:
    """Maps each Pod to the address of its host in the table. Servers are in the order of ranks, which are the indices
    of the Pods."""
    servers = json.loads(config_map["data"]["hccl.json"])["server_list"]
    return {f"train-worker-{index}": server["server_id"] for index, server in enumerate(servers)}


def ranks(config_map: dict[str, Any]) -> list[str]:
    servers = json.loads(config_map["data"]["hccl.json"])["server_list"]
    return [chip["rank_id"] for server in servers for chip in server["device"]]


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
