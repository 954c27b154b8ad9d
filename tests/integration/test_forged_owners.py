"""A tenant with the ClusterRole `edit` in one namespace names the objects of another one as the owners of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import Client
from controlplane.run import ControlPlane
from scheduler.api.kinds import JOB_FLOW, JOB_TEMPLATE, VCJOB, Kind
from scheduler.api.names import JOB_NAME, JOB_VERSION, TASK_SPEC
from tests.integration.crds import collection
from tests.integration.stage import Namespace, emptied, running
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane


@pytest.fixture
def victim(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Namespace]:
    emptied(control_plane)
    stage = Namespace(control_plane)
    stage.node("n")
    with (
        running("controllers", control_plane.kubeconfig, tmp_path, "--leader-elect=false"),
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
