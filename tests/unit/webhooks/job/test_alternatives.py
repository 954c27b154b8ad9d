"""Admission of vcjobs whose tasks list alternative accelerators."""

import json

import pytest

from scheduler.api.names import CARD_ALTERNATIVE, CARD_ALTERNATIVES, CARD_NAME
from scheduler.webhooks.contract import Json
from scheduler.webhooks.job import template_problem
from tests.unit.webhooks.job.vcjobs import (
    SETTINGS,
    pod_spec,
    refusal,
    stored,
    task,
    update_refusal,
    validation,
    vcjob,
)

H200 = {"card": "NVIDIA-H200", "resource": "nvidia.com/gpu", "count": 8}
NPU = {"card": "Ascend-910B", "resource": "huawei.com/Ascend910", "image": "cann:8"}
FIELD = f"spec.tasks[0].template.metadata.annotations[{CARD_ALTERNATIVES}]"


def listing(*alternatives: Json, name: str = "w") -> Json:
    annotations = {CARD_ALTERNATIVES: json.dumps(alternatives)}
    return task(name, template={"metadata": {"annotations": annotations}, "spec": pod_spec()})


def test_a_job_with_alternatives_is_accepted() -> None:
    assert refusal(vcjob(listing(H200, NPU), task("master"))) == ""


def test_a_refusal_names_the_field_of_the_alternative() -> None:
    assert f"{FIELD}[1].resource: 'gpu' is not an extended resource" in refusal(
        vcjob(listing(H200, {**NPU, "resource": "gpu"}))
    )
    assert f"{FIELD}: unexpected" not in refusal(vcjob(listing(H200)))
    assert "unknown field `cards`" in refusal(vcjob(listing({**H200, "cards": 2})))


def test_tasks_must_list_equal_alternatives() -> None:
    found = refusal(vcjob(listing(H200, NPU, name="a"), listing(H200, name="b")))
    assert f"spec.tasks[1].template.metadata.annotations[{CARD_ALTERNATIVES}]" in found
    assert "the whole job uses one alternative" in found


def test_a_job_template_is_refused_for_the_same_reasons() -> None:
    spec = vcjob(listing({**H200, "resource": "gpu"}))["spec"]
    assert f"{FIELD}[0].resource" in template_problem(spec, SETTINGS)


def test_the_api_server_validates_the_template_with_each_alternative() -> None:
    found = validation(stored(vcjob(listing(H200, NPU))))
    _, with_gpu, with_npu = map(json.loads, found.templates)
    (gpu,), (npu,) = (each["spec"]["containers"] for each in (with_gpu, with_npu))
    assert gpu["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert (npu["resources"]["limits"], npu["image"]) == ({"huawei.com/Ascend910": "1"}, "cann:8")
    assert with_npu["metadata"]["annotations"] == {CARD_NAME: "Ascend-910B", CARD_ALTERNATIVE: "Ascend-910B"}
    assert found.text(["", "", "template.spec: wrong. "]).startswith(
        "spec.task[0] with alternative Ascend-910B.template.spec: wrong."
    )


@pytest.mark.parametrize("alternatives", [[NPU, H200], [H200]])
def test_the_alternatives_of_a_stored_job_do_not_change(alternatives: list[Json]) -> None:
    job = stored(vcjob(listing(H200, NPU)))
    assert "job updates may not change fields" in update_refusal(job, stored(vcjob(listing(*alternatives))))
