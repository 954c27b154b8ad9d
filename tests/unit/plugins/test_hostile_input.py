"""The largest objects of one user: the Pods of other users are placed, and the session stays small."""

import pytest

from scheduler.api.names import OTHER_RESOURCES
from scheduler.api.resource import MAX_UNDECLARED
from tests.builders import Raw, World, configuration, feed, group, node, pod

CONF = configuration(["priority", "gang"], ["predicates", "proportion", "nodeorder", "binpack"])


def requesting(name: str, first: int, number: int) -> list[Raw]:
    """A Pod that requests some resources that no node has."""
    amounts = {f"example.com/r{i}": "1" for i in range(first, first + number)}
    container = {"name": "main", "resources": {"requests": {"cpu": "1", **amounts}}}
    return [group(name), pod(name, group=name, containers=[container])]


def test_resources_that_only_pods_name_do_not_lengthen_the_vectors_of_all() -> None:
    evil = [each for i in range(20) for each in requesting(f"evil-{i}", 500 * i, 500)]
    world = World(node("n", "16c+64Gi"), *evil, group("other"), pod("other", "1c", "other")).run(CONF)

    assert world.bound == {"other": "n"}
    assert world.outcome is not None and world.outcome.session.dimensions.width <= 128
    assert OTHER_RESOURCES in world.waiting["evil-19"]


def test_a_pod_is_placed_when_a_node_with_its_resource_comes_however_many_others_are_named() -> None:
    many = requesting("evil", 0, 2 * MAX_UNDECLARED)
    wanted = [group("late"), pod("late", "1c+example.com/npu=2", "late")]
    world = World(node("n", "16c+64Gi"), *many, *wanted).run(CONF)
    assert OTHER_RESOURCES in world.waiting["late"]

    feed(world.cluster.cache, node("m", "16c+64Gi+example.com/npu=3"))
    world.run(CONF)

    assert world.bound == {"late": "m"}
    assert world.outcome is not None and world.outcome.session.dimensions.find("example.com/npu") is not None


@pytest.mark.parametrize("own_namespace", [True, False])
def test_an_anti_affinity_without_a_label_concerns_the_namespaces_that_it_names(own_namespace: bool) -> None:
    """``own_namespace``: the term selects Pods of its namespace only, otherwise Pods of all namespaces."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
        **({} if own_namespace else {"namespaceSelector": {}}),
    }
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    evil = {**pod("evil", "1c", on="n", affinity=anti)}
    evil["metadata"]["namespace"] = "attacker"

    world = World(node("n", "16c+64Gi"), evil, group("other"), pod("other", "1c", "other")).run(CONF)

    assert world.bound == ({"other": "n"} if own_namespace else {})
