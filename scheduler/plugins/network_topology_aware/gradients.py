"""The HyperNodes in which sub-jobs have placed tasks, and the candidate HyperNodes for a job or sub-job, in groups
ordered by tier (Volcano's hyperNodeGradientFn).

A HyperNode is a candidate up to the highest allowed tier. For a job without placed tasks, it must also have had, when
the session opened, the idle resources that the job requests at least. A job with placed tasks continues around them: in
the lowest HyperNode that contains them, then in its parent, up to the highest allowed tier (Volcano starts again with
all HyperNodes within that tier).
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes, sums
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskStatus
from scheduler.framework.plugin_session import PluginSession


class SubJobPlacement:
    """The nodes that have placed tasks of one sub-job."""

    def __init__(self, hyper_nodes: HyperNodes) -> None:
        self._hyper_nodes = hyper_nodes
        self.rows: Counter[int] = Counter()
        """Row -> number of tasks."""
        self.leaves: Counter[int] = Counter()
        """Code of a leaf HyperNode (``HyperNodes.leaf_codes``) -> number of tasks."""
        self._lowest: HyperNode | None = None
        self._stale = False

    def place(self, row: int, number: int) -> None:
        """Adds ``number`` tasks (may be negative) on a node."""
        self.rows[row] += number
        self.leaves[int(self._hyper_nodes.leaf_codes[row])] += number
        if not self.rows[row]:
            del self.rows[row]
            self._stale = True
        elif self._lowest is None:
            self._stale = True
        elif not self._stale and self.rows[row] == number:
            one = np.array([row])
            self._lowest = next(hn for hn in self._lowest.path_to_root if hn.holds(one))

    @property
    def hyper_node(self) -> HyperNode | None:
        """The lowest HyperNode that contains all the tasks; None without tasks."""
        if self._stale:
            self._lowest = self._hyper_nodes.covering(np.array(list(self.rows))) if self.rows else None
            self._stale = False
        return self._lowest

    def within(self, hyper_node: HyperNode) -> int:
        """The number of the tasks within a HyperNode."""
        if not self.rows:
            return 0
        inside = np.isin(np.array(list(self.rows)), hyper_node.rows)
        return int(np.array(list(self.rows.values()))[inside].sum())


class SubJobPlacements:
    """The placements of all sub-jobs of a session, computed on first use."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._placements: dict[str, SubJobPlacement] = {}
        session.add_handlers(partial(self._move, 1), partial(self._move, -1))

    def of(self, sub_job: SubJob) -> SubJobPlacement:
        placement = self._placements.get(sub_job.key)
        if placement is None:
            placement = self._placements[sub_job.key] = SubJobPlacement(self._session.hyper_nodes)
            job = self._session.jobs[sub_job.job]
            for status in (*ALLOCATED_STATUSES, TaskStatus.PIPELINED):
                for task in job.of(status).values():
                    if task.uid in sub_job.tasks and (task.uid in job.placed or task.node in self._session.nodes.index):
                        placement.place(self._session.row_of(job, task), 1)
        return placement

    def around(self, target: Job | SubJob) -> HyperNode | None:
        """The lowest HyperNode that contains all placed tasks of a sub-job, or of all sub-jobs of a job."""
        if isinstance(target, SubJob):
            return self.of(target).hyper_node
        result: HyperNode | None = None
        for sub_job in target.sub_jobs.values():
            found = self.of(sub_job).hyper_node
            if found is not None:
                result = found if result is None else HyperNodes.common(result, found)
        return result

    def _move(self, number: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        if job.sub_jobs:
            for task, row in zip(tasks, rows, strict=True):
                placement = self._placements.get(job.sub_job_of[task.uid].key)
                if placement is not None:
                    placement.place(row, number)


class Gradients:
    """The candidate HyperNodes of one session."""

    def __init__(self, session: PluginSession, placements: SubJobPlacements, limit: int) -> None:
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
