"""The tree of HyperNodes: which nodes are close to each other in the network, and how close.

A HyperNode of a low tier contains the nodes behind one switch; a HyperNode of a higher tier contains HyperNodes of
lower tiers. The root is a virtual HyperNode with all nodes, so that any two HyperNodes have a common ancestor. A tree
is immutable and shared by snapshots. Nodes are rows of the session's table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from scheduler.api.node import Codes, Column, Rows

CLUSTER_TOP: Final = "<cluster-top-hypernode>"
"""Name of the virtual root (as in Volcano)."""


@dataclass(slots=True, eq=False)
class HyperNode:
    """A HyperNode in the tree. Compared by identity."""

    name: str
    tier: int
    rows: Rows
    """Rows of all nodes below it, ascending."""
    parent: "HyperNode | None" = None
    children: "tuple[HyperNode, ...]" = ()
    """The HyperNodes within it, sorted by name."""
    index: int = 0
    """Position in ``HyperNodes.ordered``."""

    @property
    def path_to_root(self) -> "list[HyperNode]":
        """The HyperNode and its ancestors, up to the root."""
        result = [self]
        while result[-1].parent is not None:
            result.append(result[-1].parent)
        return result

    def holds(self, rows: Rows) -> bool:
        """Whether the HyperNode contains all these rows."""
        positions = np.searchsorted(self.rows, rows)
        return bool((positions < len(self.rows)).all() and (self.rows[positions] == rows).all())


class HyperNodeSeed(msgspec.Struct, frozen=True):
    """A HyperNode with resolved members, from which a tree is built."""

    name: str
    tier: int
    rows: Rows
    """Rows of its member nodes, ascending."""
    parent: str
    """Name of its parent, or ""."""


class HyperNodes:
    """All HyperNodes of a cluster."""

    def __init__(
        self, nodes: int, seeds: Iterable[HyperNodeSeed] = (), tier_names: Mapping[str, int] | None = None
    ) -> None:
        """``nodes``: number of nodes. Parents must be among the seeds and have no cycles. ``tier_names``: tierName ->
        tier."""
        listed = sorted(seeds, key=lambda seed: seed.name)
        self.top = HyperNode(CLUSTER_TOP, max([0, *(seed.tier for seed in listed)]) + 1, np.arange(nodes))
        self.tier_names: Mapping[str, int] = tier_names or {}
        self._by_name = {seed.name: HyperNode(seed.name, seed.tier, seed.rows) for seed in listed}
        self._by_name[CLUSTER_TOP] = self.top
        children: dict[str, list[HyperNode]] = {}
        for seed in listed:
            child = self._by_name[seed.name]
            child.parent = self._by_name[seed.parent or CLUSTER_TOP]
            children.setdefault(child.parent.name, []).append(child)
        for name, members in children.items():
            self._by_name[name].children = tuple(members)
        for hn in reversed(self.subtree(self.top)):
            if hn.children and hn is not self.top:
                hn.rows = np.unique(np.concatenate([hn.rows, *(child.rows for child in hn.children)]))
        self.ordered = sorted(self._by_name.values(), key=lambda hn: (hn.tier, hn.name))
        """All HyperNodes with the root, by tier, then name."""
        for index, hn in enumerate(self.ordered):
            hn.index = index

    def get(self, name: str) -> HyperNode | None:
        return self._by_name.get(name)

    @cached_property
    def tiers(self) -> list[int]:
        """All tiers with that of the root, ascending."""
        return sorted({hn.tier for hn in self._by_name.values()})

    @staticmethod
    def common(one: HyperNode, other: HyperNode) -> HyperNode:
        """The lowest common ancestor of two HyperNodes, which may be one of them."""
        if one is other:
            return one
        above = {id(hn) for hn in one.path_to_root}
        return next(hn for hn in other.path_to_root if id(hn) in above)

    @staticmethod
    def subtree(root: HyperNode) -> list[HyperNode]:
        """The HyperNode and its descendants."""
        result = [root]
        for hn in result:
            result.extend(hn.children)
        return result

    def covering(self, rows: Rows) -> HyperNode:
        """The lowest HyperNode that contains all these rows (at least one); the first by name of several."""
        distinct = np.unique(rows)
        return next(hn for hn in self.by_node[int(distinct[0])] if hn.holds(distinct))

    @cached_property
    def by_node(self) -> list[list[HyperNode]]:
        """The HyperNodes that contain each node, by row, in the order of ``ordered``."""
        result: list[list[HyperNode]] = [[] for _ in self.top.rows]
        for hn in self.ordered:
            for row in hn.rows.tolist():
                result[row].append(hn)
        return result

    @cached_property
    def leaf_codes(self) -> Codes:
        """Shape (nodes,): the index of the lowest HyperNode that contains each node, the first by name of several; -1
        for nodes that only the root contains."""
        return self._codes(self.ordered)

    def codes_of(self, tier: int) -> Codes:
        """Shape (nodes,): the index of the HyperNode of this tier that contains each node, the first by name of
        several; -1 without one."""
        return self._codes([hn for hn in self.ordered if hn.tier == tier])

    def _codes(self, hyper_nodes: Sequence[HyperNode]) -> Codes:
        codes = np.full(len(self.top.rows), -1, dtype=np.int32)
        for hn in reversed(hyper_nodes):
            if hn is not self.top:
                codes[hn.rows] = hn.index
        return codes


def sums(column: Column, hyper_nodes: Sequence[HyperNode]) -> Column:
    """A column of shape (resources, nodes), summed over the nodes of each HyperNode: shape (resources, HyperNodes)."""
    result: Column = np.zeros((len(column), len(hyper_nodes)))
    filled = [i for i, hn in enumerate(hyper_nodes) if len(hn.rows)]
    if filled:
        rows = [hyper_nodes[i].rows for i in filled]
        starts = np.cumsum([0, *map(len, rows[:-1])])
        result[:, filled] = np.add.reduceat(column[:, np.concatenate(rows)], starts, axis=1)
    return result
