"""What a vcjob is given that does not say it itself."""

import pytest

from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import Json, Operation, Request, Settings
from scheduler.webhooks.job import mutate
from tests.unit.webhooks.job.vcjobs import CLUSTER, SETTINGS, pod_spec, stored, task, vcjob


def test_a_job_without_defaults_is_stored_as_volcano_stores_it() -> None:
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


def test_what_is_empty_is_stored_as_volcano_stores_it() -> None:
    (stored_task,) = stored(vcjob(task("w", 0)))["spec"]["tasks"]
    assert "replicas" not in stored_task
    assert stored_task["template"]["metadata"] == {}
    assert [container["resources"] for container in stored_task["template"]["spec"]["containers"]] == [{}]


def test_where_anything_is_filled_in_all_tasks_are_stored_as_volcano_stores_them() -> None:
    whole, other = stored(vcjob(task("a", minAvailable=1, maxRetry=3), task("b", 0)))["spec"]["tasks"]
    assert whole["template"]["metadata"] == other["template"]["metadata"] == {}
    assert "replicas" not in other


def test_what_is_given_stays_and_nothing_empty_is_added() -> None:
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
def test_empty_is_as_good_as_absent(spec: Json, field: str, value: object) -> None:
    assert stored(vcjob(**spec))["spec"][field] == value


def test_tasks_are_named_by_their_place() -> None:
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
def test_a_task_needs_its_partitions_or_all_its_replicas(fields: Json, minimum: int) -> None:
    job = stored(vcjob(task(**fields)))
    assert job["spec"]["tasks"][0]["minAvailable"] == minimum
    assert job["spec"]["minAvailable"] == minimum


def test_the_job_needs_what_its_tasks_need() -> None:
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
def test_a_pod_on_the_network_of_its_host_still_finds_services(pod: Json, policy: str | None) -> None:
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
def test_frameworks_bring_the_plugins_that_they_rely_on(given: Json, wanted: Json) -> None:
    assert stored(vcjob(plugins=given))["spec"]["plugins"] == wanted


def test_a_job_whose_spec_stays_as_it_is_is_left_alone() -> None:
    job = vcjob()
    assert mutate(Request(Operation.UPDATE, VCJOB, "default", "j", job, job), CLUSTER, SETTINGS) is job


def test_a_manifest_that_is_applied_again_gets_the_defaults_it_had() -> None:
    manifest = vcjob({"replicas": 2, "template": {"spec": pod_spec()}}, queue="q1")
    old = stored(manifest)
    request = Request(Operation.UPDATE, VCJOB, "default", "j", manifest, old)
    assert mutate(request, CLUSTER, SETTINGS)["spec"] == old["spec"]


def test_without_configured_names_our_own_scheduler_is_filled_in() -> None:
    request = Request(Operation.CREATE, VCJOB, "default", "j", vcjob())
    assert mutate(request, CLUSTER, Settings(scheduler_names=()))["spec"]["schedulerName"] == "volcano-py"
