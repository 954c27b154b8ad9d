"""Which HyperNodes may take a job or sub-job, in which order: the closest first (Volcano's hyperNodeGradientFn).

A HyperNode is out of the question above the highest tier allowed, and where the job has nothing placed yet, if it has
less left than the job asks for at least. What is left is taken as it was when the session opened. A job that has tasks
placed goes on around them: in the lowest HyperNode that holds them, then in the one around that, up to the highest tier
allowed (Volcano begins again with all that are in that).
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes, sums
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.subjob import SubJob
from scheduler.api.task import TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.network_topology_aware.whereabouts import Whereabouts


class Gradients:
    """For one session."""

    def __init__(self, session: Session, whereabouts: Whereabouts, most: int) -> None:
        """``most``: how many HyperNodes are named at most where tasks may be evicted."""
        self._session = session
        self._whereabouts = whereabouts
        self._most = most
        tree, nodes = session.hyper_nodes, session.nodes
        self._tiers = np.array([hn.tier for hn in tree.ordered])
        self._allocatable = sums(nodes.allocatable, tree.ordered)
        self._left = [sums(nodes.idle, tree.ordered), sums(nodes.future_idle(), tree.ordered)]

    def of(self, target: Job | SubJob, within: HyperNode, evict: bool) -> list[list[HyperNode]]:
        """See ``Session.gradients``."""
        if target.tier_limit is None:
            return [[within]]
        placed = self._whereabouts.around(target)
        root = within if placed is None else _search_root(within, target.tier_limit, placed)
        if root is None:
            return []
        inside = np.ones(len(self._tiers), dtype=bool)
        if root.parent is not None:
            inside[:] = False
            inside[[hn.index for hn in HyperNodes.below(root)]] = True
        inside &= self._tiers <= target.tier_limit
        if placed is not None and not evict:
            around = [[hn] for hn in placed.lineage if inside[hn.index]]
            if around:
                return around
        if placed is None:
            inside &= self._roomy(target, evict)
        found = [self._session.hyper_nodes.ordered[index] for index in np.flatnonzero(inside).tolist()]
        gradients = [list(group) for _, group in groupby(found, key=lambda hn: hn.tier)]
        return _widest(gradients, self._most, int(self._session.now)) if evict else gradients

    def _roomy(self, target: Job | SubJob, evict: bool) -> Mask:
        """Which HyperNodes, by index, have enough for what is asked at least."""
        need = self._need(target)[:, np.newaxis]
        enough = np.zeros(len(self._allocatable[0]), dtype=bool)
        for left in (self._allocatable,) if evict else self._left:
            enough |= (need < left + SMALLEST).all(axis=0)
        return enough

    def _need(self, target: Job | SubJob) -> Vector:
        """minResources of a job; of a sub-job, what all its tasks ask for that wait."""
        if isinstance(target, Job):
            return self._session.dimensions.zeros() if target.min_resources is None else target.min_resources
        job = self._session.jobs[target.job]
        pending = job.of(TaskStatus.PENDING)
        if len(target.tasks) == job.size:
            return job.pending
        need: Vector = self._session.dimensions.zeros()
        for uid in target.tasks:
            task = pending.get(uid)
            if task is not None:
                need += task.cls.request
        return need


def _search_root(within: HyperNode, limit: int, placed: HyperNode) -> HyperNode | None:
    """What a HyperNode and the widest one allowed around the tasks placed have in common; None: nothing."""
    widest: HyperNode | None = None
    for hn in placed.lineage:
        if hn.tier > limit:
            break
        widest = hn
    if widest is None:
        return None
    if within in widest.lineage:
        return widest
    return within if widest in within.lineage else None


def _widest(gradients: Sequence[list[HyperNode]], most: int, turn: int) -> list[list[HyperNode]]:
    """The wide ones first, ``most`` HyperNodes in all. Where a tier has more, others have their turn the next second
    (Volcano's come in random order)."""
    result = []
    for gradient in reversed(gradients):
        if most <= 0:
            break
        first = turn % len(gradient) if len(gradient) > most else 0
        result.append((gradient[first:] + gradient[:first])[:most])
        most -= len(gradient)
    return result
