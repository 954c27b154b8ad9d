"""What Pods of one class would get on every node, as columns, and what follows: who admits them, who does best."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.numa_aware.cpus import Cpus

FULL: Final = 100


@dataclass(frozen=True, slots=True)
class Placement:
    """What a Pod would get on one node."""

    cpus: Cpus
    numa_nodes: int
    """Number of NUMA nodes these are on."""
    refused: str = ""
    """The container that the policy of the node would refuse, or ""."""


NOTHING: Final = Placement(frozenset(), 0)


class PlacementColumns:
    """What a task of one class would get on every node; worked out anew where something changed."""

    def __init__(self, number: int, rows: Iterable[int], placement: Callable[[int], Placement], log: list[int]) -> None:
        """``rows``: of ``number`` nodes those with NUMA nodes that are known; ``log`` names those that changed."""
        self._placement = placement
        self._log = log
        self._seen = len(log)
        self._numa_nodes = np.zeros(number, dtype=np.int64)
        self._refused: dict[int, str] = {}
        self._admitted = np.ones(number, dtype=bool)
        self._look(rows)

    def admitted(self) -> NDArray[np.bool_]:
        """Shape (nodes,)."""
        self._sync()
        return self._admitted

    def numa_nodes(self) -> NDArray[np.int64]:
        """Shape (nodes,): on how many NUMA nodes the cpus would be."""
        self._sync()
        return self._numa_nodes

    def refused(self, row: int) -> str:
        """The container that the node refuses."""
        return self._refused[row]

    def _sync(self) -> None:
        fresh = dict.fromkeys(self._log[self._seen :])
        self._seen = len(self._log)
        self._look(fresh)

    def _look(self, rows: Iterable[int]) -> None:
        for row in rows:
            placement = self._placement(row)
            self._numa_nodes[row] = placement.numa_nodes
            self._admitted[row] = not placement.refused
            self._refused[row] = placement.refused


class AdmissionFilter:
    """Nodes whose kubelet would admit a Pod. Which cpus one takes bears on the next, so they are placed one by one."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, excluded: NDArray[np.bool_], placements: PlacementColumns) -> None:
        """``excluded``: nodes that are out of the question and not asked."""
        self._excluded = excluded
        self._placements = placements

    def room(self, rows: Rows) -> Counts:
        passes = self._placements.admitted()[rows] | self._excluded[rows]
        return np.where(passes, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        names = [self._placements.refused(row) for row in rows.tolist()]
        return [(f"container {name} cannot be assigned by numa", names.count(name)) for name in dict.fromkeys(names)]


class NumaScore:
    """The fewer NUMA nodes, the better: 100 less the part that they are of the most any candidate needs."""

    scope = Scope.CLUSTER

    def __init__(self, placements: PlacementColumns, weight: int) -> None:
        self._placements = placements
        self._weight = weight

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        numbers = self._placements.numa_nodes()[rows]
        most = int(numbers.max(initial=0))
        column: Column = (FULL - FULL * numbers // (most or 1)).astype(np.float64) * self._weight
        return column
