"""NPU jobs with minMember 1 that are placed together: Deployments, and schedule_minAvailable."""

from collections.abc import Mapping

import pytest

from scheduler.api.names import ASCEND_910, SCHEDULE_MIN_AVAILABLE
from tests.builders import Raw, World, group
from tests.unit.explain.small_clusters import explained
from tests.unit.plugins.ascend.chips import CONFIGURATION, job, npu_node, npu_pod
from tests.unit.plugins.ascend.test_conditions import condition

GROUP = "podgroup-uid-of-web"


def replica_set(replicas: int | None, name: str = "web") -> Raw:
    spec = {"selector": {"matchLabels": {"app": name}}}
    if replicas is not None:
        spec["replicas"] = replicas  # type: ignore[assignment]
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


def deployment_pods(number: int, group_name: str = GROUP, annotations: Mapping[str, str] | None = None) -> list[Raw]:
    pods = [npu_pod(f"web-{i}", 8, group_name, annotations=annotations) for i in range(number)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web", "controller": True}
        ]
    return pods


def nodes(number: int) -> list[Raw]:
    return [npu_node(f"n{i}") for i in range(number)]


def bound(*objects: Raw | list[Raw]) -> int:
    return len(World(*objects).run(CONFIGURATION).bound)


def test_the_pods_of_a_deployment_are_placed_together_or_not_at_all() -> None:
    objects = [replica_set(3), group(GROUP, minimum=1), *deployment_pods(3)]
    assert bound(nodes(2), objects) == 0
    assert bound(nodes(3), objects) == 3


def test_a_deployment_that_does_not_fit_withholds_no_chips_from_other_jobs() -> None:
    objects = [replica_set(3), group(GROUP, minimum=1), *deployment_pods(3), *job("other", 8)]
    assert World(nodes(2), objects).run(CONFIGURATION).bound.keys() == {"other-0"}


def test_a_deployment_waits_until_all_its_pods_exist() -> None:
    world = World(nodes(3), replica_set(3), group(GROUP, minimum=1), deployment_pods(2)).run(CONFIGURATION)
    assert world.bound == {}
    assert condition(world, GROUP) == (
        "JobValidateFailed",
        "NotEnoughPod: 2 Pods of the job exist, 3 are placed together (replicas of ReplicaSet web)",
    )


def test_a_replaced_pod_of_a_deployment_joins_those_that_run() -> None:
    first, *others = deployment_pods(3)
    for i, pod in enumerate(others):
        pod["spec"]["nodeName"], pod["status"]["phase"] = f"n{i}", "Running"
    assert bound(nodes(3), replica_set(3), group(GROUP, minimum=1), first, others) == 1


@pytest.mark.parametrize("replicas", [None, 0, 1])
def test_a_deployment_of_one_pod_is_no_gang(replicas: int | None) -> None:
    assert bound(nodes(1), replica_set(replicas), group(GROUP, minimum=1), deployment_pods(2)) == 1


def test_a_minimum_that_the_owner_sets_is_kept() -> None:
    assert bound(nodes(2), replica_set(3), group(GROUP, minimum=2), deployment_pods(3)) == 2


def test_a_podgroup_that_the_user_made_keeps_its_minimum() -> None:
    assert bound(nodes(2), replica_set(3), group("mine", minimum=1), deployment_pods(3, group_name="mine")) == 2


def test_a_deployment_without_chips_is_no_gang() -> None:
    plain = deployment_pods(3)
    for pod in plain:
        pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "40"}}}]
    assert bound(nodes(2), replica_set(3), group(GROUP, minimum=1), plain) == 2


def test_explain_counts_the_replicas() -> None:
    objects = [*nodes(2), replica_set(3), group(GROUP, minimum=1), *deployment_pods(3)]
    it = explained("podgroup", GROUP, *objects, conf=CONFIGURATION)
    assert it.state == "0 of the 3 Pods needed have a node, and as things are that does not change"
    assert (it.needed, it.placed, it.placeable) == (3, 0, 2)


# --- schedule_minAvailable ---
def annotated(text: str, minimum: int = 1) -> Raw:
    raw = group("j", minimum=minimum)
    raw["metadata"]["annotations"] = {SCHEDULE_MIN_AVAILABLE: text}
    return raw


def members(number: int) -> list[Raw]:
    return [npu_pod(f"j-{i}", 8, "j") for i in range(number)]


def test_that_many_pods_are_placed_together() -> None:
    assert bound(nodes(1), annotated("2"), members(3)) == 0
    assert bound(nodes(2), annotated("2"), members(3)) == 2
    assert bound(nodes(2), annotated("2", minimum=3), members(3)) == 0


def test_the_annotation_of_a_pod_counts_and_takes_precedence_over_replicas() -> None:
    pods = deployment_pods(3, annotations={SCHEDULE_MIN_AVAILABLE: "2"})
    assert bound(nodes(1), replica_set(3), group(GROUP, minimum=1), pods) == 0
    assert bound(nodes(2), replica_set(3), group(GROUP, minimum=1), pods) == 2


@pytest.mark.parametrize("text", ["", "x", "٣", "1.5", "9" * 50])
@pytest.mark.parametrize("minimum", [1, 2])
def test_a_job_whose_annotation_is_no_number_is_refused(text: str, minimum: int) -> None:
    world = World(nodes(2), annotated(text, minimum=minimum), members(2)).run(CONFIGURATION)
    message = f"InvalidArgument: {SCHEDULE_MIN_AVAILABLE}={text[:32]} is not a number"
    assert (dict(world.bound), condition(world)) == ({}, ("JobValidateFailed", message))
    on_a_pod = npu_pod("j-0", 8, "j", annotations={SCHEDULE_MIN_AVAILABLE: text})
    assert not World(nodes(1), group("j", minimum=1), on_a_pod).run(CONFIGURATION).bound


@pytest.mark.parametrize("text", ["0", "-1"])
def test_an_annotation_that_is_no_positive_number_is_ignored_with_a_warning(text: str) -> None:
    world = World(nodes(1), annotated(text), members(1)).run(CONFIGURATION)
    assert list(world.bound) == ["j-0"]
    field = f"metadata.annotations[{SCHEDULE_MIN_AVAILABLE}]"
    assert world.malformed == [f"PodGroup j {field}: {text[:32]!r} is not a positive number"]


def test_admission_counts_the_chips_of_the_pods_that_are_placed_together() -> None:
    pods = members(2)
    waiting = annotated("2")
    waiting["spec"]["minResources"] = {ASCEND_910: "8"}
    waiting["status"] = {"phase": "Pending"}
    world = World(nodes(1), waiting, pods).run(CONFIGURATION)
    assert condition(world) == (
        "JobEnqueueFailed",
        "the job asks for 16 huawei.com/Ascend910, the cluster has 8 free chips",
    )
    assert bound(nodes(2), waiting, pods) == 2
