"""The utilization of HyperNodes, for packing tasks into HyperNodes that are in use.

score = sum over requested resources of weight x (used + requested) / allocatable, divided by the sum of the weights; 0
if one of the resources does not fit.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.hypernode import HyperNodes, sums
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import SMALLEST, Vector


class Packing:
    """The utilization of all HyperNodes in one session."""

    def __init__(self, nodes: Nodes, hyper_nodes: HyperNodes, weights: Mapping[int, float]) -> None:
        """``weights``: index of a resource -> its weight."""
        self._dims = list(weights)
        self._weights = np.array(list(weights.values()))
        self._usage = HyperNodeUsage(nodes, hyper_nodes, self._dims)

    def scores(self, request: Vector) -> Column:
        """The utilization of each HyperNode, by index, with the request added; from 0 to 1."""
        requested = request[self._dims]
        counts = np.flatnonzero(requested >= SMALLEST)
        total = self._weights[counts].sum()
        allocatable = self._usage.allocatable[counts]
        if total <= 0:
            return np.zeros(allocatable.shape[1])
        used = self._usage.used[counts] + requested[counts, np.newaxis]
        utilization = np.divide(used, allocatable, out=np.zeros_like(used), where=allocatable > 0)
        scores: Column = self._weights[counts] @ utilization / total
        scores[(used > allocatable).any(axis=0)] = 0.0
        return scores

    def place(self, row: int, request: Vector) -> None:
        """Counts a request as used on a node, until the negative request is placed there."""
        self._usage.place(row, request[self._dims])


class HyperNodeUsage:
    """The amounts of some resources that the tasks on each HyperNode use, including pipelined tasks.

    Follows the placements of the session. Indexed by ``HyperNode.index``.
    """

    def __init__(self, nodes: Nodes, hyper_nodes: HyperNodes, dims: Sequence[int]) -> None:
        """``dims``: indexes of the resources."""
        self._nodes = nodes
        self._dims: Rows = np.array(dims, dtype=np.intp)
        self._indices = [np.array([hn.index for hn in containing], dtype=np.intp) for containing in hyper_nodes.by_node]
        self.allocatable: Column = sums(nodes.allocatable[self._dims], hyper_nodes.ordered)
        """Shape (dims, HyperNodes)."""
        self._at_nodes = self._current(np.arange(len(nodes)))
        self._used: Column = sums(self._at_nodes, hyper_nodes.ordered)
        self._seen = len(nodes.log)

    @property
    def used(self) -> Column:
        """Shape (dims, HyperNodes). Callers must not keep the array, which changes with the session."""
        log = self._nodes.log
        if self._seen != len(log):
            rows = np.unique(np.array([row for row, *_ in log[self._seen :]], dtype=np.intp))
            self._seen = len(log)
            current = self._current(rows)
            self._add(rows, current - self._at_nodes[:, rows])
            self._at_nodes[:, rows] = current
        return self._used

    def place(self, row: int, amount: Column) -> None:
        """Counts an amount (of the dims) as used on a node, until the negative amount is placed there."""
        self._used[:, self._indices[row]] += amount[:, np.newaxis]

    def _current(self, rows: Rows) -> Column:
        at = np.ix_(self._dims, rows)
        current: Column = self._nodes.used[at] + self._nodes.pipelined[at]
        return current

    def _add(self, rows: Rows, change: Column) -> None:
        indices = [self._indices[row] for row in rows.tolist()]
        repeated = np.repeat(change, [len(one) for one in indices], axis=1)
        np.add.at(self._used.T, np.concatenate(indices), repeated.T)
