"""A plan holds while nothing happens but that its places are taken."""

from collections.abc import Callable

import numpy as np

from scheduler.api.node import NodeFacts, Nodes
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.plan import Plan


def task_class(number: int) -> TaskClass:
    return TaskClass(number, "default", {}, {}, PodSpec(), np.zeros(3), True, (0.0, 0.0))


MINE, OTHER = task_class(1), task_class(2)


def planned(*places: int) -> tuple[Nodes, Plan]:
    """Four nodes, and a plan that has just been made."""
    nodes = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=f"n{i}")) for i in range(4)]), 3)
    plan = Plan(nodes, MINE)
    assert not plan.follow(None)
    plan.places = list(places)
    return nodes, plan


def test_what_is_taken_is_struck_out() -> None:
    nodes, plan = planned(2, 0, 2, 1)
    nodes.hold(2, MINE)
    assert plan.follow(None)
    assert plan.places == [0, 2, 1]

    nodes.hold(2, MINE)
    nodes.hold(0, MINE)
    assert plan.follow(None)
    assert plan.places == [1], "in which order they are taken does not matter"


def test_several_tasks_may_take_a_node_at_once() -> None:
    nodes, plan = planned(3, 3, 1)
    nodes.hold(3, MINE, 2)
    assert plan.follow(None)
    assert plan.places == [1]


def test_nothing_taken_leaves_it_as_it_is() -> None:
    _, plan = planned(3, 1)
    assert plan.follow(None)
    assert plan.places == [3, 1]


def test_anything_else_drops_it() -> None:
    changes: list[Callable[[Nodes], object]] = [
        lambda nodes: nodes.hold(2, OTHER),
        lambda nodes: nodes.hold(1, MINE),
        lambda nodes: nodes.hold(2, MINE, -1),
        lambda nodes: nodes.release(2, MINE),
        lambda nodes: nodes.pipeline(2, MINE),
    ]
    for happens in changes:
        nodes, plan = planned(2, 0)
        happens(nodes)
        assert not plan.follow(None)
        assert plan.places == []


def test_a_placement_that_is_undone_drops_it() -> None:
    nodes, plan = planned(2, 0)
    nodes.hold(2, MINE)
    nodes.hold(2, MINE, -1)
    assert not plan.follow(None)


def test_it_is_for_the_nodes_it_was_made_for() -> None:
    _, plan = planned(2, 0)
    some = np.array([0, 2])
    assert not plan.follow(some)
    plan.places = [0]
    assert plan.follow(some)
    assert not plan.follow(None)


def test_the_more_plans_come_true_the_longer_they_may_be() -> None:
    nodes, plan = planned(2)
    strides = []
    for _ in range(6):
        strides.append(plan.stride)
        for row in plan.places:
            nodes.hold(row, MINE)
        assert not plan.follow(None)
        plan.places = [1]
    assert strides == [1, 4, 16, 64, 256, 256]

    nodes.hold(0, OTHER)
    assert not plan.follow(None)
    assert plan.stride == 1
