"""The objects that the API server accepts under our resource definitions, the defaults that it sets, and the output of
kubectl.

`test_control_plane` tests queues and PodGroups, `test_crd_refusals` refusals.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controlplane.client import ApiError, Client
from controlplane.crds.fields import FIELDS_PATH, known_fields
from controlplane.crds.generate import OPENAPI_PATH, definitions
from controlplane.run import CRD_DIRECTORY, ControlPlane
from scheduler.api import kinds
from tests.integration.crds import TASK, TEMPLATE, collection, create, job, pod, task

pytestmark = pytest.mark.controlplane

EVERY_FIELD = yaml.safe_load((Path(__file__).parent / "every_field.yaml").read_text(encoding="utf-8"))["items"]
WITH_STATUS = [each for each in EVERY_FIELD if "status" in each]


def kind_of(manifest: Any) -> kinds.Kind:
    kind = kinds.find_kind(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return kind


def title(manifest: Any) -> str:
    return str(manifest["kind"])


def without_status(manifest: Any) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "status")}


@pytest.mark.parametrize("manifest", EVERY_FIELD, ids=title)
def test_an_object_with_every_field_is_stored_as_it_was_sent(admin: Client, namespace: str, manifest: Any) -> None:
    body = without_status(manifest)
    stored = create(admin, kind_of(manifest), namespace, body)
    assert {name: stored[name] for name in body} == body


@pytest.mark.parametrize("manifest", WITH_STATUS, ids=title)
def test_status_is_written_apart_from_the_rest(admin: Client, namespace: str, manifest: Any) -> None:
    kind, status = kind_of(manifest), manifest["status"]
    created = create(admin, kind, namespace, manifest)
    assert "status" not in created
    path = f"{collection(kind, namespace)}/{namespace}"
    reported = admin.patch(f"{path}/status?fieldValidation=Strict", {"status": status, "spec": None})
    assert (reported["status"], reported["spec"]) == (status, created["spec"])
    edited = admin.patch(path, {"status": None, "metadata": {"annotations": {"seen": "yes"}}})
    assert (edited["status"], edited["metadata"]["annotations"]) == (status, {"seen": "yes"})


@pytest.mark.parametrize("kind", [kinds.COMMAND, kinds.NUMATOPOLOGY], ids=str)
def test_a_kind_without_a_reporter_has_no_status(admin: Client, namespace: str, kind: kinds.Kind) -> None:
    create(admin, kind, namespace, {})
    with pytest.raises(ApiError, match="404"):
        admin.get(f"{collection(kind, namespace)}/{namespace}/status")


def test_an_unknown_field_is_pruned_at_every_level(admin: Client, namespace: str) -> None:
    metadata = {"creationTimestamp": None, "generateName": "a", "labels": {"a": "b"}}
    body = task(template={"metadata": metadata, "spec": {**TEMPLATE["spec"], "colour": "red"}}, colour="red")
    stored = create(admin, kinds.VCJOB, namespace, body | {"colour": "red"}, strict=False)
    assert "colour" not in stored
    assert stored["spec"]["tasks"] == [{**TASK, "template": {"metadata": {"labels": {"a": "b"}}, **TEMPLATE}}]


def test_a_vcjob_gets_its_defaults(admin: Client, namespace: str) -> None:
    tasks = [{"partitionPolicy": {"totalPartitions": 1, "partitionSize": 1}}]
    stored = create(admin, kinds.VCJOB, namespace, {"spec": {"networkTopology": {}, "tasks": tasks}})["spec"]
    assert stored == {
        "queue": "default",
        "maxRetry": 3,
        "networkTopology": {"mode": "hard"},
        "tasks": [{"partitionPolicy": {"totalPartitions": 1, "partitionSize": 1, "minPartitions": 0}}],
    }


def test_the_ports_of_a_template_get_their_protocol(admin: Client, namespace: str) -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]
    stored = create(admin, kinds.VCJOB, namespace, pod(containers=containers))["spec"]["tasks"][0]["template"]["spec"]
    assert [each["protocol"] for each in stored["containers"][0]["ports"]] == ["TCP", "UDP"]


def test_a_cron_job_gets_its_defaults(admin: Client, namespace: str) -> None:
    stored = create(admin, kinds.CRON_JOB, namespace, {"spec": {"schedule": "@daily", "jobTemplate": job()}})["spec"]
    assert stored == {
        "schedule": "@daily",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"queue": "default", "maxRetry": 3, "tasks": [TASK]}},
    }


WHOLE = [kinds.VCJOB, kinds.CRON_JOB, kinds.COMMAND, kinds.JOB_FLOW, kinds.JOB_TEMPLATE]
"""The kinds of which the controllers use every field; of other kinds, the program reads only some fields."""


@pytest.mark.parametrize("manifest", [each for each in EVERY_FIELD if kind_of(each) in WHOLE], ids=title)
def test_the_program_decodes_all_of_a_stored_object(admin: Client, namespace: str, manifest: Any) -> None:
    kind = kind_of(manifest)
    stored = create(admin, kind, namespace, manifest)
    if "status" in manifest:
        path = f"{collection(kind, namespace)}/{namespace}/status"
        stored = admin.patch(path, {"status": manifest["status"]})
    assert kind.struct is not None
    held = msgspec.to_builtins(msgspec.json.decode(json.dumps(stored), type=kind.struct))
    held.pop("metadata")
    assert held == {name: stored[name] for name in manifest if name not in ("apiVersion", "kind")}


def test_the_program_decodes_the_defaults_of_a_vcjob(admin: Client, namespace: str) -> None:
    stored = create(admin, kinds.VCJOB, namespace, job(networkTopology={}))
    assert kinds.VCJOB.struct is not None
    held = msgspec.to_builtins(msgspec.json.decode(json.dumps(stored), type=kinds.VCJOB.struct))
    assert stored["spec"].pop("maxRetry") == 3  # as our own default, so it is not written again
    assert held["spec"] == {"queue": "default", "networkTopology": {"mode": "hard"}, "tasks": [TASK]}


def test_kubectl_shows_a_vcjob_as_volcano_does_and_what_it_waits_for(
    control_plane: ControlPlane, namespace: str
) -> None:
    admin = control_plane.admin
    create(admin, kinds.VCJOB, namespace, job())
    status = {"state": {"phase": "Running", "message": "why"}, "minAvailable": 1, "running": 2}
    admin.patch(f"{collection(kinds.VCJOB, namespace)}/{namespace}/status", {"status": status})
    for name in ("vcjob", "vj"):
        header, row = control_plane.kubectl("get", name, "-n", namespace).splitlines()
        assert header.split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "MESSAGE"]
        assert row.split()[:-2] == [namespace, "Running", "1", "2"] and row.split()[-1] == "why"
    header, row = control_plane.kubectl("get", "vj", "-n", namespace, "-o", "wide").splitlines()
    assert dict(zip(header.split(), row.split(), strict=True))["QUEUE"] == "default"


def test_kubectl_knows_the_short_names(control_plane: ControlPlane) -> None:
    known = control_plane.kubectl("api-resources", "--no-headers")
    rows = [row.split() for row in known.splitlines() if ".volcano.sh/" in row]
    assert {row[-1]: row[1] for row in rows if len(row) == 5} == {
        "CronJob": "cronvcjob,cronvj",
        "HyperNode": "hn",
        "NodeShard": "nsh",
        "Job": "vcjob,vj",
        "JobFlow": "jf",
        "JobTemplate": "jt",
        "Numatopology": "numatopo",
        "PodGroup": "pg,podgroup-v1beta1",
        "Queue": "q,queue-v1beta1",
    }


def test_kubectl_explains_our_fields(control_plane: ControlPlane) -> None:
    said = control_plane.kubectl("explain", "vcjob.spec.tasks.minAvailable")
    assert "How many of them must be placeable at once; by default all." in said


def test_the_definitions_can_be_applied_by_a_client_that_remembers_them(control_plane: ControlPlane) -> None:
    said = control_plane.kubectl("apply", "--dry-run=server", "-f", CRD_DIRECTORY)
    assert "jobflows.flow.volcano.sh configured (server dry run)" in said


def test_the_committed_definitions_are_what_make_crds_makes(admin: Client) -> None:
    made = dict(definitions(admin.get(OPENAPI_PATH)))
    assert made == {file.name: file.read_text(encoding="utf-8") for file in CRD_DIRECTORY.glob("*.yaml")}


def test_the_committed_fields_are_those_of_the_api_server_and_of_the_definitions(admin: Client) -> None:
    assert FIELDS_PATH.read_text(encoding="utf-8") == known_fields(admin.get, CRD_DIRECTORY)
