"""Which volume each unbound claim of a Pod would get on each node.

As Kubernetes does it: the claims are looked at from the smallest to the largest, each takes the smallest volume that is
good for it, that the node reaches and that none before it has taken; a claim without one is provisioned for, where its
class can. A plan is for all Pods whose claims ask for the same. It is computed anew, for all nodes at once, when a
volume was taken or given back.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Codes, Rows
from scheduler.api.storage import PersistentVolume
from scheduler.plugins.predicates.volumes.claims import Wanted
from scheduler.plugins.predicates.volumes.pool import Pool
from scheduler.plugins.predicates.volumes.reach import Reach

ReachOf = Callable[[PersistentVolume], Reach]

Choice = NDArray[np.int64]
"""Shape (claims, nodes): the rank of the volume that a claim gets, or NONE."""
NONE = 2**62
FEW = 4
"""Volumes that no more nodes reach than this (local disks) are looked at one by one; others by their topology."""


class _Wide:
    """Volumes with one reach, the smallest first."""

    def __init__(self, reach: Reach, ranks: list[int]) -> None:
        self.rows = reach.rows
        self.ranks = np.array(ranks, dtype=np.int64)


class _Candidates:
    """The volumes that are good for one claim, by where they can be reached."""

    def __init__(self, pool: Pool, ranks: Sequence[int], reach_of: ReachOf) -> None:
        by_reach: dict[int, tuple[Reach, list[int]]] = {}
        narrow: list[tuple[int, Reach]] = []
        for rank in ranks:
            where = reach_of(pool.volumes[rank])
            if len(where.rows) <= FEW:
                narrow.append((rank, where))
            else:
                by_reach.setdefault(id(where), (where, []))[1].append(rank)
        self._pool = pool
        self._wide = [_Wide(where, alike) for where, alike in by_reach.values()]
        narrow.reverse()  # of what is written to one place the last remains: the smallest
        counts = [len(where.rows) for _, where in narrow]
        self._ranks = np.repeat(np.array([rank for rank, _ in narrow], dtype=np.int64), counts)
        self._rows: Rows = np.concatenate([where.rows for _, where in narrow]) if narrow else np.empty(0, dtype=np.intp)

    def best(self, nodes: int, before: Choice) -> Choice:
        """The lowest rank for each node that is not taken and not among those chosen ``before`` for it."""
        best = np.full(nodes, NONE, dtype=np.int64)
        taken = self._pool.taken
        if len(self._rows):
            keep = ~taken[self._ranks]
            for chosen in before:
                keep &= chosen[self._rows] != self._ranks
            best[self._rows[keep]] = self._ranks[keep]
        for wide in self._wide:
            free = wide.ranks[~taken[wide.ranks]][: len(before) + 1]
            here = np.full(len(wide.rows), NONE, dtype=np.int64)
            for rank in free[::-1]:
                unchosen = np.ones(len(wide.rows), dtype=bool)
                for chosen in before:
                    unchosen &= chosen[wide.rows] != rank
                here[unchosen] = rank
            best[wide.rows] = np.minimum(best[wide.rows], here)
        return best


class Plan:
    """What the claims of a Pod get, for one sequence of what they ask for (the smallest first)."""

    def __init__(
        self,
        pool: Pool,
        wanted: Sequence[Wanted],
        reach_of: ReachOf,
        provision: Callable[[Wanted], Codes],
        nodes: int,
    ) -> None:
        """``provision``: per node why a volume cannot be made there, or -1."""
        self._pool = pool
        self._wanted = wanted
        self._candidates = [_Candidates(pool, pool.fitting(one), reach_of) for one in wanted]
        self._provision = provision
        self._nodes = nodes
        self.recompute()

    def recompute(self) -> None:
        """After volumes were taken or given back."""
        choice = np.full((len(self._wanted), self._nodes), NONE, dtype=np.int64)
        codes: Codes = np.full(self._nodes, -1, dtype=np.int32)
        for number, candidates in enumerate(self._candidates):
            choice[number] = candidates.best(self._nodes, choice[:number])
        for number, wanted in enumerate(self._wanted):
            lacking = (choice[number] == NONE) & (codes < 0)
            if lacking.any():
                codes[lacking] = self._provision(wanted)[lacking]
        self.choice = choice
        self.codes = codes
        """Shape (nodes,): why the Pod cannot be there, or -1."""

    def sizes(self, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """For each claim and node given, of shape (claims, rows): whether it gets a volume, and of how many bytes."""
        there = self.choice[:, rows] != NONE
        sizes = np.append(self._pool.sizes, 0.0)
        return there, sizes[np.where(there, self.choice[:, rows], len(sizes) - 1)]

    def at(self, row: int) -> list[str]:
        """The volume of each claim on a node, or "" where one is made for it."""
        ranks = self.choice[:, row].tolist()
        return ["" if rank == NONE else self._pool.volumes[rank].metadata.name for rank in ranks]
