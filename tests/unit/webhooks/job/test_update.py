"""The fields of a stored vcjob that may change."""

from copy import deepcopy
from typing import Any

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.vcjobs import pod_spec, stored, task, update_refusal, vcjob

MUTABLE = "`minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
FROZEN = f"job updates may not change fields other than {MUTABLE}"
RESOURCES = {"requests": {"cpu": "0.5", "memory": "1024Mi"}}
OLD = stored(
    vcjob(
        task("a", 2, template={"spec": pod_spec(containers=[{"name": "c", "image": "x", "resources": RESOURCES}])}),
        task("b", 3),
        volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
    )
)


def changed(*path: Any, to: Any) -> Json:
    new = deepcopy(OLD)
    place = new["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return new


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        changed("tasks", 0, "replicas", to=4),
        changed("tasks", 0, "minAvailable", to=1),
        changed("tasks", 0, "minAvailable", to=None),
        changed("minAvailable", to=1),
        changed("priorityClassName", to="high"),
    ],
)
def test_replicas_minimums_and_the_priority_class_may_change(new: Json) -> None:
    assert update_refusal(OLD, new) == ""


@pytest.mark.parametrize(
    "new",
    [
        changed("volumes", 0, "volumeClaimName", to="j-pvc-1"),
        changed("tasks", 0, "template", "metadata", to={"creationTimestamp": None}),
        changed("tasks", 1, "template", "spec", "containers", 0, "resources", to={}),
        changed("tasks", 1, "template", "spec", "hostNetwork", to=False),
        changed("tasks", 1, "policies", to=[]),
        changed(
            "tasks",
            0,
            "template",
            "spec",
            "containers",
            0,
            "resources",
            "requests",
            to={"cpu": "500m", "memory": "1Gi"},
        ),
    ],
    ids=["claim that the controller made", "null", "empty", "zero", "empty list", "quantities"],
)
def test_an_equivalent_spec_is_not_a_change(new: Json) -> None:
    assert update_refusal(OLD, new) == ""


@pytest.mark.parametrize(
    "new",
    [
        changed("queue", to="team"),
        changed("schedulerName", to="other"),
        changed("plugins", to={"svc": []}),
        changed("tasks", 1, "template", "spec", "nodeSelector", to={"gpu": ""}),
        changed("policies", to=[{"event": "PodFailed", "action": "AbortJob"}]),
        changed("tasks", 0, "name", to="z"),
        changed("tasks", 0, "maxRetry", to=4),
        changed("tasks", 0, "template", "spec", "containers", 0, "image", to="y"),
        changed("tasks", 0, "template", "spec", "containers", 0, "resources", "requests", "cpu", to="600m"),
        changed("tasks", 1, "template", "spec", "hostUsers", to=False),
        changed("volumes", 0, "mountPath", to="/b"),
        changed("volumes", to=[]),
    ],
)
def test_other_fields_are_immutable(new: Json) -> None:
    assert update_refusal(OLD, new) == FROZEN


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (changed("tasks", 0, "replicas", to=-1), "'replicas' must be >= 0 in task: a"),
        (changed("tasks", 0, "minAvailable", to=-1), "'minAvailable' must be >= 0 in task: a"),
        (changed("tasks", 0, "minAvailable", to=3), "'minAvailable' must be <= 'replicas' in task: a"),
        (changed("minAvailable", to=6), "job 'minAvailable' must not be greater than total replicas"),
        (changed("minAvailable", to=-1), "job 'minAvailable' must be >= 0"),
        (changed("tasks", to=OLD["spec"]["tasks"][:1]), "job 'minAvailable' must not be greater than total replicas"),
        (changed("tasks", to=[*OLD["spec"]["tasks"], task("c")]), "job updates may not add or remove tasks"),
        (
            changed("networkTopology", to={"highestTierAllowed": 1, "highestTierName": "x"}),
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ),
        (changed("tasks", 0, "replicas", to="2"), "spec.tasks[0].replicas: expected an integer, got a string"),
    ],
)
def test_the_first_problem_of_an_update_is_reported(new: Json, message: str) -> None:
    assert update_refusal(OLD, new) == message


def test_partitioned_replicas_change_by_whole_partitions() -> None:
    old = stored(vcjob(task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})))
    new = deepcopy(old)
    new["spec"]["tasks"][0]["replicas"] = 5
    assert update_refusal(old, new) == "'Replicas' are not equal to TotalPartitions*PartitionSize in task: w, job: j"


def test_metadata_of_an_invalid_stored_job_can_change() -> None:
    old = {"metadata": {"name": "j", "finalizers": ["x"]}, "spec": {"tasks": [{"replicas": "many"}]}}
    assert update_refusal(old, old | {"metadata": {"name": "j", "labels": {"a": "b"}}}) == ""


def test_a_card_request_may_change_but_not_to_a_malformed_one() -> None:
    old = vcjob(annotations={"volcano.sh/card.request": "malformed since ever"})
    assert update_refusal(old, vcjob(annotations={"volcano.sh/card.request": '{"A":1}'})) == ""
    assert update_refusal(old, old | {"metadata": {**old["metadata"], "labels": {"a": "b"}}}) == ""
    answer = update_refusal(old, vcjob(annotations={"volcano.sh/card.request": "1"}))
    assert answer.startswith("metadata.annotations[volcano.sh/card.request]: '1' is not a JSON object")


def test_applying_a_manifest_without_defaults_again_changes_nothing() -> None:
    manifest = vcjob({"replicas": 2, "template": {"spec": pod_spec()}})
    assert update_refusal(stored(manifest), manifest) == ""
