"""Columns that follow the log: up to date when read, and no more is computed than has changed."""

import numpy as np

from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.cached_column import CachedColumn, CandidateNodes

REQUEST = np.zeros(8)
REQUEST[PODS_INDEX] = 1
CLASS = TaskClass(1, "default", {}, {}, PodSpec(), REQUEST, True, (0.0, 0.0))


class Bench:
    """The number of Pods on some of six nodes, and what was computed."""

    def __init__(self, *rows: int) -> None:
        self.nodes = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=f"n{i}")) for i in range(6)]), 8)
        self.candidates = CandidateNodes(self.nodes, np.array(rows, dtype=np.intp))
        self.computed: list[list[int]] = []
        self.column = CachedColumn(self.candidates, self.compute)

    def compute(self, at: Rows) -> Column:
        self.computed.append(at.tolist())
        column: Column = self.nodes.used[PODS_INDEX, self.candidates.rows[at]]
        return column


def test_only_what_changed_is_computed_again() -> None:
    bench = Bench(1, 3, 4)
    assert bench.column.read().tolist() == [0, 0, 0]
    bench.nodes.hold(3, CLASS)
    bench.nodes.hold(3, CLASS)
    bench.nodes.hold(0, CLASS)
    assert bench.column.read().tolist() == [0, 2, 0]
    assert bench.column.read().tolist() == [0, 2, 0]
    assert bench.computed == [[0, 1, 2], [0, 1, 2]], "three changes, three nodes: all are looked at"

    bench.nodes.hold(4, CLASS)
    assert bench.column.read().tolist() == [0, 2, 1]
    assert bench.computed[2:] == [[2]]


def test_changes_of_other_nodes_change_nothing() -> None:
    bench = Bench(1, 3)
    bench.column.read()
    bench.nodes.hold(5, CLASS)
    assert bench.column.read().tolist() == [0, 0]
    assert bench.computed == [[0, 1]]


def test_of_a_column_read_in_part_the_rest_is_computed_when_it_is_read() -> None:
    bench = Bench(0, 1, 2, 3, 4, 5)
    bench.column.read()
    bench.nodes.hold(2, CLASS)
    bench.nodes.hold(4, CLASS)
    assert bench.column.read(np.array([0, 4])).tolist() == [0, 1]
    assert bench.column.read(np.array([0, 4])).tolist() == [0, 1]
    assert bench.computed[1:] == [[4]]
    bench.nodes.hold(4, CLASS)
    assert bench.column.read().tolist() == [0, 0, 1, 0, 2, 0]
    assert bench.computed[2:] == [[2, 4]]


def test_a_column_that_is_not_read_is_not_computed() -> None:
    bench = Bench(0, 1, 2, 3, 4, 5)
    bench.nodes.hold(2, CLASS)
    assert bench.computed == []


def test_a_row_is_found_among_the_candidate_nodes() -> None:
    candidates = Bench(1, 3, 4).candidates
    assert candidates.find(np.array([0, 1, 2, 4, 5])).tolist() == [0, 2]
    assert candidates.find(np.array([], dtype=np.intp)).tolist() == []
    assert Bench(0, 1, 2, 3, 4, 5).candidates.find(np.array([2, 5])).tolist() == [2, 5]
    assert Bench().candidates.find(np.array([2, 5])).tolist() == []
