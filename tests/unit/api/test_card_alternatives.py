"""The alternatives of a vcjob: what is wrong with a list, and the job with one of them."""

import json
from typing import Any

import msgspec
import pytest

from scheduler.api.batch import Job
from scheduler.api.card_alternatives import JobAlternatives, job_alternatives, with_alternative
from scheduler.api.names import CARD_ALTERNATIVE, CARD_ALTERNATIVES, CARD_NAME

Raw = dict[str, Any]
H200: Raw = {"card": "NVIDIA-H200", "resource": "nvidia.com/gpu", "count": 8, "image": "train:cuda"}
NPU: Raw = {"card": "Ascend-910B", "resource": "huawei.com/Ascend910", "count": 16, "image": "train:cann"}
FIELD = f"spec.tasks[0].template.metadata.annotations[{CARD_ALTERNATIVES}]"


def task(alternatives: object = None, name: str = "worker", replicas: int = 4, **fields: Any) -> Raw:
    """``alternatives``: the annotation, as JSON unless it is a text."""
    annotations = {"kept": "yes"}
    if alternatives is not None:
        text = alternatives if isinstance(alternatives, str) else json.dumps(alternatives)
        annotations[CARD_ALTERNATIVES] = text
    container = {
        "name": "main",
        "image": "train:none",
        "env": [{"name": "MODE", "value": "base"}, {"name": "EPOCHS", "value": "3"}],
        "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"containers": [container, {"name": "log", "image": "log:1"}], "nodeSelector": {"zone": "a"}}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": template, **fields}


def job(*tasks: Raw, minimum: int | None = None) -> Job:
    needed = sum(each["minAvailable"] for each in tasks) if minimum is None else minimum
    raw = {"metadata": {"name": "j"}, "spec": {"tasks": list(tasks), "minAvailable": needed}}
    return msgspec.convert(raw, Job)


def read(*tasks: Raw) -> JobAlternatives:
    found = job_alternatives(job(*tasks).spec)
    assert found is not None
    return found


def changed(name: str, *tasks: Raw, minimum: int | None = None) -> Job:
    given = job(*tasks, minimum=minimum)
    alternatives = job_alternatives(given.spec)
    assert alternatives is not None and not alternatives.problems
    return with_alternative(given, alternatives, name)


def container(given: Job, number: int = 0) -> Raw:
    found: Raw = given.spec.tasks[0].template["spec"]["containers"][number]
    return found


# --- reading ----------------------------------------------------------------------------------------------------------
def test_a_job_without_the_annotation_has_no_alternatives() -> None:
    assert job_alternatives(job(task()).spec) is None


def test_the_names_are_those_of_the_cards_unless_others_are_given() -> None:
    assert read(task([H200, {**NPU, "name": "ascend"}])).names == ("NVIDIA-H200", "ascend")


@pytest.mark.parametrize(
    ("alternatives", "field", "problem"),
    [
        ("[{", "", "not JSON"),
        ("{}", "", "expected a list, got an object"),
        ([], "", "0 alternatives are listed: list 1 to 8"),
        ([H200] * 9, "", "9 alternatives are listed: list 1 to 8"),
        ([{"resource": "nvidia.com/gpu"}], "", "missing required field `card`"),
        ([{"card": "A"}], "", "missing required field `resource`"),
        ([{**H200, "cuont": 8}], "", "unknown field `cuont`"),
        ([{**H200, "count": 0}], "", "(at [0].count)"),
        ([H200, {**NPU, "count": "16"}], "", "expected an integer, got a string (at [1].count)"),
        ([{**H200, "replicas": 0}], "", "(at [0].replicas)"),
        ([{**H200, "env": {"A": 1}}], "", "(at [0].env[...])"),
        ([{**H200, "card": "no card"}], "[0].card", "'no card' is not the name of a card"),
        ([{**H200, "resource": "cpu"}], "[0].resource", "'cpu' is not an extended resource, such as nvidia.com/gpu"),
        ([{**H200, "resource": "a b/c"}], "[0].resource", "'a b/c' is not an extended resource"),
        ([{**H200, "resource": "kubernetes.io/x"}], "[0].resource", "is not an extended resource"),
        ([H200, H200], "[1].name", "'NVIDIA-H200' is given twice"),
        ([{**H200, "name": "a\nb"}], "[0].name", "'a\\nb' is not a name"),
        ([{**H200, "replicas": 2, "minAvailable": 3}], "[0].minAvailable", "3 is more than the 2 replicas"),
        ([{**H200, "container": "mian"}], "[0].container", "the template has no container 'mian' (main, log)"),
    ],
)
def test_a_list_with_a_mistake_is_set_aside_with_its_field(alternatives: object, field: str, problem: str) -> None:
    found = read(task(alternatives))
    assert found.names == ()
    ((where, text),) = found.problems
    assert where == FIELD + field
    assert problem in text.lower() or problem in text


def test_tasks_with_other_names_are_set_aside_because_the_job_uses_one_alternative() -> None:
    found = read(task([H200, NPU], "a"), task(), task([NPU, H200], "b"))
    assert found.names == ()
    ((where, problem),) = found.problems
    assert where == f"spec.tasks[2].template.metadata.annotations[{CARD_ALTERNATIVES}]"
    assert "names are Ascend-910B, NVIDIA-H200, and those of spec.tasks[0] are NVIDIA-H200, Ascend-910B" in problem


# --- the job with an alternative --------------------------------------------------------------------------------------
def test_the_container_requests_the_cards_of_one_alternative_and_keeps_the_rest() -> None:
    given = changed("Ascend-910B", task([H200, {**NPU, "env": {"MODE": "npu"}}]))
    assert container(given) == {
        "name": "main",
        "image": "train:cann",
        "env": [{"name": "EPOCHS", "value": "3"}, {"name": "MODE", "value": "npu"}],
        "resources": {
            "requests": {"cpu": "4", "huawei.com/Ascend910": "16"},
            "limits": {"huawei.com/Ascend910": "16"},
        },
    }
    assert container(given, 1) == {"name": "log", "image": "log:1"}


def test_the_named_container_gets_the_cards() -> None:
    given = changed("NVIDIA-H200", task([{**H200, "container": "log"}]))
    assert container(given)["image"] == "train:none"
    assert container(given, 1)["resources"]["requests"] == {"nvidia.com/gpu": "8"}


def test_all_pods_name_the_alternative_and_those_that_list_it_name_the_card() -> None:
    more = {"annotations": {"a": "1"}, "labels": {"l": "2"}, "nodeSelector": {"arch": "arm64"}}
    given = changed("ascend", task([{**NPU, **more, "name": "ascend"}]), task(name="master"))
    first, second = (each.template for each in given.spec.tasks)
    named = {CARD_NAME: "Ascend-910B", CARD_ALTERNATIVE: "ascend"}
    assert first["metadata"] == {"annotations": {"kept": "yes", "a": "1", **named}, "labels": {"l": "2"}}
    assert first["spec"]["nodeSelector"] == {"zone": "a", "arch": "arm64"}
    assert second["metadata"]["annotations"] == {"kept": "yes", CARD_ALTERNATIVE: "ascend"}
    assert second["spec"] == job(task(name="master")).spec.tasks[0].template["spec"]


def test_the_written_job_is_not_changed() -> None:
    given = job(task([H200, NPU]))
    before = msgspec.json.encode(given)
    alternatives = job_alternatives(given.spec)
    assert alternatives is not None
    with_alternative(given, alternatives, "Ascend-910B")
    assert msgspec.json.encode(given) == before


@pytest.mark.parametrize(
    ("given", "of_task", "expected"),
    [
        ({}, {"minAvailable": 4}, (4, 4, 5)),
        ({"replicas": 2}, {"minAvailable": 4}, (2, 2, 3)),
        ({"replicas": 2}, {"minAvailable": 1}, (2, 1, 2)),
        ({"replicas": 2, "minAvailable": 1}, {"minAvailable": 4}, (2, 1, 2)),
        ({"minAvailable": 9}, {"minAvailable": 2}, (4, 4, 5)),
        ({"replicas": 8}, {"minAvailable": 4}, (8, 8, 9)),
    ],
)
def test_replicas_and_minimums_follow_the_alternative(given: Raw, of_task: Raw, expected: tuple[int, int, int]) -> None:
    tasks = task([{**H200, **given}], **of_task), task(name="master", replicas=1)
    spec = changed("NVIDIA-H200", *tasks).spec
    assert (spec.tasks[0].replicas, spec.tasks[0].min_available, spec.min_available) == expected
    assert spec.tasks[1].replicas == 1
