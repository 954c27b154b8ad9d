"""Tasks with equal templates: looked at once, with the same outcome as if each were looked at."""

import pytest

from scheduler.webhooks.job import tasks as checks
from scheduler.webhooks.job.reading import read_job, read_templates
from scheduler.webhooks.job.tasks import tasks_problems


def text_of(*tasks: tuple[str, str]) -> str:
    """What is said of tasks of these names and restart policies."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    listed = [
        {"name": name, "replicas": 1, "template": {"spec": {**template["spec"], "restartPolicy": policy}}}
        for name, policy in tasks
    ]
    job = read_job({"metadata": {"name": "j"}, "spec": {"tasks": listed}})
    return tasks_problems(job.spec.tasks, read_templates(job.spec.tasks), "j")


def test_a_template_of_many_tasks_is_read_and_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    whole = checks.check_template

    def counted(template: object, name: str) -> object:
        checked.append(name)
        return whole(template, name)  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "check_template", counted)
    assert text_of(*((f"t{i}", "Never") for i in range(1000))) == ""
    assert checked == ["t0"]


def test_what_is_wrong_with_a_template_is_said_of_every_task_that_has_it() -> None:
    text = text_of(("a", "Sometimes"), ("b", "Never"), ("c", "Sometimes"), ("d", "Never"))
    assert [f"spec.task[{i}]." in text for i in range(4)] == [True, False, True, False]


def test_a_name_that_is_wrong_is_said_though_the_template_is_right() -> None:
    assert "spec.task[1].metadata.name: Invalid value" in text_of(("a", "Never"), ("B_", "Never"))
