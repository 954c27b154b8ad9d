import pytest

from tests.unit.controllers.job.plugins.vcjobs import pod, task, vcjob


def rank(made: dict[str, dict[str, dict[str, str]]]) -> str | None:
    return made["metadata"].get("annotations", {}).get("hccl/rankIndex")


@pytest.mark.parametrize(
    ("role", "index", "expected"),
    [("master", 0, "0"), ("master", 1, "1"), ("worker", 0, "2"), ("worker", 2, "4"), ("logs", 0, None)],
)
def test_masters_come_before_workers_and_other_tasks_have_no_rank(role: str, index: int, expected: str | None) -> None:
    job = vcjob("npu", task("worker", 3), task("master", 2), task("logs"), hcclrank=[])
    assert rank(pod(job, role, index)) == expected


def test_without_masters_workers_count_from_zero() -> None:
    assert rank(pod(vcjob("npu", task("worker", 2), hcclrank=[]), "worker", 1)) == "1"


def test_the_tasks_are_named_by_arguments() -> None:
    job = vcjob("npu", task("m"), task("w", 2), hcclrank=["--master=m", "--worker=w"])
    assert rank(pod(job, "w", 1)) == "2"


def test_a_rank_that_the_template_sets_is_taken() -> None:
    mine = {"name": "main", "env": [{"name": "RANK", "value": "9"}]}
    assert rank(pod(vcjob("npu", task("logs", 1, mine), hcclrank=[]), "logs")) == "9"


def test_a_rank_from_elsewhere_is_not_known_and_so_not_taken() -> None:
    mine = {"name": "main", "env": [{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    assert rank(pod(vcjob("npu", task("master", 1, mine), hcclrank=[]), "master")) == "0"


def test_it_agrees_with_the_rank_of_pytorch() -> None:
    job = vcjob("npu", task("master"), task("worker", 2), hcclrank=[], pytorch=[])
    made = pod(job, "worker", 1)
    assert rank(made) == "2"
    assert {"name": "RANK", "value": "2"} in made["spec"]["containers"][0]["env"]
