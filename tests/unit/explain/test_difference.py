"""Differences between two states of one simulation."""

from typing import Any

from scheduler.api.names import WHAT_IF
from scheduler.cluster.memory import Simulation
from scheduler.explain import Difference, cluster_state, compare
from scheduler.explain.document import difference_document
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import PLAIN

RECLAIMING = parse_configuration(
    "actions: enqueue, allocate, reclaim\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang, enableReclaimable: false}]\n"
    "- plugins: [{name: predicates}, {name: capacity}]\n"
)


def difference(objects: list[Any], *changed: Raw, conf: Configuration = PLAIN) -> Difference:
    simulation = Simulation(manifests(*objects), conf, [NAME])
    simulation.run()
    before = cluster_state(simulation)
    simulation.change(manifests(*changed))
    simulation.run()
    return compare(before, cluster_state(simulation))


def gone(kind: str, name: str) -> Raw:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "annotations": {WHAT_IF: "delete"}}}


def test_there_is_no_difference_without_a_change() -> None:
    assert not difference([node("n1"), group("g"), pod("p", "1c", "g")])


def test_a_job_that_reaches_its_minimum_starts() -> None:
    found = difference([node("n1", "1c"), group("g", minimum=2), pods("p", 3, "1c", "g")], node("n2", "2c+4Gi"))
    assert (found.starts["default/g"].placed, found.starts["default/g"].needed) == (3, 2)
    assert not (found.moved or found.evicted or found.stops)


def test_a_job_that_gains_pods_beyond_its_minimum_does_not_start() -> None:
    found = difference([node("n1", "1c"), group("g"), pods("p", 2, "1c", "g")], node("n2", "2c+4Gi"))
    old, new = found.counts["default/g"]
    assert (old.placed, new.placed, found.starts) == (1, 2, {})


def test_pods_of_a_deleted_node_move_or_lose_their_node() -> None:
    found = difference(
        [node("n1"), node("n2", "1c+1Gi"), group("g"), pod("small", "1c", "g", on="n1"), group("h"),
         pod("large", "3c", "h", on="n1")],
        gone("Node", "n1"),
    )  # fmt: skip
    assert found.moved == {"default/small": ("n1", "n2"), "default/large": ("n1", "")}
    assert list(found.stops) == ["default/h"]


def test_evicted_pods_are_listed_with_the_action() -> None:
    found = difference(
        [node("n1", "2c+4Gi"), queue("a"), queue("b"), group("g", "a"), pods("g", 2, "1c", "g", on="n1"),
         group("h", "b"), pod("h-0", "1c", "h")],
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
         "metadata": {"name": "b", "annotations": {WHAT_IF: "merge"}}, "spec": {"deserved": {"cpu": "1"}}},
        conf=RECLAIMING,
    )  # fmt: skip
    assert set(found.evicted.values()) == {"reclaim"}
    assert list(found.starts) == ["default/h"]
    old, new = found.queues["b"]
    assert old is not None and new is not None
    assert (new.amounts["deserved"], new.running - old.running) == ({"cpu": "1"}, 1)


def test_the_document_holds_before_and_after() -> None:
    document = difference_document(difference([node("n1", "1c"), group("g"), pod("p", "2c", "g")], node("n2")))
    assert document["jobs"]["start"]["default/g"]["pods"] == {"placed": 1, "needed": 1, "all": 1}
    assert document["queues"]["default"]["before"]["jobs"] == {"running": 0, "waiting": 1}
    assert document["queues"]["default"]["after"]["jobs"] == {"running": 1, "waiting": 0}
