"""Validation of objects of any shape names the invalid field and never raises."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation
from scheduler.webhooks.job import mutate, validate
from tests.examples import examples
from tests.unit.webhooks.job.vcjobs import CLUSTER, SETTINGS, pod_spec, raw_refusal, stored, task, vcjob, with_container

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FULL = stored(
    vcjob(
        task(
            "a",
            2,
            policies=[{"events": ["PodFailed"], "action": "AbortJob", "timeout": "5s"}],
            dependsOn={"name": ["b"]},
            partitionPolicy={"totalPartitions": 2, "partitionSize": 1, "networkTopology": {"mode": "soft"}},
            topologyPolicy="none",
            template={
                "metadata": {"labels": {"a": "b"}, "annotations": {"volcano.sh/card.name": "A"}},
                "spec": pod_spec(
                    initContainers=[{"name": "i", "image": "x"}],
                    volumes=[
                        {"name": "v", "emptyDir": {}},
                        {"name": "p", "projected": {"sources": [{"configMap": {}}]}},
                    ],
                    affinity={
                        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}
                    },
                    tolerations=[{"operator": "Exists"}],
                    containers=[
                        {
                            "name": "c",
                            "image": "x",
                            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                            "ports": [{"containerPort": 80}],
                            "resources": {"requests": {"cpu": 1}, "limits": {"cpu": "1"}},
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                            "livenessProbe": {"httpGet": {"port": 80}},
                        }
                    ],
                ),
            },
        ),
        task("b"),
        plugins={"svc": []},
        volumes=[{"mountPath": "/a", "volumeClaimName": "a"}],
        annotations={"volcano.sh/card.request": '{"A":1}'},
    )
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, member in members for deeper in _paths(member, (*path, key)))]


PATHS = [path for path in _paths(FULL) if path]


def answers(job: Any, old: Any) -> list[str]:
    """The refusals of a create and an update request, with and without defaults."""
    made = [(each, AdmissionRequest(each, VCJOB, "default", "j", job, old)) for each in Operation]
    asked = [request for _, request in made]
    asked += [
        AdmissionRequest(each, VCJOB, "default", "j", mutate(request, CLUSTER, SETTINGS), old) for each, request in made
    ]
    return [validate(request, CLUSTER, SETTINGS).text() for request in asked]


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "x"]), ANYTHING), st.dictionaries(st.text(), ANYTHING))
def test_an_object_of_any_shape_gets_an_answer(job: Json, old: Json) -> None:
    assert all(isinstance(answer, str) for answer in answers(job, old))


@settings(max_examples=examples(250), deadline=None)
@given(st.sampled_from(PATHS), ANYTHING)
def test_any_value_in_any_field_gets_an_answer(path: tuple[Any, ...], value: Any) -> None:
    job = deepcopy(FULL)
    place = job
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert all(isinstance(answer, str) for answer in answers(job, FULL))


def test_the_complete_valid_job_is_admitted() -> None:
    job = deepcopy(FULL)
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"].pop()
    assert raw_refusal(job) == ""


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"spec": []}, "spec: expected an object, got a list"),
        (vcjob(minAvailable="3"), "spec.minAvailable: expected an integer, got a string"),
        (vcjob(task(replicas=1.5)), "spec.tasks[0].replicas: expected an integer, got a number"),
        (vcjob(task(replicas=True)), "spec.tasks[0].replicas: expected an integer, got a boolean"),
        (vcjob(task(replicas=2**31)), "spec.tasks[0].replicas: expected a number that fits in 32 bits"),
        (vcjob(task(policies={})), "spec.tasks[0].policies: expected a list or null, got an object"),
        (vcjob(plugins=["svc"]), "spec.plugins: expected an object or null, got a list"),
        (
            with_container(resources={"requests": {"cpu": True}}),
            "spec.tasks[0].template.spec.containers[0].resources.requests[...]: expected an integer or a "
            "number or a string, got a boolean",
        ),
    ],
)
def test_a_field_of_a_wrong_type_is_named(job: Json, message: str) -> None:
    assert raw_refusal(job) == message


def test_null_fields_count_as_absent() -> None:
    job = stored(vcjob(policies=None, minSuccess=None))
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"] = None
    assert raw_refusal(job) == ""


def test_a_deeply_nested_object_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    job = {"metadata": {"name": "j"}, "spec": {"tasks": [{"template": {"x": deep}}]}}
    request = AdmissionRequest(Operation.CREATE, VCJOB, "default", "j", job)
    assert validate(request, CLUSTER, SETTINGS).text() == "the object is nested too deeply"


def test_a_long_refusal_is_truncated() -> None:
    answer = raw_refusal(stored(vcjob(task("A" * 100_000))))
    assert len(answer) < 70_000
    assert answer.endswith("... (and more)")
