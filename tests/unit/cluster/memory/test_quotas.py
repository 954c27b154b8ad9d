"""ResourceQuotas in a simulation: controllers cannot create Pods beyond them, as on a real API server."""

from typing import Any

import pytest

from scheduler.api.kinds import VCJOB
from scheduler.api.names import WHAT_IF
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.explanation import Outlook
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node

CONTAINER = {"name": "w", "image": "x", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"schedulerName": NAME, "containers": [CONTAINER]}}


def quota(intent: str = "", scopes: tuple[str, ...] = (), **hard: Any) -> Raw:
    meta: Raw = {"name": "limits", "namespace": "default"}
    spec: Raw = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    if scopes:
        spec["scopes"] = list(scopes)
    if intent:
        meta["annotations"] = {WHAT_IF: intent}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}


def workload(kind: str, version: str, **spec: Any) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "it", "namespace": "default"}, "spec": spec}


SELECTED = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
TASKS = [{"name": "w", "replicas": 3, "template": TEMPLATE}]
WORKLOADS = [
    workload("Job", VCJOB.api_version, schedulerName=NAME, minAvailable=1, tasks=TASKS),
    workload("Deployment", "apps/v1", **SELECTED),
    workload("StatefulSet", "apps/v1", **SELECTED),
    workload("Job", "batch/v1", parallelism=3, template=TEMPLATE),
]
IDS = ["vcjob", "deployment", "stateful set", "batch job"]


def simulation(*objects: Raw) -> Simulation:
    return Simulation(manifests(node("n", "8c"), *objects), parse_configuration(DEFAULT_CONFIGURATION), [NAME])


def running(it: Simulation) -> int:
    it.run()
    return sum(raw["kind"] == "Pod" and raw["status"]["phase"] == "Running" for raw in it.cluster.objects())


@pytest.mark.parametrize("limit", [{"pods": "2"}, {"cpu": "2"}, {"requests_cpu": "2500m"}, {"pods": "9", "cpu": "2"}])
@pytest.mark.parametrize("made", WORKLOADS, ids=IDS)
def test_a_controller_creates_as_many_pods_as_the_quota_allows(made: Raw, limit: dict[str, Any]) -> None:
    assert running(simulation(quota(**limit), made)) == 2


@pytest.mark.parametrize("made", WORKLOADS, ids=IDS)
def test_it_creates_the_others_when_the_quota_is_raised(made: Raw) -> None:
    it = simulation(quota(pods="1"), made)
    assert running(it) == 1

    it.change(manifests(quota("merge", pods="3")))

    assert running(it) == 3


def test_a_quota_of_another_namespace_and_one_with_scopes_refuse_nothing() -> None:
    other = quota(pods="0")
    other["metadata"]["namespace"] = "elsewhere"
    assert running(simulation(other, quota(scopes=("BestEffort",), pods="0"), WORKLOADS[0])) == 3


def test_pods_that_have_ended_are_not_counted() -> None:
    it = simulation(quota(pods="1"), WORKLOADS[1])
    it.run()
    (pod,) = (raw for raw in it.cluster.objects() if raw["kind"] == "Pod")
    ended = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}
    ended["metadata"] = {"name": pod["metadata"]["name"], "namespace": "default", "annotations": {WHAT_IF: "merge"}}
    it.change(manifests(ended))
    assert running(it) == 1


@pytest.mark.parametrize("allowed", [0, 1])
def test_explain_names_the_quota_and_how_far_it_has_to_be_raised(allowed: int) -> None:
    job = workload("Job", VCJOB.api_version, schedulerName=NAME, minAvailable=3, tasks=TASKS)

    found = explain(simulation(quota(pods=str(allowed)), job), "job", "default", "it", search=True)

    assert found.outlook is Outlook.WAITS
    assert found.gates[0].message == (
        f"more Pods cannot be created: exceeded quota: limits, requested: pods=1, used: pods={allowed}, "
        f"limited: pods={allowed}"
    )
    assert found.changes[0].text == f"raise ResourceQuota default/limits's pods from {allowed} to 3"
