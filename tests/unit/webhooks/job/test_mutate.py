"""The defaults of a vcjob."""

import pytest

from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation, WebhookSettings
from scheduler.webhooks.job import mutate
from tests.unit.webhooks.job.vcjobs import CLUSTER, SETTINGS, pod_spec, stored, task, vcjob


def test_a_job_gets_the_defaults_that_volcano_sets() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
    job = vcjob({"replicas": 2, "template": template}, queue="q1", plugins={"svc": [], "env": []})
    whole = {"metadata": {}, **template}
    assert stored(job)["spec"] == {
        "maxRetry": 3,
        "minAvailable": 2,
        "plugins": {"env": [], "svc": []},
        "queue": "q1",
        "schedulerName": "volcano",
        "tasks": [{"maxRetry": 3, "minAvailable": 2, "name": "default0", "replicas": 2, "template": whole}],
    }


def test_empty_fields_are_stored_as_volcano_stores_them() -> None:
    (stored_task,) = stored(vcjob(task("w", 0)))["spec"]["tasks"]
    assert "replicas" not in stored_task
    assert stored_task["template"]["metadata"] == {}
    assert [container["resources"] for container in stored_task["template"]["spec"]["containers"]] == [{}]


def test_when_any_default_is_set_all_tasks_are_serialized_as_volcano_does() -> None:
    whole, other = stored(vcjob(task("a", minAvailable=1, maxRetry=3), task("b", 0)))["spec"]["tasks"]
    assert whole["template"]["metadata"] == other["template"]["metadata"] == {}
    assert "replicas" not in other


def test_given_fields_stay_and_no_empty_field_is_added() -> None:
    job = vcjob(
        task("w", 4, minAvailable=0, maxRetry=7),
        task("idle", 0, minAvailable=0, maxRetry=7),
        queue="q",
        schedulerName="mine",
        maxRetry=1,
        minAvailable=2,
        plugins={"svc": ["--x"]},
    )
    assert stored(job) == job


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"queue": ""}, "queue", "default"),
        ({"schedulerName": ""}, "schedulerName", "volcano"),
        ({"maxRetry": 0}, "maxRetry", 3),
        ({"minAvailable": 0}, "minAvailable", 1),
    ],
)
def test_an_empty_field_gets_its_default(spec: Json, field: str, value: object) -> None:
    assert stored(vcjob(**spec))["spec"][field] == value


def test_unnamed_tasks_are_named_by_their_index() -> None:
    job = stored(vcjob(task(""), task("b"), task("")))
    assert [each["name"] for each in job["spec"]["tasks"]] == ["default0", "b", "default2"]


@pytest.mark.parametrize(
    ("fields", "minimum"),
    [
        ({"replicas": 4}, 4),
        ({"replicas": 4, "minAvailable": 0}, 0),
        ({"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}}, 2),
        ({"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 0}}, 4),
        ({"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}, 4),
    ],
)
def test_min_available_of_a_task_defaults_to_its_minimum_partitions_or_all_replicas(fields: Json, minimum: int) -> None:
    job = stored(vcjob(task(**fields)))
    assert job["spec"]["tasks"][0]["minAvailable"] == minimum
    assert job["spec"]["minAvailable"] == minimum


def test_min_available_of_a_job_defaults_to_the_sum_over_its_tasks() -> None:
    assert stored(vcjob(task("a", 3, minAvailable=1), task("b", 2)))["spec"]["minAvailable"] == 3


@pytest.mark.parametrize(
    ("pod", "policy"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({"hostNetwork": False}, None),
        ({}, None),
    ],
)
def test_a_pod_with_host_network_resolves_cluster_services(pod: Json, policy: str | None) -> None:
    job = stored(vcjob(task(template={"spec": pod_spec(**pod)})))
    assert job["spec"]["tasks"][0]["template"]["spec"].get("dnsPolicy") == policy


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"env": []}, {"env": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": []}),
        ({"ray": None}, {"ray": None, "svc": []}),
        ({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}),
        ({"mpi": [], "svc": ["--x"], "ssh": ["--y"]}, {"mpi": [], "svc": ["--x"], "ssh": ["--y"]}),
        ({}, {}),
    ],
)
def test_framework_plugins_add_the_plugins_that_they_require(given: Json, wanted: Json) -> None:
    assert stored(vcjob(plugins=given))["spec"]["plugins"] == wanted


def test_an_update_without_a_change_of_the_spec_sets_no_defaults() -> None:
    job = vcjob()
    assert mutate(AdmissionRequest(Operation.UPDATE, VCJOB, "default", "j", job, job), CLUSTER, SETTINGS) is job


def test_a_manifest_that_is_applied_again_gets_the_same_defaults() -> None:
    manifest = vcjob({"replicas": 2, "template": {"spec": pod_spec()}}, queue="q1")
    old = stored(manifest)
    request = AdmissionRequest(Operation.UPDATE, VCJOB, "default", "j", manifest, old)
    assert mutate(request, CLUSTER, SETTINGS)["spec"] == old["spec"]


def test_without_configured_scheduler_names_the_default_scheduler_is_set() -> None:
    request = AdmissionRequest(Operation.CREATE, VCJOB, "default", "j", vcjob())
    assert mutate(request, CLUSTER, WebhookSettings(scheduler_names=()))["spec"]["schedulerName"] == "volcano-py"
