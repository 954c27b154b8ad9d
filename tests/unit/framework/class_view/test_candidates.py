"""Columns and rankings that follow the log: only changed rows are computed, and the result equals a full computation or
sort."""

from random import Random

import numpy as np
import pytest

from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.candidates import FEW, MANY, CachedColumn, CandidateNodes, ScoreOrder

REQUEST = np.zeros(8)
REQUEST[PODS_INDEX] = 1
CLASS = TaskClass(1, "default", {}, {}, PodSpec(), REQUEST, True, (0.0, 0.0))


class ColumnBench:
    """The number of Pods on some of six nodes, and the rows that were computed."""

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
    bench = ColumnBench(1, 3, 4)
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
    bench = ColumnBench(1, 3)
    bench.column.read()
    bench.nodes.hold(5, CLASS)
    assert bench.column.read().tolist() == [0, 0]
    assert bench.computed == [[0, 1]]


def test_of_a_column_read_in_part_the_rest_is_computed_when_it_is_read() -> None:
    bench = ColumnBench(0, 1, 2, 3, 4, 5)
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
    bench = ColumnBench(0, 1, 2, 3, 4, 5)
    bench.nodes.hold(2, CLASS)
    assert bench.computed == []


def test_a_row_is_found_among_the_candidate_nodes() -> None:
    candidates = ColumnBench(1, 3, 4).candidates
    assert candidates.find(np.array([0, 1, 2, 4, 5])).tolist() == [0, 2]
    assert candidates.find(np.array([], dtype=np.intp)).tolist() == []
    assert ColumnBench(0, 1, 2, 3, 4, 5).candidates.find(np.array([2, 5])).tolist() == [2, 5]
    assert ColumnBench().candidates.find(np.array([2, 5])).tolist() == []


NUMBER = 3 * MANY


class RankingBench:
    """Every second one of some nodes; the score is the number of Pods, modulo 5."""

    def __init__(self) -> None:
        self.nodes = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=f"n{i:03d}")) for i in range(2 * NUMBER)]), 8)
        self.candidates = CandidateNodes(self.nodes, np.arange(0, 2 * NUMBER, 2))
        self.ranking = ScoreOrder(self.candidates, CachedColumn(self.candidates, self.score))

    def score(self, at: Rows) -> Column:
        score: Column = self.nodes.used[PODS_INDEX, self.candidates.rows[at]] % 5
        return score

    def place(self, random: Random, number: int) -> None:
        for _ in range(number):
            self.nodes.hold(random.randrange(2 * NUMBER), CLASS)

    def check(self, chosen: list[int]) -> None:
        mask = np.zeros(NUMBER, dtype=bool)
        mask[chosen] = True
        scores = self.score(self.candidates.all)
        assert list(self.ranking.among(mask)) == sorted(chosen, key=lambda at: (-scores[at], at))


@pytest.mark.parametrize("changes", [0, 1, 5, MANY, 4 * MANY])
def test_the_order_is_that_of_the_scores_of_now(changes: int) -> None:
    bench, random = RankingBench(), Random(changes)
    for chosen in (0, 1, FEW, 2 * FEW + 1, NUMBER):
        bench.check(sorted(random.sample(range(NUMBER), chosen)))
        bench.place(random, changes)
        bench.check(list(range(NUMBER)))


def test_an_iteration_reaches_its_end_whatever_is_placed_and_undone_meanwhile() -> None:
    bench, random = RankingBench(), Random(0)
    bench.place(random, 500)
    everywhere = np.ones(NUMBER, dtype=bool)
    expected = list(bench.ranking.among(everywhere))
    tried = []
    for at in bench.ranking.among(everywhere):
        tried.append(at)
        row = int(bench.candidates.rows[at])
        bench.nodes.hold(row, CLASS)
        bench.nodes.hold(row, CLASS, -1)
    assert tried == expected
    assert list(bench.ranking.among(everywhere)) == expected
