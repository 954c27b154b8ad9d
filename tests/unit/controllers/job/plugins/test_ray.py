from typing import Any

import pytest

from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError
from tests.unit.controllers.job.plugins.vcjobs import objects, pod, task, vcjob

HEAD, WORKER = {"name": "head", "image": "ray"}, {"name": "worker", "image": "ray"}
RAY = vcjob("ray", task("head", 1, HEAD), task("worker", 2, WORKER), ray=[])


def only(job: Any, role: str) -> dict[str, Any]:
    (container,) = pod(job, role)["spec"]["containers"]
    return container  # type: ignore[no-any-return]


def test_the_head_starts_ray_and_opens_its_ports() -> None:
    head = only(RAY, "head")
    assert head["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
        "--ray-client-server-port=10001",
    ]
    assert head["ports"] == [
        {"containerPort": 6379, "name": "gcs", "protocol": "TCP"},
        {"containerPort": 8265, "name": "dashboard", "protocol": "TCP"},
        {"containerPort": 10001, "name": "client-server", "protocol": "TCP"},
    ]


def test_workers_join_the_head() -> None:
    worker = only(RAY, "worker")
    assert worker["command"] == ["sh", "-c", "ray start --block --address=ray-head-0.ray:6379"]
    assert "ports" not in worker


def test_a_service_leads_to_the_head() -> None:
    made = objects(RAY)["Service", "ray-head-svc"]
    assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["ray"]
    assert made["spec"] == {
        "ports": [
            {"name": "gcs", "port": 6379, "protocol": "TCP", "targetPort": "gcs"},
            {"name": "dashboard", "port": 8265, "protocol": "TCP", "targetPort": "dashboard"},
            {"name": "client-server", "port": 10001, "protocol": "TCP", "targetPort": "client-server"},
        ],
        "selector": {
            "volcano.sh/job-name": "ray",
            "volcano.sh/job-namespace": "default",
            "volcano.sh/task-spec": "head",
        },
    }


@pytest.mark.parametrize("client", ["--clientPort", "--clientServerPort"])
def test_names_and_ports_are_arguments(client: str) -> None:
    arguments = ["--head=h", "--headContainer=hc", "--worker=w", "--workerContainer=wc"]
    ports = ["--port=1", "--dashboardPort=2", f"{client}=3"]
    job = vcjob("ray", task("h", 1, {"name": "hc"}), task("w", 1, {"name": "wc"}), ray=arguments + ports)
    head, worker = only(job, "h"), only(job, "w")
    assert head["command"][2].endswith("--port=1 --dashboard-port=2 --ray-client-server-port=3")
    assert worker["command"][2] == "ray start --block --address=ray-h-0.ray:1"
    assert [port["containerPort"] for port in head["ports"]] == [1, 2, 3]
    spec = objects(job)["Service", "ray-head-svc"]["spec"]
    assert [port["port"] for port in spec["ports"]] == [1, 2, 3]
    assert spec["selector"]["volcano.sh/task-spec"] == "h"


def test_other_containers_and_tasks_stay_as_they_are() -> None:
    side = {"name": "side", "command": ["sleep"]}
    job = vcjob("ray", task("head", 1, side, HEAD), task("worker", 1, WORKER), task("logs", 1, side), ray=[])
    assert pod(job, "head")["spec"]["containers"][0] == side
    assert only(job, "logs") == side


def test_the_command_of_the_template_gives_way_and_its_arguments_are_passed_on() -> None:
    mine = {"name": "head", "command": ["python"], "args": ["serve.py"]}
    head = only(vcjob("ray", task("head", 1, mine), ray=[]), "head")
    assert head["command"][0] == "sh"
    assert head["args"] == ["serve.py"]


def test_the_service_finds_ports_that_the_template_names_otherwise() -> None:
    mine = {"name": "head", "ports": [{"name": "client", "containerPort": 10001}, {"containerPort": 6379}]}
    job = vcjob("ray", task("head", 1, mine), ray=[])
    assert only(job, "head")["ports"] == [
        {"name": "client", "containerPort": 10001},
        {"containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265, "protocol": "TCP"},
    ]
    ports = objects(job)["Service", "ray-head-svc"]["spec"]["ports"]
    assert [port["targetPort"] for port in ports] == [6379, "dashboard", "client"]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (vcjob("ray", task("worker", 1, WORKER), ray=[]), "the job has no task 'head'; name it by --head"),
        (
            vcjob("ray", task("head"), ray=[]),
            "task head has no container 'head'; name it by --headContainer",
        ),
        (
            vcjob("ray", task("head", 1, HEAD), task("worker"), ray=[]),
            "task worker has no container 'worker'; name it by --workerContainer",
        ),
    ],
)
def test_a_job_without_what_the_arguments_name_is_refused(job: Any, message: str) -> None:
    with pytest.raises(JobPluginError) as refusal:
        make_plugins(job)
    assert str(refusal.value) == f"plugin ray: {message}"
