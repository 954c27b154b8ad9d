"""How good nodes are for a task, by the HyperNodes they are in.

A task of a job that asks for a network topology goes close to the tasks placed before it. Any other task fills
HyperNodes that are in use already, and rather stays outside of HyperNodes altogether. Both know nodes apart by the
HyperNodes they are in, so equal tasks are placed in one run.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes
from scheduler.api.node import Codes, Column, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Scope
from scheduler.framework.session import Session
from scheduler.plugins.network_topology_aware.packing import Packing
from scheduler.plugins.network_topology_aware.whereabouts import Spread, Whereabouts

FULL = 1.0
Tiers = Mapping[int, tuple[float, Codes]]
"""Tier -> (what it counts, the HyperNode that each node is in, as by ``HyperNodes.codes_of``)."""


class Closeness:
    """What tiers say of two HyperNodes: 1 where they are one, less the higher the tier of what they have in common."""

    def __init__(self, tree: HyperNodes) -> None:
        self._tree = tree
        self._columns: dict[int, Column] = {}

    def to(self, hyper_node: HyperNode) -> Column:
        """How close each HyperNode, by index, is to one; the last entry, for nodes that are in none, is 0."""
        column = self._columns.get(hyper_node.index)
        if column is None:
            column = self._columns[hyper_node.index] = np.zeros(len(self._tree.ordered) + 1)
            low, high = self._tree.tiers[0], self._tree.tiers[-1]
            for around in hyper_node.lineage[::-1]:  # the closest last: it has the word
                closeness = (high - around.tier) / (high - low) if high > low else FULL
                for hn in HyperNodes.below(around):
                    column[hn.index] = closeness
            column[hyper_node.index] = FULL
        return column


class ClosenessScore:
    """For tasks of a sub-job that asks for a topology; 0 everywhere while it has nothing placed."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(self, session: Session, whereabouts: Whereabouts, closeness: Closeness, scale: float) -> None:
        self._session = session
        self._whereabouts = whereabouts
        self._closeness = closeness
        self._scale = scale
        self._leaves = session.hyper_nodes.leaf_codes

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        return self.of_groups(rows, np.ones(len(rows), dtype=np.int64))

    def traits(self, rows: Rows) -> Sequence[Column]:
        return [self._leaves[rows].astype(np.float64)]

    def place(self, row: int, number: int) -> None:
        spread = self._spread()
        if spread is not None:
            spread.place(row, number)

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        spread = self._spread()
        around = spread.hyper_node if spread is not None else None
        if spread is None or around is None:
            return np.zeros(len(rows))
        leaves = self._leaves[rows]
        scores = self._closeness.to(around)[leaves]
        best = scores == scores.max()
        if sizes[best].sum() > 1 and self._session.placing is not None:
            share = 1.0 / len(self._session.placing.tasks)
            scores[best] += [spread.leaves[leaf] * share if leaf >= 0 else 0.0 for leaf in leaves[best].tolist()]
        scores *= self._scale
        return scores

    def _spread(self) -> Spread | None:
        sub_job = self._session.placing
        return None if sub_job is None or sub_job.topology is None else self._whereabouts.of(sub_job)


class PackingScore:
    """For tasks of one class, unless their sub-job asks for a topology: per tier how full the HyperNode of the node
    would be, the low tiers counting more."""

    scope = Scope.CLUSTER
    moves = False

    def __init__(self, session: Session, tiers: Tiers, packing: Packing, cls: TaskClass, scale: float) -> None:
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
        fullness = np.append(self._packing.scores(self._request), FULL)
        for weight, codes in self._tiers.values():
            total += weight * fullness[codes[rows]]
        total *= self._scale
        return total
