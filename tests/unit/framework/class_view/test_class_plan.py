"""A plan is followed while its places are taken, and merged with the new scores of nodes that change otherwise."""

from collections.abc import Callable, Collection

import numpy as np
import pytest

from scheduler.api.node import NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.plan import NodePlan


def task_class(number: int) -> TaskClass:
    return TaskClass(number, "default", {}, {}, PodSpec(), np.zeros(3), True, (0.0, 0.0))


MINE, OTHER = task_class(1), task_class(2)


def planned(*places: int) -> tuple[Nodes, NodePlan]:
    """Four nodes, and a new plan."""
    nodes = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=f"n{i}")) for i in range(4)]), 3)
    plan = NodePlan(nodes, MINE, None)
    assert not plan.follow(None)
    plan.make(list(places), [1.0] * len(places))
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


def test_anything_else_drops_it_if_answers_depend_on_other_nodes() -> None:
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
    plan.make([0], [1.0])
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
        plan.make([1], [1.0])
    assert strides == [1, 4, 16, 64, 256, 256]

    nodes.hold(0, OTHER)
    assert not plan.follow(None)
    assert plan.stride == 1


def scored(sequences: dict[int, list[float]], *places: int) -> tuple[Nodes, NodePlan]:
    """Four nodes, and a plan whose nodes had the scores 9, 8, 7, ... ``sequences``: scores of nodes that have changed
    since, with room for one task more than the number of scores."""

    def of(rows: Collection[int], within: Rows | None) -> list[tuple[int, int, list[float]]]:
        return [(row, len(sequences[row]) + 1, sequences[row]) for row in rows if row in sequences]

    nodes, _ = planned()
    plan = NodePlan(nodes, MINE, of)
    assert not plan.follow(None)
    plan.make(list(places), [9.0 - i for i in range(len(places))])
    return nodes, plan


@pytest.mark.parametrize(
    ("scores", "left"),
    [
        ([6.5], [2, 0, 1]),
        ([7.0], [2, 0, 1]),
        ([7.5, 1.0], [2, 0, 3, 1]),
        ([8.5, 7.5, 1.0], [2, 3, 0, 3, 1]),
        ([9.5, 9.5, 1.0], [3, 3, 2, 0, 1]),
        ([1.0, 9.5], [2, 0, 1]),
    ],
)
def test_a_node_that_other_tasks_take_is_planned_where_it_is_the_best(scores: list[float], left: list[int]) -> None:
    nodes, plan = scored({3: scores}, 2, 0, 1)
    nodes.hold(3, OTHER)
    assert plan.follow(None)
    assert plan.places == left


def test_the_plan_ends_where_the_next_score_of_a_node_is_not_known() -> None:
    nodes, plan = scored({3: [8.5]}, 2, 0, 1)
    nodes.hold(3, OTHER)
    assert plan.follow(None)
    assert plan.places == [2, 3]


def test_among_equal_scores_the_lower_row_is_better() -> None:
    nodes, plan = scored({0: [8.0, 1.0]}, 2, 1, 3)
    nodes.hold(0, OTHER)
    assert plan.follow(None)
    assert plan.places == [2, 0, 1, 3]


def test_a_planned_node_that_other_tasks_take_is_planned_with_its_new_scores() -> None:
    nodes, plan = scored({0: [7.5, 1.0]}, 2, 0, 3, 1)
    nodes.hold(0, OTHER)
    assert plan.follow(None)
    assert plan.places == [2, 0, 3, 1]

    nodes, plan = scored({0: [6.5, 1.0]}, 2, 0, 3, 1)
    nodes.hold(0, OTHER)
    assert plan.follow(None)
    assert plan.places == [2, 3, 0, 1]


def test_a_changed_node_that_takes_no_task_is_left_out() -> None:
    nodes, plan = scored({}, 2, 0, 3)
    nodes.hold(0, OTHER)
    assert plan.follow(None)
    assert plan.places == [2, 3]


def test_places_are_taken_and_other_nodes_change_in_the_same_step() -> None:
    nodes, plan = scored({3: [7.5, 1.0]}, 2, 0, 1)
    nodes.hold(2, MINE)
    nodes.hold(3, OTHER)
    assert plan.follow(None)
    assert plan.places == [0, 3, 1]


def test_a_plan_that_ended_early_is_followed_by_one_as_long_as_what_was_used_of_it() -> None:
    nodes, plan = scored({3: [7.5]}, 2, 0, 1)
    nodes.hold(2, MINE)
    nodes.hold(3, OTHER)
    assert plan.follow(None)
    nodes.hold(0, MINE)
    nodes.hold(3, MINE)
    assert not plan.follow(None)
    assert plan.stride == 3


@pytest.mark.parametrize(
    ("changed", "left"), [({0: [8.5]}, [2]), ({0: [9.5, 1.0]}, [0, 2]), ({0: [9.0, 1.0]}, [0, 2]), ({2: [9.5]}, [])]
)
def test_a_single_place_is_scored_when_other_nodes_change(changed: dict[int, list[float]], left: list[int]) -> None:
    nodes, plan = scored({2: [9.0], **changed})
    plan.make([2], [])
    for row in changed:
        nodes.hold(row, OTHER)
    assert plan.follow(None) == bool(left)
    assert plan.places == left
