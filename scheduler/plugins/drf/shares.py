"""Dominant shares, and hierarchical dominant resource fairness between queues, as in Volcano's drf.

The dominant share is the largest ratio of an amount to the cluster total of any resource (including ``pods``).

Annotations of a queue contain its path, ``root/eng/dev``, and the weight of each level, ``1/2/8``; jobs are the leaves.
The share of a level is that of the amounts of its children, each scaled down to the smallest share among the children
that can use more, so that a child with much of one resource does not count against its siblings. A job is saturated if
it holds all that it requests of a resource, or requests a resource that is exhausted in the cluster; a level is
saturated if all its children are. Queues are compared at the level where their paths differ: unsaturated ones come
first, then those with the smaller share per weight.

A level keeps the amounts of its children in arrays. A placement updates only the ancestors of the job.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cmp_to_key
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS
from scheduler.api.node import Column
from scheduler.api.queue import Queue
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.task import TaskStatus

TOLERANCE = 1e-6
"""Shares that differ by at most this count as equal."""


class Shares:
    """Dominant shares in one cluster. Resources that the cluster does not have are ignored."""

    def __init__(self, total: Vector) -> None:
        """``total``: the total of all nodes."""
        self.dims: NDArray[np.intp] = np.flatnonzero(total >= SMALLEST)
        self.total: Vector = total[self.dims]

    def of(self, amount: Vector) -> float:
        """Returns the dominant share of an amount of all resources, 0 to 1."""
        return self.of_part(amount[self.dims])

    def of_part(self, amount: Vector) -> float:
        """Returns the dominant share of an amount that has only ``dims``."""
        return float((amount / self.total).max()) if len(self.dims) else 0.0

    def of_each(self, amounts: Column) -> list[float]:
        """Returns the dominant shares of ``amounts``, shape (amounts, resources)."""
        if not len(self.dims):
            return [0.0] * len(amounts)
        shares: list[float] = (amounts[:, self.dims] / self.total).max(axis=1).tolist()
        return shares


class JobShares:
    """Namespace, name and dominant share of jobs at the time of construction; computed on iteration."""

    def __init__(self, shares: Shares, jobs: Iterable[Job]) -> None:
        self._shares = shares
        self._held = [(job.namespace, job.name, job.allocated, job.pipelined) for job in jobs]

    def __iter__(self) -> Iterator[tuple[str, str, float]]:
        if not self._held:
            return
        namespaces, names, allocated, pipelined = zip(*self._held, strict=True)
        amounts = (np.concatenate(allocated) + np.concatenate(pipelined)).reshape(len(names), -1)
        yield from zip(namespaces, names, self._shares.of_each(amounts), strict=True)


def at_least(share: float, other: float) -> bool:
    """Whether a share is greater than another, or equal within the tolerance."""
    return share > other or abs(share - other) <= TOLERANCE


ReportProblem = Callable[[Queue, str, str], None]
"""Called with a queue, its invalid annotation and the problem."""
PathShares = tuple[tuple[bool, float], ...]
"""(saturated, share per weight) at each level of a queue's path."""
MAX_DEPTH: Final = 64
"""Most levels of a path."""
_NOT_SUMMED = (TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.UNKNOWN)
"""Statuses of tasks that count as requested, although no sum of the job includes them."""


def _compare(one: PathShares, other: PathShares) -> int:
    """Returns a negative number if ``one`` comes first. Only levels that both have are compared, as in Volcano: at
    equal shares a queue is neither before nor after the queues deeper in the other branch."""
    one, other = one[: len(other)], other[: len(one)]
    return (one > other) - (one < other)


_comparable = cmp_to_key(_compare)


class Level:
    """A node of the tree: one name on the paths of queues, with its child levels and jobs."""

    def __init__(self, parent: "Level | None" = None, weight: float = 1.0) -> None:
        self.parent = parent
        self.weight = weight
        self.position = len(parent.levels) if parent is not None else 0
        """Row among the children of the parent."""
        self.levels: dict[str, Level] = {}
        self.jobs: list[Job] = []
        self.amounts: Column
        """Shape (children, resources): the scaled amounts of child levels, then those of jobs."""
        self.requested: Column
        """Shape (jobs, resources): the total request of each job."""
        self.shares: Column = np.zeros(0)
        self.saturated: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        """``shares`` and ``saturated`` have one entry per child with jobs below it."""

    def descendants(self) -> Iterator["Level"]:
        """Yields all descendant levels, the lowest first, and then the level itself."""
        for level in self.levels.values():
            yield from level.descendants()
        yield self


class Hierarchy:
    """The tree of one session."""

    def __init__(self, shares: Shares, queues: Mapping[str, Queue], jobs: Iterable[Job], report: ReportProblem) -> None:
        self._shares = shares
        self._root = Level()
        self._paths: dict[str, list[Level]] = {}
        """Queue -> the levels of its path, without the root."""
        self._rows: dict[str, tuple[Level, int]] = {}
        """Job -> its level, and its row there."""
        self._allocated = np.zeros(len(shares.dims))
        self._report = report
        for job in sorted((job for job in jobs if job.queue in queues), key=lambda job: job.key):
            level = self._path(queues[job.queue])[-1]
            level.jobs.append(job)
        for level in self._root.descendants():
            self._fill(level)
        self._demanding = self._allocated < shares.total
        self._update_all()

    def key(self, queue: Queue) -> Any:
        """Returns a sort key: the queue with the smaller key comes first."""
        answer = []
        parent = self._root
        for level in self._path(queue):
            if level.position < len(parent.shares):
                share, saturated = float(parent.shares[level.position]), bool(parent.saturated[level.position])
            else:  # the level has no jobs
                share, saturated = 0.0, True
            answer.append((saturated, share / level.weight))
            parent = level
        return _comparable(tuple(answer))

    def add(self, job: Job, amount: Vector) -> None:
        """Adds an amount to what a job holds (negative: subtracts)."""
        place = self._rows.get(job.key)
        if place is None:
            return
        level, row = place
        part = amount[self._shares.dims]
        self._allocated += part
        level.amounts[row] += part
        demanding = self._allocated < self._shares.total
        if (demanding == self._demanding).all():
            self._update_jobs(level)
            self._update_ancestors(level)
        else:
            self._demanding = demanding
            self._update_all()

    @contextmanager
    def assuming(self, job: Job, amount: Vector) -> Iterator[None]:
        """Adds an amount to a job within the context. Amounts are integral, so leaving it restores the tree exactly."""
        self.add(job, amount)
        try:
            yield
        finally:
            self.add(job, -amount)

    # --- the tree ---
    def _path(self, queue: Queue) -> list[Level]:
        """Returns the levels of a queue's path, and creates missing ones. A queue without a path is a child of the
        root."""
        known = self._paths.get(queue.name)
        if known is not None:
            return known
        path = queue.annotations.get(HIERARCHY, "").split("/")[1:] or [queue.name]
        if len(path) > MAX_DEPTH:
            self._report(queue, HIERARCHY, f"{len(path)} levels below the root, at most {MAX_DEPTH} are followed")
            path = [queue.name]
        weights = queue.annotations.get(HIERARCHY_WEIGHTS, "").split("/")[1:]
        if len(weights) not in (0, len(path)):
            self._report(queue, HIERARCHY_WEIGHTS, f"{len(weights)} weights below the root for {len(path)} levels")
        levels, level = [], self._root
        for depth, name in enumerate(path):
            lower = level.levels.get(name)
            if lower is None:
                lower = Level(level, self._weight(queue, weights[depth]) if depth < len(weights) else 1.0)
                level.levels[name] = lower
            level = lower
            levels.append(level)
        self._paths[queue.name] = levels
        return levels

    def _weight(self, queue: Queue, text: str) -> float:
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            self._report(queue, HIERARCHY_WEIGHTS, f"{text[:64]!r} is not a number")
            return 1.0
        return max(weight, 1.0)

    def _fill(self, level: Level) -> None:
        dims = self._shares.dims
        first = len(level.levels)
        number = first + len(level.jobs)
        level.amounts = np.zeros((number, len(dims)))
        level.requested = np.zeros((len(level.jobs), len(dims)))
        level.shares = np.zeros(number)
        level.saturated = np.zeros(number, dtype=bool)
        for row, job in enumerate(level.jobs):
            held = (job.allocated + job.pipelined)[dims]
            level.amounts[first + row] = held
            level.requested[row] = held + job.pending[dims] + _terminating_requests(job)[dims]
            self._allocated += held
            self._rows[job.key] = level, first + row

    # --- shares ---
    def _update_all(self) -> None:
        for level in self._root.descendants():
            self._update_jobs(level)
            self._update_parent(level)

    def _update_ancestors(self, level: Level) -> None:
        while level.parent is not None:
            self._update_parent(level)
            level = level.parent

    def _update_jobs(self, level: Level) -> None:
        """Updates ``shares`` and ``saturated`` of the jobs of a level."""
        first = len(level.levels)
        held, requested = level.amounts[first:], level.requested
        if not len(held):
            return
        has = (held >= SMALLEST) & (requested != 0)
        level.saturated[first:] = (has & ((held >= requested) | ~self._demanding)).any(axis=1)
        level.shares[first:] = (held / self._shares.total).max(axis=1) if len(self._shares.dims) else 0.0

    def _update_parent(self, level: Level) -> None:
        """Updates the row of the level in its parent."""
        parent = level.parent
        if parent is None:
            return
        counted = level.shares != 0
        growing = counted & ~level.saturated
        least = min(1.0, float(level.shares[growing].min())) if growing.any() else 1.0
        scale = np.where(counted, 1.0, 0.0)
        scale[growing] = least / level.shares[growing]
        held = scale @ level.amounts
        parent.amounts[level.position] = held
        parent.shares[level.position] = self._shares.of_part(held)
        parent.saturated[level.position] = level.saturated.all()


def _terminating_requests(job: Job) -> Vector:
    requested: Vector = np.zeros_like(job.pending)
    for status in _NOT_SUMMED:
        for task in job.of(status).values():
            requested += task.cls.request
    return requested
