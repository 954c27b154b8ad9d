"""The requests that the API server derives from limits, in a cluster in memory."""

from typing import Any

import pytest

from scheduler.api.kinds import POD, POD_GROUP
from scheduler.cluster.memory.server import MemoryServer
from scheduler.cluster.memory.simulation import Simulation
from tests.builders import NAME, Raw, configuration, manifests, node, pod
from tests.pod_level import Case, cases
from tests.unit.controllers.acjob.jobs import acjob, role

PLAN = configuration(["gang"], ["predicates"])
HALF: Raw = {"limits": {"cpu": "6"}}
"""Pod-level resources with which only one Pod fits on a node."""


def created(spec: Raw) -> Raw:
    """The stored spec of a new Pod."""
    server = MemoryServer()
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    server.create(POD, raw)
    stored = server.find(POD, "ns", "p")
    assert stored is not None
    found: Raw = stored["spec"]
    return found


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_pod_level_resources_are_completed(case: Case) -> None:
    before = repr(case.spec)
    assert created(case.spec)["resources"] == case.completed
    assert repr(case.spec) == before


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_pod_that_was_completed_is_not_changed(case: Case) -> None:
    stored = created(case.spec)
    assert created(stored) == stored


def test_a_limit_of_a_container_is_its_request() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    spec = created({"containers": [{"name": "c", "resources": resources}, {"name": "d"}]})
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert spec["containers"][1] == {"name": "d"}


@pytest.mark.parametrize("amounts", [{"cpu": "many"}, {"cpu": "-1"}, {"hugepages-2Mi": "x"}], ids=str)
def test_malformed_amounts_are_left_as_they_are(amounts: Raw) -> None:
    container = {"name": "c", "resources": {"limits": amounts}}
    level = {"limits": {"memory": "1Gi"}}
    assert created({"resources": level, "containers": [container]})["resources"] == level


# --- every way in which a Pod comes about ---
def deployment() -> Raw:
    return workload("apps/v1", "Deployment", replicas=2, selector={"matchLabels": {"app": "a"}})


def workload(api_version: str, kind: str, **spec: Any) -> Raw:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": template_spec()}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def template_spec(**rest: Any) -> Raw:
    return {"schedulerName": "volcano-py", "containers": [{"name": "c", "image": "x"}], "resources": HALF, **rest}


def vcjob() -> Raw:
    tasks = [{"name": "t", "replicas": 2, "template": {"spec": template_spec(restartPolicy="Never")}}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"schedulerName": "volcano-py", "minAvailable": 1, "tasks": tasks},
    }


def ascend_job() -> Raw:
    """The test runs without NPUs, which do not matter here."""
    roles = {"Master": role(chips=0, resources=HALF), "Worker": role(chips=0, resources=HALF)}
    return acjob(roles, schedulerName="volcano-py")


@pytest.mark.parametrize(
    "objects",
    [
        [pod(name, resources=HALF) for name in ("a", "b")],
        [deployment()],
        [workload("apps/v1", "StatefulSet", replicas=2, podManagementPolicy="Parallel")],
        [workload("batch/v1", "Job", parallelism=2, completions=2)],
        [vcjob()],
    ],
    ids=["Pod", "Deployment", "StatefulSet", "Job", "vcjob"],
)
def test_of_two_pods_with_a_pod_level_limit_one_fits(objects: list[Raw]) -> None:
    simulation = simulated(*objects)
    pods = simulation.cluster.server.of(POD)
    assert sorted(bool(raw["spec"].get("nodeName")) for raw in pods) == [False, True]
    assert all(raw["spec"]["resources"] == {**HALF, "requests": {"cpu": "6"}} for raw in pods)


@pytest.mark.parametrize(("workload", "cores"), [(vcjob(), "6"), (ascend_job(), "2")], ids=["vcjob", "acjob"])
def test_the_pod_group_of_a_job_reserves_its_pod_level_requests(workload: Raw, cores: str) -> None:
    (group,) = simulated(workload).cluster.server.of(POD_GROUP)
    assert group["spec"]["minResources"]["cpu"] == cores


def simulated(*objects: Raw) -> Simulation:
    simulation = Simulation(manifests(node("n", "8c+64Gi"), *objects), PLAN, [NAME])
    simulation.run()
    return simulation
