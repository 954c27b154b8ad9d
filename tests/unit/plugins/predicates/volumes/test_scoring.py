"""Scores by the utilization of the volumes that a Pod would get on a node."""

from typing import Any

import pytest

from scheduler.framework.arguments import Arguments
from scheduler.plugins.predicates.volumes.filters import read_utilization_scores
from tests.builders import World, group, node
from tests.unit.plugins.predicates.volumes.claims import (
    CONF,
    DRIVER,
    STORAGE,
    claim,
    limited,
    node_of,
    storage_class,
    user,
    volume,
)

FULLER = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
EMPTIER = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]


def shaped(shape: Any, weight: int = 1) -> Any:
    return limited(**{"volumebinding.shape": shape, "volumebinding.weight": weight})


def placed(conf: Any) -> str:
    """The node of a Pod with a claim of 4Gi, with a volume of 16Gi on n1 and one of 5Gi on n2."""
    stock = [volume("large", "16Gi", on=["n1"]), volume("small", "5Gi", on=["n2"])]
    world = World([node("n1"), node("n2")], storage_class(), stock, claim("c", "4Gi"), group("g"), user("p", "c"))
    return node_of(world.run(conf), "p")


def test_a_shape_prefers_volumes_with_high_or_low_utilization() -> None:
    assert placed(shaped(FULLER)) == "n2"
    assert placed(shaped(EMPTIER)) == "n1"
    assert placed(shaped(EMPTIER, weight=-1)) == "n2"


def test_without_a_shape_nodes_have_equal_scores() -> None:
    assert placed(CONF) == "n1"


def test_free_storage_capacity_counts_if_a_volume_is_provisioned() -> None:
    driver = {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": True},
    }
    left = [
        {
            "apiVersion": STORAGE,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": name, "namespace": "kube-system"},
            "storageClassName": "dyn",
            "capacity": size,
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
        }
        for name, size in (("n1", "100Gi"), ("n2", "5Gi"))
    ]
    objects = (
        [node("n1"), node("n2")],
        storage_class("dyn", DRIVER),
        driver,
        left,
        claim("c", "4Gi", "dyn"),
        group("g"),
    )

    world = World(*objects, user("p", "c")).run(shaped(FULLER))

    assert world.bound == {} or world.bound["p"] == "n2"
    assert world.decisions.binds[0].node == "n2"


def test_scores_are_interpolated_in_integer_arithmetic() -> None:
    shape = [{"utilization": 10, "score": 1}, {"utilization": 40, "score": 10}]

    scores = read_utilization_scores(Arguments({"volumebinding.shape": shape}), 1)

    assert scores is not None
    assert [scores[i] for i in (0, 10, 11, 39, 40, 100)] == [10, 10, 13, 97, 100, 100]


@pytest.mark.parametrize(
    "shape",
    [
        "steep",
        [],
        [1],
        [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}],
        [{"utilization": 101, "score": 1}],
        [{"utilization": 1, "score": 11}],
        [{"utilization": True, "score": 1}],
    ],
)
def test_an_invalid_shape_is_reported_and_ignored(shape: Any) -> None:
    arguments = Arguments({"volumebinding.shape": shape})

    assert read_utilization_scores(arguments, 1) is None
    assert "volumebinding.shape" in arguments.problems[0]


def test_a_negative_timeout_is_reported_and_the_default_applies() -> None:
    conf = limited(**{"volumebinding.bindTimeoutSeconds": -1})
    world = World(node("n1"), storage_class(), volume("v"), claim("c"), group("g"), user("p", "c")).run(conf)

    assert world.decisions.binds[0].preparations[0].timeout == 600
    assert "volumebinding.bindTimeoutSeconds" in world.outcome.session.problems[0]  # type: ignore[union-attr]
