import subprocess
from pathlib import Path

import pytest

from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError
from scheduler.controllers.job.plugins.pytorch import WAIT_SCRIPT
from tests.unit.controllers.job.plugins.vcjobs import env, main_env, pod, task, vcjob

COMMON = {"MASTER_ADDR": "torch-master-0.torch", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}


@pytest.mark.parametrize(("role", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")])
def test_master_and_workers_know_master_size_and_rank(role: str, index: int, rank: str) -> None:
    job = vcjob("torch", task("master"), task("worker", 2), pytorch=[])
    assert main_env(job, role, index) == COMMON | {"RANK": rank}


def test_ranks_are_unique_with_several_masters() -> None:
    job = vcjob("torch", task("master", 2), task("worker", 2), pytorch=[])
    made = [main_env(job, role, index) for role in ("master", "worker") for index in (0, 1)]
    assert [variables["RANK"] for variables in made] == ["0", "1", "2", "3"]
    assert {variables["WORLD_SIZE"] for variables in made} == {"4"}


def test_another_task_has_no_rank() -> None:
    job = vcjob("torch", task("master"), task("worker", 2), task("logs"), pytorch=[])
    assert main_env(job, "logs") == COMMON


def test_names_and_port_are_arguments() -> None:
    job = vcjob("torch", task("m"), task("w"), pytorch=["--master=m", "--worker=w", "--port=1234"])
    made = pod(job, "w")["spec"]["containers"][0]
    assert env(made) == {"MASTER_ADDR": "torch-m-0.torch", "MASTER_PORT": "1234", "WORLD_SIZE": "2", "RANK": "1"}
    assert made["ports"] == [{"name": "pytorchjob-port", "containerPort": 1234, "protocol": "TCP"}]


def test_a_fixed_hostname_of_the_master_is_its_address() -> None:
    job = vcjob("torch", task("master", hostname="boss", subdomain="domain"), task("worker"), pytorch=[])
    assert main_env(job, "worker")["MASTER_ADDR"] == "boss.domain"


def test_without_a_master_nothing_is_added() -> None:
    job = vcjob("torch", task("worker", 2), pytorch=["--wait-master-enabled"])
    assert pod(job, "worker")["spec"] == {"containers": [{"name": "main", "image": "busybox"}]}


def test_no_pod_waits_unless_asked() -> None:
    job = vcjob("torch", task("master"), task("worker"), pytorch=[])
    assert "initContainers" not in pod(job, "worker")["spec"]


def test_workers_wait_for_the_master_if_asked_after_what_the_template_does() -> None:
    arguments = ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=my/busybox:1"]
    job = vcjob("torch", task("master"), task("worker", initContainers=[{"name": "prepare"}]), pytorch=arguments)
    prepare, wait = pod(job, "worker")["spec"]["initContainers"]
    assert prepare["name"] == "prepare"
    assert (wait["name"], wait["image"]) == ("wait-for-master", "my/busybox:1")
    assert env(wait) == {"MASTER_ADDR": "torch-master-0.torch", "MASTER_PORT": "23456", "WAIT_SECONDS": "60"}
    assert "initContainers" not in pod(job, "master")["spec"]


@pytest.mark.parametrize(
    ("listens", "code", "said"),
    [("true", 0, ""), ("false", 1, "master torch-master-0.torch:23456 was not there within 0 s\n")],
)
def test_waiting_ends_when_the_master_listens_and_fails_when_the_time_is_up(
    tmp_path: Path, listens: str, code: int, said: str
) -> None:
    connect = tmp_path / "nc"
    connect.write_text(f"#!/bin/sh\n[ \"$*\" = '-z -w 2 torch-master-0.torch 23456' ] && {listens}\n")
    connect.chmod(0o755)
    variables = {"MASTER_ADDR": "torch-master-0.torch", "MASTER_PORT": "23456", "WAIT_SECONDS": "0"}
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    waited = subprocess.run(
        ["/bin/sh", "-c", WAIT_SCRIPT], env=variables | path, capture_output=True, text=True, check=False
    )
    assert (waited.returncode, waited.stderr) == (code, said)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--wait-master-enabled=maybe", "--wait-master-enabled='maybe' must be true or false"),
        ("--wait-master-timeout=-1", "--wait-master-timeout='-1' must be a whole number from 1 to 86400"),
        ("--port=70000", "--port='70000' must be a whole number from 1 to 65535"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(argument: str, message: str) -> None:
    with pytest.raises(JobPluginError) as refusal:
        make_plugins(vcjob("torch", task("master"), pytorch=[argument]))
    assert str(refusal.value) == f"plugin pytorch: argument {message}"
