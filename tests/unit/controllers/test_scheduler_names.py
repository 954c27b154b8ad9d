"""The schedulerNames of a job that are likely misspelt."""

from typing import Any

from scheduler.api.messages import scheduler_problems
from scheduler.controllers.job import JobController
from scheduler.controllers.job.plugins import make_plugins
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.job.world import job, task

OURS = ("volcano-py",)


def specs(*names: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(f"spec.tasks[{i}].template.spec", {"schedulerName": name}) for i, name in enumerate(names)]


def fields(named: str, *names: Any) -> list[str]:
    return [field for field, _ in scheduler_problems(named, specs(*names), OURS)]


def test_a_job_that_names_another_scheduler_waits_for_it_in_vain_but_a_template_may_name_one() -> None:
    assert fields("yunikorn", "yunikorn") == ["spec.schedulerName"]
    assert fields("volcano-py", "yunikorn", "default-scheduler", "") == []
    assert fields("default-scheduler") == []


def test_a_name_that_resembles_ours_is_reported_in_a_template_too() -> None:
    assert fields("", "volcano-py", "vulcano") == ["spec.tasks[1].template.spec.schedulerName"]
    assert fields("volcano-py", 7, None, ["vulcano"]) == []


def test_each_name_is_reported_once_and_ten_of_templates_at_most() -> None:
    assert fields("vulcano", "vulcano", "vulcano") == ["spec.schedulerName"]
    assert len(fields("", *(f"volcano-p{i}" for i in range(1000)))) == 10


def test_nothing_is_reported_if_the_names_of_the_scheduler_are_not_known() -> None:
    assert scheduler_problems("vulcano", specs("vulcano"), ()) == []


def test_a_vcjob_gets_a_warning_about_the_template_of_a_task() -> None:
    world = Controlled(lambda store: [JobController(store, make_plugins, ("volcano",))])
    misspelt = task("w")
    misspelt["template"]["spec"]["schedulerName"] = "vulcano"
    world.create(job(tasks=[task("m"), misspelt], schedulerName="volcano"))
    assert [event for event in world.events() if event[3] == "Malformed"] == [
        (
            "Job",
            "j",
            "Warning",
            "Malformed",
            "spec.tasks[1].template.spec.schedulerName: 'vulcano' is not a name of this scheduler (volcano); did you "
            "mean 'volcano'?",
        )
    ]
