"""Labels of Pods that split classes: the selectors of one user do not divide the Pods of other users."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.cache import ClusterCache
from scheduler.cache.named_labels import OTHER
from tests.builders import NAME, Raw, configuration, feed, group, node, pod
from tests.builders import World as BuiltWorld

CONF = configuration(["priority", "gang"], ["predicates", "nodeorder"])
HOST = "kubernetes.io/hostname"


def of(namespace: str, raw: Raw) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}


def gang(number: int, namespace: str = "victim") -> list[Raw]:
    """Equal Pods with a label that is different on each Pod."""
    return [of(namespace, pod(f"p{i}", "1c", "g", labels={"index": str(i), "app": "g"})) for i in range(number)]


def avoiding(requirements: Sequence[Raw] = (), **term: Any) -> Raw:
    """A Pod of another namespace that keeps away from Pods."""
    found = {"topologyKey": HOST, "labelSelector": {"matchExpressions": list(requirements)}, **term}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [found]}}
    return of("attacker", pod("evil", "1c", "evil", affinity=anti, labels={"index": "3"}))


def classes(*objects: Raw) -> list[dict[str, str]]:
    """The labels of the classes of the namespace ``victim``."""
    cache = ClusterCache([NAME])
    feed(cache, *objects)
    cache.snapshot(0)
    return [dict(pairs) for pairs in {tuple(t.cls.labels.items()) for t in cache.tasks() if t.namespace == "victim"}]


EXISTS = {"key": "index", "operator": "Exists"}


def test_a_selector_does_not_split_the_pods_of_other_namespaces() -> None:
    assert classes(*gang(8), avoiding([EXISTS])) == [{}]


@pytest.mark.parametrize(
    "evil",
    [
        avoiding([EXISTS], namespaceSelector={}),
        avoiding([EXISTS], namespaces=["victim"]),
        avoiding([EXISTS], namespaces=[f"n{i}" for i in range(100)]),
        avoiding([{"key": "index", "operator": "NotIn", "values": ["x"]}], namespaceSelector={}),
    ],
    ids=["selector", "listed", "many", "other value"],
)
def test_values_that_no_selector_names_are_not_told_apart(evil: Raw) -> None:
    assert classes(*gang(8), evil) == [{"index": OTHER}]


def test_a_value_that_a_selector_names_is_told_apart_in_the_namespaces_that_it_concerns() -> None:
    named = avoiding([{"key": "index", "operator": "In", "values": ["3"]}], namespaceSelector={})
    found = classes(named, *gang(8))
    assert sorted(found, key=lambda labels: labels["index"]) == [{"index": OTHER}, {"index": "3"}]


def test_own_values_that_match_label_keys_refer_to_are_told_apart() -> None:
    own = avoiding([EXISTS], namespaceSelector={}, matchLabelKeys=["index"])
    assert sorted(classes(*gang(8), own), key=lambda labels: labels["index"]) == [{"index": OTHER}, {"index": "3"}]


def test_pods_that_were_stored_before_a_value_is_named_are_classified_again() -> None:
    cache = ClusterCache([NAME])
    feed(cache, *gang(4), avoiding([EXISTS], namespaceSelector={}))
    cache.snapshot(0)
    feed(cache, avoiding([{"key": "index", "operator": "In", "values": ["2"]}], namespaceSelector={}))
    cache.snapshot(0)
    labels = {task.name: task.cls.labels for task in cache.tasks() if task.namespace == "victim"}
    assert labels == {"p0": {"index": OTHER}, "p1": {"index": OTHER}, "p2": {"index": "2"}, "p3": {"index": OTHER}}


@pytest.mark.parametrize(
    ("requirement", "avoided"),
    [
        ({"key": "app", "operator": "In", "values": ["a"]}, {"a"}),
        ({"key": "app", "operator": "NotIn", "values": ["a"]}, {"b", "c", "none"}),
        ({"key": "app", "operator": "Exists"}, {"a", "b", "c"}),
        ({"key": "app", "operator": "DoesNotExist"}, {"none"}),
    ],
)
def test_selectors_select_the_same_pods_whatever_values_are_told_apart(requirement: Raw, avoided: set[str]) -> None:
    """Each node runs a Pod with another label; a Pod that avoids some of them is placed beside the others only."""
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [requirement]}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects: list[Raw] = []
    for name in ("a", "b", "c", "none"):
        labels = {} if name == "none" else {"app": name}
        objects += [node(f"n-{name}", "2c+4Gi"), pod(name, "1c", on=f"n-{name}", labels=labels)]
    for i in range(4):
        objects += [group(f"w{i}"), pod(f"w{i}", "1c", f"w{i}", affinity=anti, labels={"app": "w"})]
    bound = BuiltWorld(*objects).run(CONF).bound
    taken = {name.removeprefix("n-") for name in bound.values()}
    assert taken.isdisjoint(avoided) and taken
