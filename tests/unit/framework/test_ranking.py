"""Nodes in the order of scores that change as tasks are placed: always equal to a full sort."""

from random import Random

import numpy as np
import pytest

from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta, PodSpec
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskClass
from scheduler.framework.cached_column import CachedColumn, CandidateNodes
from scheduler.framework.ranking import FEW, MANY, Ranking

REQUEST = np.zeros(8)
REQUEST[PODS_INDEX] = 1
CLASS = TaskClass(1, "default", {}, {}, PodSpec(), REQUEST, True, (0.0, 0.0))
NUMBER = 3 * MANY


class Bench:
    """Every other of some nodes; the score is the number of Pods, modulo 5."""

    def __init__(self) -> None:
        self.nodes = Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=f"n{i:03d}")) for i in range(2 * NUMBER)]), 8)
        self.candidates = CandidateNodes(self.nodes, np.arange(0, 2 * NUMBER, 2))
        self.ranking = Ranking(self.candidates, CachedColumn(self.candidates, self.score))

    def score(self, at: Rows) -> Column:
        score: Column = self.nodes.used[PODS_INDEX, self.candidates.rows[at]] % 5
        return score

    def place(self, dice: Random, number: int) -> None:
        for _ in range(number):
            self.nodes.hold(dice.randrange(2 * NUMBER), CLASS)

    def check(self, chosen: list[int]) -> None:
        mask = np.zeros(NUMBER, dtype=bool)
        mask[chosen] = True
        scores = self.score(self.candidates.all)
        assert list(self.ranking.among(mask)) == sorted(chosen, key=lambda at: (-scores[at], at))


@pytest.mark.parametrize("changes", [0, 1, 5, MANY, 4 * MANY])
def test_the_order_is_that_of_the_scores_of_now(changes: int) -> None:
    bench, dice = Bench(), Random(changes)
    for chosen in (0, 1, FEW, 2 * FEW + 1, NUMBER):
        bench.check(sorted(dice.sample(range(NUMBER), chosen)))
        bench.place(dice, changes)
        bench.check(list(range(NUMBER)))


def test_an_iteration_reaches_its_end_whatever_is_placed_and_undone_meanwhile() -> None:
    bench, dice = Bench(), Random(0)
    bench.place(dice, 500)
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
