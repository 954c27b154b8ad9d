"""The Pod templates that the API server validates, and the places of their problems in the refusal."""

import json

import pytest

from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import (
    AdmissionRequest,
    Json,
    Operation,
    TemplateCheck,
    ValidationResult,
    WebhookSettings,
)
from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH
from scheduler.webhooks.job import template_checks, validate
from scheduler.webhooks.job.templates import MAX_TEMPLATES
from tests.unit.webhooks.job.vcjobs import CLUSTER, SETTINGS, pod_spec, raw_refusal, stored, task, validation, vcjob

NO_IMAGE = "template.spec.containers[0].image: Required value. "


def with_image(image: str) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": image}]}}


def validate_images(*images: str) -> ValidationResult:
    """The validation of a job with one task for each image."""
    return validation(stored(vcjob(*(task(f"t{i}", template=with_image(image)) for i, image in enumerate(images)))))


def test_a_template_shared_by_tasks_is_validated_once() -> None:
    found = validate_images(*["a"] * 1000)
    (template,) = found.templates
    assert json.loads(template) == {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "image": "a", "resources": {}}]},
    }
    assert found.text([""]) == ""


def test_templates_that_differ_only_in_the_order_of_fields_are_equal() -> None:
    spec = pod_spec()
    turned = dict(reversed(spec.items()))
    assert (
        len(validation(vcjob(task("a", template={"spec": spec}), task("b", template={"spec": turned}))).templates) == 1
    )


def test_problems_of_a_template_are_reported_for_each_task_with_it() -> None:
    text = validate_images("", "x", "", "x").text([NO_IMAGE, ""])
    assert text == f"spec.task[0].{NO_IMAGE}spec.task[2].{NO_IMAGE}".strip()


def test_the_name_of_a_task_is_validated_with_its_template() -> None:
    found = validation(stored(vcjob(task("a"), task("B_"))))
    assert found.text([""]).startswith(
        'spec.task[1].metadata.name: Invalid value: "B_": a lowercase RFC 1123 subdomain'
    )
    assert f"]')*'). {NO_IMAGE}".strip() not in found.text([""])
    assert found.text([NO_IMAGE]).endswith(f". {NO_IMAGE}".strip())
    assert found.text([NO_IMAGE]).count("spec.task[1].") == 1


def test_volcano_problems_of_a_template_are_reported_beside_those_of_kubernetes() -> None:
    job = stored(vcjob(task(template=with_image(""), topologyPolicy="restricted")))
    assert validation(job).text([NO_IMAGE]) == (
        f"spec.task[0].{NO_IMAGE}the cpu request isn't an integer in spec.task[0] container[0]."
    )


def test_without_an_api_server_everything_but_the_templates_is_validated() -> None:
    assert validate_images("").text() == ""
    assert raw_refusal(vcjob(task("a"), task("a"), queue="default")) == "duplicated task name a;"


def test_too_many_distinct_templates_are_refused_with_the_numbers() -> None:
    assert len(validate_images(*map(str, range(MAX_TEMPLATES))).templates) == MAX_TEMPLATES
    found = validate_images(*map(str, range(MAX_TEMPLATES + 1)))
    assert (len(found.templates), found.text()) == (
        0,
        "spec.tasks: the tasks have 2001 different Pod templates, of which the API server can validate 2000 in the "
        "time that a review has: let tasks share templates, or split the job",
    )


def test_a_refusal_of_maximum_length_requests_no_template_validation() -> None:
    found = validation(vcjob(*(task("A" * 40_000 + str(i)) for i in range(100))))
    assert found.templates == []
    assert MAX_MESSAGE_LENGTH < len(found.text()) < MAX_MESSAGE_LENGTH + 20


def test_a_long_refusal_of_the_api_server_is_truncated() -> None:
    found = validate_images(*["a"] * 1000)
    assert len(found.text(["x" * 10_000])) < MAX_MESSAGE_LENGTH + 20


def test_an_update_validates_no_template() -> None:
    job = stored(vcjob())
    changed = {**job, "spec": {**job["spec"], "minAvailable": 0}}
    found = validate(AdmissionRequest(Operation.UPDATE, VCJOB, "default", "j", changed, job), CLUSTER, SETTINGS)
    assert (found.templates, found.text()) == ([], "")


def test_a_result_names_the_field_of_the_first_task_with_a_template() -> None:
    assert validate_images("a", "b", "b").field_of(1) == "spec.task[1]"


def test_template_checks_can_be_made_without_the_other_checks() -> None:
    job = vcjob(task("a"), task("b", template=with_image("b")), task("c"), queue="nowhere")
    found = template_checks(job, WebhookSettings())
    assert found.parts == [TemplateCheck(each, i) for i, each in enumerate((0, 1, 0))]
    assert found.templates == validation(stored(job)).templates


@pytest.mark.parametrize("job", [{}, {"spec": {"tasks": "x"}}, vcjob(task(template={"spec": 1}))])
def test_a_job_that_cannot_be_decoded_has_no_template_checks(job: Json) -> None:
    assert template_checks(job, WebhookSettings()) == ValidationResult()


@pytest.mark.parametrize("template", [{"spec": {"nodeSelector": {1: "a"}}}, {"spec": {"hostname": "\ud800"}}])
def test_a_template_that_is_not_json_is_refused(template: Json) -> None:
    assert raw_refusal(vcjob(task(template=template))).startswith("spec.tasks[0].template: ")
