"""Classes of Pods that node affinity pins to one node each."""

from typing import Any

import pytest

from scheduler.api.pod_rules import without_pin
from scheduler.api.task import TaskClass
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, pod


def required(*terms: Raw) -> Raw:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def named(*names: str, operator: str = "In", key: str = "metadata.name") -> Raw:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(names)}]}


SSD: Raw = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


def classes(*specs: dict[str, Any]) -> list[TaskClass]:
    cache = ClusterCache([NAME])
    feed(cache, *(pod(f"p{i}", "1c", "g", **spec) for i, spec in enumerate(specs)))
    tasks = [cache.task(f"default/p{i}") for i in range(len(specs))]
    return [task.cls for task in tasks if task is not None]


def test_classes_that_differ_only_in_their_node_have_one_pin_id() -> None:
    first, second, third = classes(
        {"affinity": required(named("n0"))},
        {"affinity": required(named("n1"))},
        {"affinity": required(named("n0") | SSD)},
    )
    assert (first.pinned_to, second.pinned_to, third.pinned_to) == ("n0", "n1", "n0")
    assert first.id != second.id and first.pin_id == second.pin_id
    assert third.pin_id != first.pin_id


def test_other_differences_separate_pin_ids() -> None:
    pin = {"affinity": required(named("n0"))}
    found = classes(
        pin, pin | {"priorityClassName": "high"}, pin | {"selector": {"disk": "ssd"}}, pin | {"hostNetwork": True}
    )
    assert len({cls.pin_id for cls in found}) == len(found)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": required(SSD)},
        {"affinity": required(named("n0", "n1"))},
        {"affinity": required(named("n0"), named("n1"))},
        {"affinity": required(named("n0", operator="NotIn"))},
        {"affinity": required(named("n0", key="metadata.namespace"))},
        {"affinity": required(named("n0")) | {"podAffinity": {}}},
        {
            "affinity": required(named("n0")),
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        },
        {"affinity": required(named("n0")), "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ],
)
def test_other_classes_are_not_pinned(spec: dict[str, Any]) -> None:
    (cls,) = classes(spec)
    assert (cls.pinned_to, cls.pin_id) == ("", -1)


def test_without_the_node_the_other_requirements_stay() -> None:
    bare, rest = classes({"affinity": required(named("n0"))}, {"affinity": required(named("n0") | SSD)})
    assert without_pin(bare.spec).affinity is None
    (only,) = classes({"affinity": required(SSD)})
    assert without_pin(rest.spec).affinity == only.spec.affinity
    assert without_pin(only.spec) is only.spec


def test_pin_ids_of_dropped_classes_are_not_kept() -> None:
    cache = ClusterCache([NAME])
    feed(cache, pod("p", "1c", "g", affinity=required(named("n0"))))
    assert cache._classes._shape_ids
    cache._classes.retain(())
    assert not cache._classes._shape_ids
