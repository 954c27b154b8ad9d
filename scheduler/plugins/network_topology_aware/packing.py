"""How full HyperNodes would be with more tasks on them: the measure by which one is filled before another is begun.

score = sum over weighted resources that are asked for of weight x (used + asked for) / allocatable, over the sum of
weights; 0 where any of them would not fit.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.api.hypernode import HyperNodes
from scheduler.api.node import Column, Nodes
from scheduler.api.resource import SMALLEST, Vector
from scheduler.plugins.network_topology_aware.holdings import Holdings


class Packing:
    """The measure for one session."""

    def __init__(self, nodes: Nodes, hyper_nodes: HyperNodes, weights: Mapping[int, float]) -> None:
        """``weights``: position of a resource -> its weight."""
        self._dims = list(weights)
        self._weights = np.array(list(weights.values()))
        self._holdings = Holdings(nodes, hyper_nodes, self._dims)

    def scores(self, request: Vector) -> Column:
        """How full each HyperNode, by index, would be if the request came to it, from 0 to 1."""
        asked = request[self._dims]
        counts = np.flatnonzero(asked >= SMALLEST)
        total = self._weights[counts].sum()
        allocatable = self._holdings.allocatable[counts]
        if total <= 0:
            return np.zeros(allocatable.shape[1])
        wanted = self._holdings.used[counts] + asked[counts, np.newaxis]
        share = np.divide(wanted, allocatable, out=np.zeros_like(wanted), where=allocatable > 0)
        scores: Column = self._weights[counts] @ share / total
        scores[(wanted > allocatable).any(axis=0)] = 0.0
        return scores

    def place(self, row: int, request: Vector) -> None:
        """Count a request as held on a node, until it is taken off by its opposite."""
        self._holdings.place(row, request[self._dims])
