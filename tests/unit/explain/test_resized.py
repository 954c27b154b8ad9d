"""Pods that are resized appear in the explanation of a Pod for which they leave no room."""

from collections.abc import Iterator

import pytest

from scheduler.cli.explain_text import lines
from scheduler.cluster.memory import Simulation
from scheduler.explain.document import explanation_document
from scheduler.explain.explaining import explain
from scheduler.explain.explanation import Explanation
from scheduler.explain.tenant import HiddenNames, for_tenant
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod

CONF = configuration(["gang", "predicates"])


def resized(name: str, requested: str, held: str, on: str = "n1") -> Raw:
    raw = pod(name, f"{requested}c", on=on, scheduler="another")
    amounts = {"cpu": held}
    raw["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": amounts, "resources": {"requests": amounts}}
    ]
    return raw


def explained(*objects: Raw) -> Explanation:
    simulation = Simulation(manifests(*objects, group("g"), pod("p", "4c", "g")), CONF, [NAME])
    return explain(simulation, "podgroup", "default", "g", search=False)


def words(it: Explanation) -> Iterator[list[str]]:
    return (line.split() for line in lines(it))


def test_a_pod_that_holds_more_than_it_requests_is_named_with_both_amounts() -> None:
    it = explained(node("n1", "8c+8Gi"), resized("shrinking", "1", "6"))
    assert explanation_document(it)["resizing"] == [
        {"pod": "default/shrinking", "node": "n1", "resource": "cpu", "requested": "1", "held": "6"}
    ]
    assert ["default/shrinking", "n1", "cpu", "1", "6"] in list(words(it))


@pytest.mark.parametrize(
    "other", [resized("settled", "6", "6"), resized("growing", "6", "1"), resized("elsewhere", "1", "6", on="n9")]
)
def test_other_pods_are_not_named(other: Raw) -> None:
    it = explained(node("n1", "8c+8Gi"), pod("big", "6c", on="n1", scheduler="another"), other)
    assert "resizing" not in explanation_document(it)
    assert not any("resized" in line for line in lines(it))


def test_a_tenant_does_not_see_them() -> None:
    it = explained(node("n1", "8c+8Gi"), resized("shrinking", "1", "6"))
    nobody = HiddenNames(frozenset(), frozenset(), frozenset(), frozenset())
    assert it.resizing and for_tenant(it, nobody).resizing == []


def test_the_largest_differences_come_first_and_ten_are_enough() -> None:
    it = explained(node("n1", "30c+30Gi"), *[resized(f"p{i}", "1", str(2 + i % 3)) for i in range(12)])
    assert len(it.resizing) == 10
    differences = [each.held - each.requested for each in it.resizing]
    assert differences == sorted(differences, reverse=True) and differences[0] == 3000
