import pytest

from scheduler.controllers.job.plugins.contract import JobPluginError
from tests.unit.controllers.job.plugins.vcjobs import env, main_env, objects, pod, task, vcjob


def test_every_container_knows_the_index_under_both_names() -> None:
    job = vcjob("train", task("worker", 2, initContainers=[{"name": "prepare"}]), env=[])
    made = pod(job, "worker", 1)
    for container in made["spec"]["initContainers"] + made["spec"]["containers"]:
        assert env(container) == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


def test_an_index_that_the_template_sets_gives_way() -> None:
    mine = {"name": "main", "env": [{"name": "VC_TASK_INDEX", "value": "7"}, {"name": "MINE", "value": "x"}]}
    job = vcjob("train", task("worker", 2, mine), env=[])
    assert main_env(job, "worker", 1) == {"MINE": "x", "VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


def test_it_brings_no_objects() -> None:
    assert objects(vcjob("train", task("worker"), env=[])) == {}


def test_it_takes_no_arguments() -> None:
    with pytest.raises(JobPluginError, match=r"^plugin env: argument '--x' is unknown; it takes none$"):
        pod(vcjob("train", task("worker"), env=["--x=1"]), "worker")
