"""Requests for resources that no node has, but whose names resemble a resource of a node."""

import pytest

from tests.builders import World, configuration, group, node, pod

CONF = configuration(["gang"])
HINT = "no node has this resource; did you mean 'nvidia.com/gpu'?"
GPUS = node("n", "8c+nvidia.com/gpu=8")


def test_a_waiting_pod_of_each_class_and_job_gets_a_warning() -> None:
    gang = [pod(f"p{i}", "1c+nvidia.com/gpuu=1", "a") for i in range(3)]
    world = World(GPUS, group("a", minimum=3, phase="Inqueue"), gang).run(CONF)
    (found,) = world.malformed
    assert found.startswith("Pod p")
    assert found.endswith(f" spec.containers[].resources[nvidia.com/gpuu]: {HINT}")


def test_a_pod_group_without_pods_gets_the_warning() -> None:
    world = World(GPUS, group("a", minimum=3, phase="Pending", asks="1c+nvidia.com/gpuu=3")).run(CONF)
    assert world.malformed == [f"PodGroup a spec.minResources[nvidia.com/gpuu]: {HINT}"]


@pytest.mark.parametrize("asks", ["nvidia.com/gpu=9", "example.com/fpga=1", "nvidia.com/gpumem=1", "99c"])
def test_other_requests_that_no_node_meets_are_no_spelling_mistakes(asks: str) -> None:
    world = World(GPUS, group("a", phase="Inqueue"), pod("p", asks, "a")).run(CONF)
    assert world.waiting
    assert world.malformed == []


def test_a_resource_of_a_machine_whose_devices_are_all_unhealthy_exists() -> None:
    sick = node("sick", "8c+nvidia.com/gpuu=0")
    sick["status"]["capacity"] = {**sick["status"]["allocatable"], "nvidia.com/gpuu": "8"}
    world = World(GPUS, sick, group("a", phase="Inqueue"), pod("p", "nvidia.com/gpuu=1", "a")).run(CONF)
    assert world.malformed == []


def test_a_cluster_without_nodes_has_no_names_to_compare_with() -> None:
    world = World(group("a", phase="Inqueue"), pod("p", "nvidia.com/gpuu=1", "a")).run(CONF)
    assert world.malformed == []
