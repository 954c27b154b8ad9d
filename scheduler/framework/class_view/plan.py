"""A plan: nodes for the next tasks of a class. It stays valid while tasks of other classes are placed.

Choosing nodes for many tasks at once is much cheaper than one by one. Where tasks come one by one (a thousand jobs of
one Pod, the tasks of a job beyond its minimum), the nodes and their order are the same.

The log of the nodes shows other changes, such as placements of another class. Each node is a sequence of scores of its
own, and the plan merges these sequences. So the places on unchanged nodes stay in their order, and the new sequences of
the changed nodes are merged with them. Where filters or scores of scope CLUSTER may change the answers of unchanged
nodes, any other change ends the plan at once.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection

from scheduler.api.node import Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.runs import MAX_RUN

Sequences = Callable[[Collection[int], Rows | None], list[tuple[int, int, list[float]]]]
"""sequences(rows, within): (row, room, scores) of the rows that take tasks: how many fit, and the scores of the first
ones, at least of one. ``within``: the candidate nodes; None: all."""


class NodePlan:
    """Places for tasks of one class, or of classes that share a view."""

    def __init__(self, nodes: Nodes, cls: TaskClass, sequences: Sequences | None) -> None:
        """``sequences``: None if a placement may change the answers of other nodes."""
        self._nodes = nodes
        self._sequences = sequences
        self.class_ids = {cls.id}
        self._seen = 0
        self._within: Rows | None = None
        self._scores: list[float] = []
        self._used = 0
        """Number of places that were taken since the plan was made."""
        self._is_cut = False
        self.places: list[int] = []
        """Rows of the next tasks, in order, since the last call of ``follow``."""
        self.stride = 1
        """Number of tasks to plan for next: grows while plans are used up, and shrinks to what was used of a plan that
        ended early."""

    def make(self, places: list[int], scores: list[float]) -> None:
        """Sets the places after ``follow`` has returned False. ``scores``: of each place when it is chosen; empty for a
        single place whose score is not known."""
        self.places, self._scores = places, scores
        self._used, self._is_cut = 0, False

    def follow(self, within: Rows | None) -> bool:
        """Removes places that have been taken, and those that other changes make invalid. Returns whether any place is
        left. ``within``: the candidate nodes, compared by identity."""
        log, places = self._nodes.log, self.places
        if not places:
            self._seen, self._within, self.stride = len(log), within, 1
            return False
        taken: Counter[int] = Counter()
        others: set[int] = set()
        for row, cls, number in log[self._seen :]:
            if cls in self.class_ids and number > 0:
                taken[row] += number
            else:
                others.add(row)
        done = taken.total()
        if within is not self._within or taken != Counter(places[:done]) or (others and self._sequences is None):
            self.places, self.stride = [], 1
        else:
            if done:
                self.places, self._scores = places[done:], self._scores[done:]
                self._used += done
            if others and self.places:
                self._merge(others)
            if not self.places and not self._is_cut:
                self.stride = min(self.stride * 4, MAX_RUN)
        self._seen, self._within = len(log), within
        return bool(self.places)

    def _merge(self, changed: Collection[int]) -> None:
        """Merges the new sequences of changed nodes with the places on the others."""
        assert self._sequences is not None
        unscored = [] if self._scores else [row for row in self.places if row not in changed]
        sequences = {row: (room, scores) for row, room, scores in self._sequences([*changed, *unscored], self._within)}
        scores_now = self._scores or [sequences.pop(row)[1][0] if row in unscored else 0.0 for row in self.places]
        heads = [(-scores[0], row) for row, (_, scores) in sequences.items()]
        heapq.heapify(heads)
        taken = dict.fromkeys(sequences, 0)
        merged: list[tuple[int, float]] = []
        for row, score in zip(self.places, scores_now, strict=True):
            if row in changed:
                continue
            while heads and heads[0] < (-score, row) and not self._is_cut:
                negative, first = heads[0]
                merged.append((first, -negative))
                taken[first] += 1
                room, scores = sequences[first]
                if taken[first] == room:
                    heapq.heappop(heads)
                elif taken[first] == len(scores):
                    self._is_cut = True  # its next score is not known
                else:
                    heapq.heapreplace(heads, (-scores[taken[first]], first))
            if self._is_cut:
                break
            merged.append((row, score))
        self.places, self._scores = [row for row, _ in merged], [score for _, score in merged]
        if self._is_cut:
            self.stride = max(self._used + len(merged), 1)
