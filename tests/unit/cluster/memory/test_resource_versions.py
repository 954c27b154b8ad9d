"""The resourceVersions of a cluster in memory that was read from a live one."""

from typing import Any

import pytest

from scheduler.api.kinds import POD_GROUP, VCJOB
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.fork import branch, fork
from scheduler.explain import explain
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
LARGEST = str(2**128 - 1)
FORMS = ["1", "1101", LARGEST, "9" * 5000, "-5", "1e3", "٣", "opaque", "", 1101, 1.5, True, None, ["1"], {"a": "1"}]
"""Versions of the API server, and malformed versions."""


def waiting_vcjob(version: Any = "1101", group_version: Any = "1085") -> list[Raw]:
    """A vcjob that waits for admission, as its cluster has it: the PodGroup exists, and no Pods."""
    uid = "70fb7296-797c-4908-8c43-ec1088ab9dcd"
    container = {"name": "w", "image": "busybox", "resources": {"requests": {"cpu": "1500m"}}}
    task = {"name": "w", "replicas": 2, "minAvailable": 2, "template": {"spec": {"containers": [container]}}}
    owner = {"apiVersion": VCJOB.api_version, "kind": "Job", "name": "big", "uid": uid, "controller": True}
    times = {"creationTimestamp": "2026-11-28T03:22:00Z", "namespace": "default"}
    return [
        {
            "apiVersion": POD_GROUP.api_version,
            "kind": "PodGroup",
            "metadata": {"name": f"big-{uid}", **times, "ownerReferences": [owner], "resourceVersion": group_version,
                         "uid": "b7f17a78-87d6-4e11-8adc-706c600eb39f"},
            "spec": {"minMember": 2, "minResources": {"cpu": "3"}, "minTaskMember": {"w": 2}, "queue": "default"},
            "status": {"phase": "Pending"},
        },
        {
            "apiVersion": VCJOB.api_version,
            "kind": "Job",
            "metadata": {"name": "big", **times, "resourceVersion": version, "uid": uid},
            "spec": {"maxRetry": 3, "minAvailable": 2, "queue": "default", "schedulerName": NAME, "tasks": [task]},
            "status": {"minAvailable": 2, "state": {"phase": "Pending"}},
        },
    ]  # fmt: skip


def bound(simulation: Simulation) -> dict[str, str]:
    pods = [raw for raw in simulation.cluster.objects() if raw["kind"] == "Pod"]
    return {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in pods}


def versions(simulation: Simulation) -> dict[str, str]:
    found = [raw for raw in simulation.cluster.objects() if raw["kind"] != "Event"]
    return {f"{raw['kind']} {raw['metadata']['name']}": raw["metadata"]["resourceVersion"] for raw in found}


@pytest.mark.parametrize("version", FORMS, ids=lambda version: repr(version)[:12])
def test_a_vcjob_that_waits_in_its_cluster_is_admitted_and_gets_its_pods(version: Any) -> None:
    objects = [node("n1", "2c"), node("n2", "2c"), *waiting_vcjob(version, version)]
    simulation = Simulation(manifests(*objects), DEFAULT, [NAME])

    simulation.run()

    assert sorted(bound(simulation).values()) == ["n1", "n2"]


@pytest.mark.parametrize("copied", [fork, branch], ids=["fork", "branch"])
def test_a_change_in_a_copy_counts_as_newer_than_what_was_loaded(copied: Any) -> None:
    original = Simulation(manifests(node("n1", "2c"), *waiting_vcjob()), DEFAULT, [NAME])
    original.run()
    assert bound(original) == {}
    before = versions(original)

    copy = original.branch() if copied is branch else original.fork()
    copy.change(manifests(node("n2", "2c")))
    copy.run()

    assert sorted(bound(copy).values()) == ["n1", "n2"]
    assert versions(original) == before


def test_versions_continue_above_the_largest_that_was_loaded() -> None:
    simulation = Simulation(
        manifests(node("n1", "2c"), node("n2", "2c"), *waiting_vcjob("7", LARGEST)), DEFAULT, [NAME]
    )
    simulation.run()

    found = versions(simulation)
    changed = {int(found[key]) for key in found if key.startswith(("Pod ", "PodGroup ", "Job "))}

    assert min(changed) > int(LARGEST)
    assert len(changed) == 4


def test_an_object_that_does_not_change_keeps_its_version() -> None:
    loaded = node("n1", "2c")
    loaded["metadata"]["resourceVersion"] = "17"
    simulation = Simulation(manifests(loaded), DEFAULT, [NAME])
    simulation.run()
    assert versions(simulation)["Node n1"] == "17"


@pytest.mark.parametrize("version", FORMS, ids=lambda version: repr(version)[:12])
def test_explain_finds_the_node_that_a_vcjob_on_a_live_cluster_lacks(version: Any) -> None:
    simulation = Simulation(manifests(node("node-1", "2c"), *waiting_vcjob(version, version)), DEFAULT, [NAME])

    found = explain(simulation, "job", "default", "big", search=True)

    assert "1 node like node-1 more" in [change.text for change in found.changes]
