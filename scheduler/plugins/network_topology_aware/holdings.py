"""What the tasks on HyperNodes hold, as a session goes on."""

from collections.abc import Sequence

import numpy as np

from scheduler.api.hypernode import HyperNodes, sums
from scheduler.api.node import Column, Nodes, Rows


class Holdings:
    """What the tasks on each HyperNode hold or are promised, of a few resources, as the session goes on.

    Indexed by ``HyperNode.index``.
    """

    def __init__(self, nodes: Nodes, hyper_nodes: HyperNodes, dims: Sequence[int]) -> None:
        """``dims``: positions of the resources."""
        self._nodes = nodes
        self._dims: Rows = np.array(dims, dtype=np.intp)
        self._indices = [np.array([hn.index for hn in held], dtype=np.intp) for held in hyper_nodes.holding]
        self.allocatable: Column = sums(nodes.allocatable[self._dims], hyper_nodes.ordered)
        """Shape (dims, HyperNodes)."""
        self._at_nodes = self._now(np.arange(len(nodes)))
        self._used: Column = sums(self._at_nodes, hyper_nodes.ordered)
        self._seen = len(nodes.log)

    @property
    def used(self) -> Column:
        """Shape (dims, HyperNodes). Not to be kept: it follows the session."""
        log = self._nodes.log
        if self._seen != len(log):
            rows = np.unique(np.array([row for row, *_ in log[self._seen :]], dtype=np.intp))
            self._seen = len(log)
            now = self._now(rows)
            self._add(rows, now - self._at_nodes[:, rows])
            self._at_nodes[:, rows] = now
        return self._used

    def place(self, row: int, amount: Column) -> None:
        """Count an amount (of the dims) as held on a node, until it is taken off by its opposite."""
        self._used[:, self._indices[row]] += amount[:, np.newaxis]

    def _now(self, rows: Rows) -> Column:
        at = np.ix_(self._dims, rows)
        now: Column = self._nodes.used[at] + self._nodes.pipelined[at]
        return now

    def _add(self, rows: Rows, change: Column) -> None:
        indices = [self._indices[row] for row in rows.tolist()]
        repeated = np.repeat(change, [len(one) for one in indices], axis=1)
        np.add.at(self._used.T, np.concatenate(indices), repeated.T)
