"""Nodes by how full the volumes of a Pod would be there."""

from typing import Any

import pytest

from scheduler.framework.arguments import Arguments
from scheduler.plugins.predicates.volumes import worth_of
from tests.builders import World, group, node
from tests.unit.plugins.predicates.volumes.stock import (
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
    """Where a claim of 4Gi goes: a volume of 16Gi on n1, one of 5Gi on n2."""
    stock = [volume("large", "16Gi", on=["n1"]), volume("small", "5Gi", on=["n2"])]
    world = World([node("n1"), node("n2")], storage_class(), stock, claim("c", "4Gi"), group("g"), user("p", "c"))
    return node_of(world.run(conf), "p")


def test_a_shape_prefers_volumes_that_are_filled_or_those_that_are_not() -> None:
    assert placed(shaped(FULLER)) == "n2"
    assert placed(shaped(EMPTIER)) == "n1"
    assert placed(shaped(EMPTIER, weight=-1)) == "n2"


def test_without_a_shape_nodes_are_not_told_apart() -> None:
    assert placed(CONF) == "n1"


def test_what_is_left_counts_where_a_volume_is_to_be_made() -> None:
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


def test_scores_lie_on_the_lines_between_the_points_in_whole_numbers() -> None:
    worth = worth_of(
        Arguments({"volumebinding.shape": [{"utilization": 10, "score": 1}, {"utilization": 40, "score": 10}]})
    )

    assert worth is not None
    assert [worth[i] for i in (0, 10, 11, 39, 40, 100)] == [10, 10, 13, 97, 100, 100]


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
def test_what_is_no_shape_is_told_and_left_out(shape: Any) -> None:
    arguments = Arguments({"volumebinding.shape": shape})

    assert worth_of(arguments) is None
    assert "volumebinding.shape" in arguments.problems[0]


def test_a_negative_time_is_told_and_the_usual_one_holds() -> None:
    conf = limited(**{"volumebinding.bindTimeoutSeconds": -1})
    world = World(node("n1"), storage_class(), volume("v"), claim("c"), group("g"), user("p", "c")).run(conf)

    assert world.decisions.binds[0].preparations[0].timeout == 600
    assert "volumebinding.bindTimeoutSeconds" in world.outcome.session.problems[0]  # type: ignore[union-attr]
