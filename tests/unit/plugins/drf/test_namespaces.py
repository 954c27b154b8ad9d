"""Fair shares of namespaces by the weights in their ResourceQuotas."""

from collections import Counter
from typing import Any

import pytest

from scheduler.api.names import NAMESPACE_WEIGHT
from tests.builders import World, configuration, group, node, only, pods

Raw = dict[str, Any]
PLUGINS = ["priority", "gang", "conformance"], ["drf", "predicates", "proportion"]


def quota(namespace: str, weight: str | int, name: str = "weight") -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": {NAMESPACE_WEIGHT: weight}},
    }


def job(name: str, size: int, namespace: str) -> list[Raw]:
    objects = [group(name), *pods(name, size, "1c", name)]
    for raw in objects:
        raw["metadata"]["namespace"] = namespace
    return objects


def bound(world: World) -> Counter[str]:
    return Counter(bind.task.namespace for bind in world.decisions.binds)


def test_namespaces_get_pods_in_proportion_to_their_weights() -> None:
    world = World(node("n1", "40c"), quota("one", 3), quota("two", 1), job("a", 60, "one"), job("b", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 30, "two": 10}


def test_the_number_of_jobs_does_not_change_the_share_of_a_namespace() -> None:
    jobs = [job(f"a{i}", 20, "one") for i in range(3)]
    world = World(node("n1", "40c"), quota("one", 1), quota("two", 3), *jobs, job("b", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 10, "two": 30}


def test_a_namespace_without_a_weight_counts_for_one() -> None:
    world = World(node("n1", "40c"), quota("one", 3), job("a", 60, "one"), job("b", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 30, "two": 10}


def test_the_highest_weight_of_several_quotas_counts() -> None:
    quotas = quota("one", 1), quota("one", 3, "more")
    world = World(node("n1", "40c"), quotas, job("a", 60, "one"), job("b", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 30, "two": 10}


def test_without_weights_namespaces_do_not_matter() -> None:
    world = World(node("n1", "30c"), job("a", 60, "one"), job("b", 60, "one"), job("c", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 20, "two": 10}


def test_the_flag_disables_namespace_order() -> None:
    plugins = {"drf": only("enableJobOrder"), "predicates": {}}
    world = World(node("n1", "40c"), quota("one", 3), job("a", 60, "one"), job("b", 60, "two"))
    assert bound(world.run(configuration(["gang"], plugins))) == {"one": 20, "two": 20}


@pytest.mark.parametrize("weight", ["heavy", 0, "-3"])
def test_an_invalid_weight_is_reported_and_ignored(weight: str | int) -> None:
    world = World(node("n1", "40c"), quota("one", weight), quota("two", 3), job("a", 60, "one"), job("b", 60, "two"))
    assert bound(world.run(configuration(*PLUGINS))) == {"one": 10, "two": 30}
    (message,) = world.events("Malformed")
    assert message.startswith(f"spec.hard[{NAMESPACE_WEIGHT}]")


def test_preemption_evicts_from_the_namespace_with_the_larger_weighted_share() -> None:
    """Both jobs would hold the same share; the weights decide whose Pods may be evicted."""
    poor = job("b", 8, "two")
    rich = [group("a"), *pods("a", 8, "1c", "a", on="n1")]
    for raw in rich:
        raw["metadata"]["namespace"] = "one"
    drf = {"drf": only("enableJobOrder", "enablePreemptable", "enableNamespaceOrder"), "predicates": {}}
    gang = {"gang": only("enableJobReady", "enableJobPipelined"), "priority": only("enableJobStarving")}
    plan = configuration(gang, drf, actions="enqueue, allocate, preempt")
    poor[0]["status"] = {"phase": "Inqueue"}
    taken = {}
    for weight in (1, 3):
        world = World(node("n1", "8c"), rich, quota("one", weight), quota("two", 1), poor).run(plan)
        taken[weight] = len(world.evicted)
    assert taken == {1: 4, 3: 2}
