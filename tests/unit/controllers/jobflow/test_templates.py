"""The controller jobtemplate-controller over a cluster in memory."""

from typing import Any

from scheduler.api.kinds import JOB_TEMPLATE, VCJOB
from scheduler.controllers.jobflow import JobTemplateController
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.jobs import Raw, job

MADE_OF = "volcano.sh/createdByJobTemplate"


def template(name: str) -> Raw:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": []},
    }


def made_of(template: str, name: str) -> Raw:
    return job(name, labels={MADE_OF: template})


def controlled(*manifests: Raw) -> Controlled:
    cluster = Controlled(lambda store: [JobTemplateController(store)])
    cluster.create(*manifests)
    return cluster


def listed(cluster: Controlled, name: str = "a") -> Any:
    raw = cluster.find(JOB_TEMPLATE, name)
    assert raw is not None
    return (raw.get("status") or {}).get("jobDependsOnList")


def test_a_template_lists_the_jobs_made_of_it() -> None:
    cluster = controlled(template("a"), template("b"), made_of("default.a", "y"), made_of("default.a", "x"), job("z"))
    assert listed(cluster) == ["x", "y"]
    assert listed(cluster, "b") is None


def test_jobs_that_came_before_their_template_are_listed_too() -> None:
    cluster = controlled(made_of("default.a", "x"))
    cluster.create(template("a"))
    assert listed(cluster) == ["x"]


def test_a_job_that_is_deleted_stays_in_the_list_until_the_next_is_made() -> None:
    cluster = controlled(template("a"), made_of("default.a", "x"))
    cluster.delete(VCJOB, "x")
    assert listed(cluster) == ["x"]
    cluster.create(made_of("default.a", "y"))
    assert listed(cluster) == ["y"]


def test_a_name_with_dots_is_a_name() -> None:
    cluster = controlled(template("a.b"), made_of("default.a.b", "x"))
    assert listed(cluster, "a.b") == ["x"]


def test_the_annotation_counts_where_there_is_no_label() -> None:
    cluster = controlled(template("a"), job("x", annotations={MADE_OF: "default.a"}))
    assert listed(cluster) == ["x"]


def test_a_job_of_another_namespace_and_one_that_names_no_template_are_not_listed() -> None:
    cluster = controlled(template("a"), made_of("elsewhere.a", "x"), made_of("a", "y"), made_of("default.", "z"))
    assert listed(cluster) is None


def test_a_change_to_a_job_is_no_reason_to_write() -> None:
    cluster = controlled(template("a"), made_of("default.a", "x"))
    cluster.patch(JOB_TEMPLATE, "a", {"status": {"jobDependsOnList": ["somebody", "else"]}})
    cluster.patch(VCJOB, "x", {"status": {"running": 1}})
    assert listed(cluster) == ["somebody", "else"]
