"""Scores nodes by their HyperNodes, and HyperNodes by their utilization.

Tasks of a sub-job with a network topology prefer nodes close to its placed tasks. All other tasks prefer nodes outside
of HyperNodes, and then HyperNodes that are in use. Both scores depend only on the HyperNodes of a node, so equal tasks
are placed in one run.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes, sums
from scheduler.api.node import ChangedRows, Codes, Column, Nodes, Rows
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.network_topology_aware.gradients import SubJobPlacement, SubJobPlacements

FULL = 1.0
Tiers = Mapping[int, tuple[float, Codes]]
"""Tier -> (its weight, the HyperNode of each node as returned by ``HyperNodes.codes_of``)."""


class Packing:
    """The utilization of all HyperNodes in one session, which follows the placements of the session: the weighted mean
    over requested resources of (used + requested) / allocatable; 0 if one of the resources does not fit."""

    def __init__(self, nodes: Nodes, hyper_nodes: HyperNodes, weights: Mapping[int, float]) -> None:
        """``weights``: index of a resource -> its weight."""
        self._nodes = nodes
        self._dims: Rows = np.array(list(weights), dtype=np.intp)
        self._weights = np.array(list(weights.values()))
        self._indices = [np.array([hn.index for hn in containing], dtype=np.intp) for containing in hyper_nodes.by_node]
        self._allocatable: Column = sums(nodes.allocatable[self._dims], hyper_nodes.ordered)
        """Shape (dims, HyperNodes)."""
        self._at_nodes = self._current(np.arange(len(nodes)))
        """Shape (dims, nodes): the amounts that tasks use, including pipelined tasks."""
        self._used: Column = sums(self._at_nodes, hyper_nodes.ordered)
        """Shape (dims, HyperNodes)."""
        self._changed_rows = ChangedRows(nodes)

    def scores(self, request: Vector) -> Column:
        """The utilization of each HyperNode, by index, with the request added; from 0 to 1."""
        self._follow()
        requested = request[self._dims]
        counts = np.flatnonzero(requested >= SMALLEST)
        total = self._weights[counts].sum()
        allocatable = self._allocatable[counts]
        if total <= 0:
            return np.zeros(allocatable.shape[1])
        used = self._used[counts] + requested[counts, np.newaxis]
        utilization = np.divide(used, allocatable, out=np.zeros_like(used), where=allocatable > 0)
        scores: Column = self._weights[counts] @ utilization / total
        scores[(used > allocatable).any(axis=0)] = 0.0
        return scores

    def place(self, row: int, request: Vector) -> None:
        """Counts a request as used on a node, until the negative request is placed there."""
        self._used[:, self._indices[row]] += request[self._dims][:, np.newaxis]

    def _current(self, rows: Rows) -> Column:
        at = np.ix_(self._dims, rows)
        current: Column = self._nodes.used[at] + self._nodes.pipelined[at]
        return current

    def _follow(self) -> None:
        changed = self._changed_rows.take()
        if not changed:
            return
        rows = np.unique(np.array(changed, dtype=np.intp))
        current = self._current(rows)
        indices = [self._indices[row] for row in rows.tolist()]
        repeated = np.repeat(current - self._at_nodes[:, rows], [len(one) for one in indices], axis=1)
        np.add.at(self._used.T, np.concatenate(indices), repeated.T)
        self._at_nodes[:, rows] = current


class Closeness:
    """The closeness of two HyperNodes: 1 for the same HyperNode, and lower for a higher tier of their lowest common
    ancestor."""

    def __init__(self, tree: HyperNodes) -> None:
        self._tree = tree
        self._columns: dict[int, Column] = {}

    def to(self, hyper_node: HyperNode) -> Column:
        """The closeness of each HyperNode, by index, to one. The last entry, for nodes in no HyperNode, is 0."""
        column = self._columns.get(hyper_node.index)
        if column is None:
            column = self._columns[hyper_node.index] = np.zeros(len(self._tree.ordered) + 1)
            low, high = self._tree.tiers[0], self._tree.tiers[-1]
            for ancestor in hyper_node.path_to_root[::-1]:  # the lowest ancestor comes last and wins
                closeness = (high - ancestor.tier) / (high - low) if high > low else FULL
                for hn in HyperNodes.subtree(ancestor):
                    column[hn.index] = closeness
            column[hyper_node.index] = FULL
        return column


class ClosenessScore:
    """The score for tasks of a sub-job with a network topology; 0 on all nodes until the sub-job has a placed task."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(
        self, session: PluginSession, placements: SubJobPlacements, closeness: Closeness, scale: float
    ) -> None:
        self._session = session
        self._placements = placements
        self._closeness = closeness
        self._scale = scale
        self._leaves = session.hyper_nodes.leaf_codes

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        return self.of_groups(rows, np.ones(len(rows), dtype=np.int64))

    def traits(self, rows: Rows) -> Sequence[Column]:
        return [self._leaves[rows].astype(np.float64)]

    def place(self, row: int, number: int) -> None:
        placement = self._placement()
        if placement is not None:
            placement.place(row, number)

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        placement = self._placement()
        hyper_node = placement.hyper_node if placement is not None else None
        if placement is None or hyper_node is None:
            return np.zeros(len(rows))
        leaves = self._leaves[rows]
        scores = self._closeness.to(hyper_node)[leaves]
        best = scores == scores.max()
        if sizes[best].sum() > 1 and self._session.placing is not None:
            share = 1.0 / len(self._session.placing.tasks)
            scores[best] += [placement.leaves[leaf] * share if leaf >= 0 else 0.0 for leaf in leaves[best].tolist()]
        scores *= self._scale
        return scores

    def _placement(self) -> SubJobPlacement | None:
        sub_job = self._session.placing
        return None if sub_job is None or sub_job.topology is None else self._placements.of(sub_job)


class PackingScore:
    """The score for tasks of a class without a network topology: the weighted utilization of the node's HyperNodes,
    with higher weights for lower tiers."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(self, session: PluginSession, tiers: Tiers, packing: Packing, cls: TaskClass, scale: float) -> None:
        self._session = session
        self._tiers = tiers
        self._packing = packing
        self._request = cls.request
        self._scale = scale

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        return self.of_groups(rows, np.ones(len(rows), dtype=np.int64))

    def traits(self, rows: Rows) -> Sequence[Column]:
        return [codes[rows].astype(np.float64) for _, codes in self._tiers.values()]

    def place(self, row: int, number: int) -> None:
        self._packing.place(row, self._request * number)

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        total: Column = np.zeros(len(rows))
        sub_job = self._session.placing
        if sub_job is not None and sub_job.topology is not None:
            return total
        utilization = np.append(self._packing.scores(self._request), FULL)
        for weight, codes in self._tiers.values():
            total += weight * utilization[codes[rows]]
        total *= self._scale
        return total
