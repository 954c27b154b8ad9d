"""A tenant with the ClusterRole `edit` in one namespace names objects of another namespace as the owners of its own
objects."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import Client
from controlplane.run import ControlPlane
from scheduler.api.kinds import ACJOB, JOB_FLOW, JOB_TEMPLATE, VCJOB, Kind
from scheduler.api.names import (
    ASCEND_910,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_NAMESPACE,
    JOB_NAME,
    JOB_VERSION,
    RANK_TABLE,
    RANK_TABLE_PREFIX,
    TASK_SPEC,
)
from tests.integration.crds import collection
from tests.integration.rights import account
from tests.integration.stage import Namespace, emptied, running
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane


@pytest.fixture
def victim(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Namespace]:
    emptied(control_plane)
    stage = Namespace(control_plane)
    stage.node("n")
    with (
        running("controllers", account(control_plane, "controllers"), tmp_path, "--leader-elect=false"),
        stage.scheduled(tmp_path),
    ):
        yield stage


@pytest.fixture
def place(control_plane: ControlPlane) -> Namespace:
    """The attacker's own namespace."""
    return Namespace(control_plane)


@pytest.fixture
def attacker(place: Namespace) -> Client:
    return tenant(place.plane, place.name)


def spec(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    task = {"name": "w", "replicas": replicas, "template": {"spec": pod}}
    return {"schedulerName": "volcano-py", "minAvailable": 1, "tasks": [task]}


def created(api: Client, kind: Kind, namespace: str, name: str, spec: dict[str, Any], **metadata: Any) -> Any:
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name, **metadata}, "spec": spec}
    return api.create(collection(kind, namespace), body)


def reference(kind: Kind, owner: Any) -> dict[str, Any]:
    meta = owner["metadata"]
    named = {"apiVersion": kind.api_version, "kind": kind.name, "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True}


def status(victim: Namespace, kind: Kind, name: str) -> dict[str, Any]:
    found: dict[str, Any] = victim.api.get(f"{collection(kind, victim.name)}/{name}").get("status") or {}
    return found


def test_pods_of_another_namespace_are_not_pods_of_a_vcjob(
    victim: Namespace, place: Namespace, attacker: Client
) -> None:
    job = created(victim.api, VCJOB, victim.name, "train", spec(2))
    victim.wait(lambda: status(victim, VCJOB, "train").get("running") == 2)
    for number in range(4):
        name = f"train-w-{number}"
        marks = {JOB_NAME: "train", TASK_SPEC: "w", JOB_VERSION: "0"}
        metadata = {"name": name, "annotations": marks, "ownerReferences": [reference(VCJOB, job)]}
        body = {"metadata": metadata, "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "x"}]}}
        attacker.create(f"{place.path}/pods", body)
    tasks = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}]
    path = f"{collection(VCJOB, victim.name)}/train"
    victim.api.request("PATCH", path, tasks, "application/json-patch+json")
    victim.wait(lambda: sorted(victim.bound()) == ["train-w-0", "train-w-1", "train-w-2"])
    victim.wait(lambda: status(victim, VCJOB, "train").get("running") == 3)
    assert not status(victim, VCJOB, "train").get("pending")
    victim.api.delete(path)
    assert len(place.pods()) == 4


def test_a_job_of_another_namespace_is_no_step_of_a_flow(victim: Namespace, place: Namespace, attacker: Client) -> None:
    created(victim.api, JOB_TEMPLATE, victim.name, "a", spec(1))
    flow = created(victim.api, JOB_FLOW, victim.name, "f", {"flows": [{"name": "a"}, {"name": "b"}]})
    created(attacker, VCJOB, place.name, "f-b", spec(1), ownerReferences=[reference(JOB_FLOW, flow)])
    victim.wait(lambda: status(victim, JOB_FLOW, "f").get("runningJobs") == ["f-a"])
    found = status(victim, JOB_FLOW, "f")
    assert [record["name"] for record in found["jobStatusList"]] == ["f-a"]
    assert not found.get("unKnowJobs") and not found.get("pendingJobs")


# --- rank tables ---
CHIPS = 8
ATLAS = {"ring-controller.atlas": "ascend-910"}
TABLE = f"{RANK_TABLE_PREFIX}train"
INITIALIZING = '{"status":"initializing"}'


def npu_server(victim: Namespace, number: int) -> None:
    """Creates a node with eight chips, and the report of its device plugin."""
    name = victim.node(f"npu-{number}", **{ASCEND_910: str(CHIPS)})
    devices = {f"Ascend910-{chip}": {"IP": f"10.0.{number}.{chip}", "SuperDeviceID": 0} for chip in range(CHIPS)}
    marks = {"labels": {"accelerator": "huawei-Ascend910"}, "annotations": {"baseDeviceInfos": json.dumps(devices)}}
    victim.api.patch(f"/api/v1/nodes/{name}", {"metadata": marks})
    addresses = {"addresses": [{"type": "InternalIP", "address": f"192.168.1.{number}"}]}
    victim.api.patch(f"/api/v1/nodes/{name}/status", {"status": addresses})
    info = {"DeviceInfo": {"DeviceList": {ASCEND_910: ",".join(devices)}, "UpdateTime": 1}, "CheckCode": ""}
    report = {"name": f"{DEVICE_INFO_CONFIGMAP_PREFIX}{name}", "labels": {"mx-consumer-cim": "true"}}
    configuration = {"metadata": report, "data": {"DeviceInfoCfg": json.dumps(info)}}
    victim.api.create(f"/api/v1/namespaces/{DEVICE_INFO_NAMESPACE}/configmaps", configuration)


def npu_template() -> dict[str, Any]:
    amounts = {"cpu": "100m", ASCEND_910: str(CHIPS)}
    container = {"name": "ascend", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    pod = {"schedulerName": "volcano-py", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": ATLAS}, "spec": {**pod, "restartPolicy": "Never"}}


def npu_acjob() -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "Never", "template": npu_template()}
    policy = {"schedulingPolicy": {"minAvailable": 2, "queue": "default"}}
    return {"schedulerName": "volcano-py", "runPolicy": policy, "replicaSpecs": {"Master": role, "Worker": role}}


def npu_vcjob() -> dict[str, Any]:
    task = {"name": "worker", "replicas": 2, "template": npu_template()}
    return {"schedulerName": "volcano-py", "minAvailable": 2, "tasks": [task]}


def table(stage: Namespace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stage.api.get(f"{stage.path}/configmaps/{TABLE}")["data"][RANK_TABLE])
    return found


def containers(stage: Namespace) -> set[str]:
    """The addresses of the containers in a complete rank table; empty while it is not complete."""
    return {server.get("container_ip", "") for server in table(stage).get("server_list") or ()}


def has_addresses(stage: Namespace, third: int) -> bool:
    """Gives the Pods on nodes addresses, as a network plugin does. Returns whether there are two that run."""
    running = [pod for pod in stage.pods() if pod["status"]["phase"] == "Running"]
    for number, pod in enumerate(running):
        address = f"10.9.{third}.{number}"
        path = f"{stage.path}/pods/{pod['metadata']['name']}/status"
        stage.api.patch(path, {"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    return len(running) == 2


def active(victim: Namespace, kind: Kind) -> int:
    """The Pods that run, as the status of the job counts them."""
    found = status(victim, kind, "train")
    if kind is VCJOB:
        return int(found.get("running", 0))
    return sum(role.get("active", 0) for role in (found.get("replicaStatuses") or {}).values())


@pytest.mark.parametrize("kind", [ACJOB, VCJOB], ids=["AscendJob", "vcjob"])
def test_pods_of_another_namespace_are_neither_in_the_counts_nor_in_the_rank_table_of_a_job(
    kind: Kind, victim: Namespace, place: Namespace, attacker: Client
) -> None:
    for number in range(2):
        npu_server(victim, number)
    for client, namespace in ((victim.api, victim), (attacker, place)):
        data = {"metadata": {"name": TABLE, "labels": ATLAS}, "data": {RANK_TABLE: INITIALIZING}}
        client.create(f"{namespace.path}/configmaps", data)
    job = created(
        victim.api,
        kind,
        victim.name,
        "train",
        npu_acjob() if kind is ACJOB else npu_vcjob(),
        labels={**ATLAS, "framework": "pytorch"},
    )
    victim.wait(lambda: has_addresses(victim, 0) and active(victim, kind) == 2)
    victim.wait(lambda: containers(victim) == {"10.9.0.0", "10.9.0.1"})

    names = [pod["metadata"]["name"] for pod in victim.pods()]
    for pod in victim.pods():
        marks = {key: pod["metadata"].get(key) for key in ("name", "labels", "annotations")}
        body = {**spec(1)["tasks"][0]["template"], "metadata": {**marks, "ownerReferences": [reference(kind, job)]}}
        body["spec"] |= {"nodeName": f"{victim.name}-n"}
        attacker.create(f"{place.path}/pods", body)
    place.wait(lambda: has_addresses(place, 1))
    assert (active(victim, kind), containers(victim)) == (2, {"10.9.0.0", "10.9.0.1"})

    victim.api.delete(f"{victim.path}/pods/{names[0]}")
    place.api.delete(f"{place.path}/pods/{names[1]}")
    victim.wait(lambda: has_addresses(victim, 2) and active(victim, kind) == 2)
    victim.wait(lambda: containers(victim) == {"10.9.2.0", "10.9.2.1"})
    assert [pod["metadata"]["name"] for pod in place.pods()] == names[:1]
    assert table(place) == json.loads(INITIALIZING)
    victim.api.delete(f"{collection(kind, victim.name)}/train?propagationPolicy=Background")
