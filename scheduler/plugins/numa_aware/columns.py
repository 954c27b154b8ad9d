"""Columns of the cpus that Pods of one class would get on each node, and the filter and score that use them."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Mask, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.numa_aware.cpus import Cpus

FULL: Final = 100


class CpuPlacement(msgspec.Struct, frozen=True):
    """The cpus that a Pod would get on one node."""

    cpus: Cpus
    numa_nodes: int
    """The number of NUMA nodes of the cpus."""
    rejected: str = ""
    """The container that the policy of the node rejects, or ""."""


NO_ASSIGNMENT: Final = CpuPlacement(frozenset(), 0)


class PlacementColumns:
    """The placements of a task of one class on all nodes. Computed again for nodes that changed."""

    def __init__(
        self, number: int, rows: Iterable[int], placement: Callable[[int], CpuPlacement], log: list[int]
    ) -> None:
        """``number``: the number of nodes. ``rows``: the nodes with a Numatopology. ``log``: the rows that changed; the
        ledger appends to it."""
        self._placement = placement
        self._log = log
        self._seen = len(log)
        self._numa_nodes = np.zeros(number, dtype=np.int64)
        self.rejected: dict[int, str] = {}
        """Row -> the container that the node rejects, or ""."""
        self._admitted = np.ones(number, dtype=bool)
        self._compute(rows)

    def admitted(self) -> Mask:
        """Whether each node admits the task, shape (nodes,)."""
        self._sync()
        return self._admitted

    def numa_nodes(self) -> NDArray[np.int64]:
        """The number of NUMA nodes of the task's cpus on each node, shape (nodes,)."""
        self._sync()
        return self._numa_nodes

    def _sync(self) -> None:
        changed = dict.fromkeys(self._log[self._seen :])
        self._seen = len(self._log)
        self._compute(changed)

    def _compute(self, rows: Iterable[int]) -> None:
        for row in rows:
            placement = self._placement(row)
            self._numa_nodes[row] = placement.numa_nodes
            self._admitted[row] = not placement.rejected
            self.rejected[row] = placement.rejected


class AdmissionFilter(msgspec.Struct, eq=False):
    """Rejects nodes whose kubelet would not admit the Pod. Tasks are placed one by one, because the cpus of one task
    change the result for the next."""

    excluded: Mask
    """Shape (nodes,): the nodes that another filter rejects; this filter ignores them."""
    placements: PlacementColumns
    scope = Scope.CLUSTER
    unresolvable = True

    def room(self, rows: Rows) -> Counts:
        passes = self.placements.admitted()[rows] | self.excluded[rows]
        return np.where(passes, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        names = [self.placements.rejected[row] for row in rows.tolist()]
        return [(f"container {name} cannot be assigned by numa", names.count(name)) for name in dict.fromkeys(names)]


class NumaScore(msgspec.Struct, eq=False):
    """Prefers nodes on which the cpus are on fewer NUMA nodes: 100 - 100 x NUMA nodes / the maximum among
    candidates."""

    placements: PlacementColumns
    weight: int
    scope = Scope.CLUSTER

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        numbers = self.placements.numa_nodes()[rows]
        maximum = int(numbers.max(initial=0))
        column: Column = (FULL - FULL * numbers // (maximum or 1)).astype(np.float64) * self.weight
        return column
