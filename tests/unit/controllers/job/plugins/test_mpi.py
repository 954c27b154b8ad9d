import pytest

from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError
from tests.unit.controllers.job.plugins.vcjobs import main_env, objects, pod, task, vcjob

ARGUMENTS = ["--master=mpimaster", "--worker=mpiworker"]


def test_the_master_knows_the_hosts_of_the_workers() -> None:
    job = vcjob("lm", task("mpimaster"), task("mpiworker", 2), mpi=ARGUMENTS)
    assert main_env(job, "mpimaster") == {"MPI_HOST": "lm-mpiworker-0.lm,lm-mpiworker-1.lm"}


def test_init_containers_of_the_master_know_them_too() -> None:
    job = vcjob("lm", task("master", initContainers=[{"name": "wait"}]), task("worker"), mpi=[])
    (wait,) = pod(job, "master")["spec"]["initContainers"]
    assert wait["env"] == [{"name": "MPI_HOST", "value": "lm-worker-0.lm"}]


def test_a_worker_does_not_get_the_hosts() -> None:
    assert main_env(vcjob("lm", task("master"), task("worker", 2), mpi=[]), "worker") == {}


@pytest.mark.parametrize("role", ["master", "worker"])
@pytest.mark.parametrize(("arguments", "port"), [([], 22), (["--port=5000"], 5000)])
def test_the_port_is_open_everywhere(role: str, arguments: list[str], port: int) -> None:
    (container,) = pod(vcjob("lm", task("master"), task("worker"), mpi=arguments), role)["spec"]["containers"]
    assert container["ports"] == [{"name": "mpijob-port", "containerPort": port, "protocol": "TCP"}]


@pytest.mark.parametrize(
    "mine",
    [{"name": "mpijob-port", "containerPort": 2222}, {"name": "sshd", "containerPort": 22}, {"containerPort": 22}],
)
def test_a_port_that_is_open_already_is_not_opened_twice(mine: dict[str, object]) -> None:
    job = vcjob("lm", task("master", 1, {"name": "main", "ports": [mine]}), task("worker"), mpi=[])
    assert pod(job, "master")["spec"]["containers"][0]["ports"] == [mine]


def test_a_master_alone_gets_no_hosts() -> None:
    assert main_env(vcjob("lm", task("master"), mpi=[]), "master") == {}


def test_it_brings_no_objects() -> None:
    assert objects(vcjob("lm", task("master"), task("worker"), mpi=[])) == {}


def test_a_port_out_of_range_is_refused() -> None:
    with pytest.raises(
        JobPluginError, match=r"^plugin mpi: argument --port='0' must be a whole number from 1 to 65535$"
    ):
        make_plugins(vcjob("lm", task("master"), mpi=["--port=0"]))
