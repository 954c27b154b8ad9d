"""The candidate HyperNodes for a job or sub-job, in groups ordered by tier (Volcano's hyperNodeGradientFn).

A HyperNode is a candidate up to the highest allowed tier. For a job without placed tasks, it must also have the idle
resources that the job requests at least when the session opened. A job with placed tasks continues around
them: in the lowest HyperNode that contains them, then in its parent, up to the highest allowed tier (Volcano starts
again with all HyperNodes within that tier).
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes, sums
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.network_topology_aware.placements import SubJobPlacements


class Gradients:
    """The candidate HyperNodes of one session."""

    def __init__(self, session: Session, placements: SubJobPlacements, limit: int) -> None:
        """``limit``: the maximum number of candidates if tasks may be evicted."""
        self._session = session
        self._placements = placements
        self._limit = limit
        tree, nodes = session.hyper_nodes, session.nodes
        self._tiers = np.array([hn.tier for hn in tree.ordered])
        self._allocatable = sums(nodes.allocatable, tree.ordered)
        self._idle = [sums(nodes.idle, tree.ordered), sums(nodes.future_idle(), tree.ordered)]

    def of(self, target: Job | SubJob, within: HyperNode, evict: bool) -> list[list[HyperNode]]:
        """Returns the candidates within a HyperNode, grouped by tier, the lowest tier first (``Session.gradients``)."""
        if target.tier_limit is None:
            return [[within]]
        placed = self._placements.around(target)
        root = within if placed is None else _search_root(within, target.tier_limit, placed)
        if root is None:
            return []
        inside = np.ones(len(self._tiers), dtype=bool)
        if root.parent is not None:
            inside[:] = False
            inside[[hn.index for hn in HyperNodes.subtree(root)]] = True
        inside &= self._tiers <= target.tier_limit
        if placed is not None and not evict:
            ancestors = [[hn] for hn in placed.path_to_root if inside[hn.index]]
            if ancestors:
                return ancestors
        if placed is None:
            inside &= self._sufficient(target, evict)
        found = [self._session.hyper_nodes.ordered[index] for index in np.flatnonzero(inside).tolist()]
        gradients = [list(group) for _, group in groupby(found, key=lambda hn: hn.tier)]
        return _highest_first(gradients, self._limit, int(self._session.now)) if evict else gradients

    def _sufficient(self, target: Job | SubJob, evict: bool) -> Mask:
        """Whether each HyperNode, by index, has enough resources for the minimum request."""
        minimum = self._minimum(target)[:, np.newaxis]
        enough = np.zeros(len(self._allocatable[0]), dtype=bool)
        for available in (self._allocatable,) if evict else self._idle:
            enough |= (minimum < available + SMALLEST).all(axis=0)
        return enough

    def _minimum(self, target: Job | SubJob) -> Vector:
        """The minResources of a job, or the requests of all pending tasks of a sub-job."""
        if isinstance(target, Job):
            return self._session.dimensions.zeros() if target.min_resources is None else target.min_resources
        job = self._session.jobs[target.job]
        pending = job.of(TaskStatus.PENDING)
        if len(target.tasks) == job.size:
            return job.pending
        minimum: Vector = self._session.dimensions.zeros()
        for uid in target.tasks:
            task = pending.get(uid)
            if task is not None:
                minimum += task.cls.request
        return minimum


def _search_root(within: HyperNode, limit: int, placed: HyperNode) -> HyperNode | None:
    """The intersection of a HyperNode with the highest allowed ancestor of the placed tasks; None if they are
    disjoint."""
    highest: HyperNode | None = None
    for hn in placed.path_to_root:
        if hn.tier > limit:
            break
        highest = hn
    if highest is None:
        return None
    if within in highest.path_to_root:
        return highest
    return within if highest in within.path_to_root else None


def _highest_first(gradients: Sequence[list[HyperNode]], limit: int, turn: int) -> list[list[HyperNode]]:
    """Orders the groups by descending tier, with at most ``limit`` HyperNodes in total. If a tier has more, the
    selection rotates every second (Volcano's order is random)."""
    result = []
    for gradient in reversed(gradients):
        if limit <= 0:
            break
        first = turn % len(gradient) if len(gradient) > limit else 0
        result.append((gradient[first:] + gradient[:first])[:limit])
        limit -= len(gradient)
    return result
