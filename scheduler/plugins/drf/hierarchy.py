"""Fairness between queues that form a tree (hierarchical dominant resource fairness, as Volcano's drf has it).

A queue's annotations name its place, ``root/eng/dev``, and the weight of each level, ``1/2/8``; jobs are the leaves. A
level's share is that of what its children hold, each scaled down to the least share among those that could use more, so
that a child with much of one resource does not count against its siblings. A job is saturated when it has all it asks
for of some resource, or asks for one of which the cluster has no more; a level is when all below it are. Of two
queues, the one comes first that is not saturated, or has less share per weight, where their paths part.

A level keeps its children in arrays, and a placement works out anew only the levels above the job.
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
from scheduler.api.queue import Queue
from scheduler.api.resource import SMALLEST, Vector
from scheduler.api.task import TaskStatus
from scheduler.plugins.drf.shares import Shares

Complain = Callable[[Queue, str, str], None]
"""Told a queue, a field of it and what is wrong with it."""
Column = NDArray[np.float64]
Standing = tuple[tuple[bool, float], ...]
"""Whether a queue is saturated and its share per weight, at each level of its path."""
DEEPEST: Final = 64
"""Levels of a path that is followed."""
_BEYOND = (TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.UNKNOWN)
"""Statuses whose tasks a job has asked for, though they are in none of its sums."""


def _compare(one: Standing, other: Standing) -> int:
    """Negative: the first has its turn before the other. Only levels that both have are compared, as by Volcano: where
    paths part at equal shares, a queue is neither before nor behind those further down the other branch."""
    one, other = one[: len(other)], other[: len(one)]
    return (one > other) - (one < other)


_comparable = cmp_to_key(_compare)


class Level:
    """One name on the paths of queues, with the levels and jobs below it."""

    def __init__(self, above: "Level | None" = None, weight: float = 1.0) -> None:
        self.above = above
        self.weight = weight
        self.position = len(above.levels) if above is not None else 0
        """Row among the children of the level above."""
        self.levels: dict[str, Level] = {}
        self.jobs: list[Job] = []
        self.amounts: Column
        """Shape (children, resources): what each holds, scaled; levels first, then jobs."""
        self.asked: Column
        """Shape (jobs, resources): what each job asks for in all."""
        self.shares: Column = np.zeros(0)
        self.saturated: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        """Both of children that are on the paths of jobs."""

    def below(self) -> Iterator["Level"]:
        """Every level under this one, the lowest first, and then itself."""
        for level in self.levels.values():
            yield from level.below()
        yield self


class Hierarchy:
    """The tree of one session."""

    def __init__(self, shares: Shares, queues: Mapping[str, Queue], jobs: Iterable[Job], complain: Complain) -> None:
        self._shares = shares
        self._root = Level()
        self._places: dict[str, list[Level]] = {}
        """Queue -> the levels of its path, from below the root down to its own."""
        self._rows: dict[str, tuple[Level, int]] = {}
        """Job -> the level it is in, and its row there."""
        self._allocated = np.zeros(len(shares.dims))
        self._complain = complain
        for job in sorted((job for job in jobs if job.queue in queues), key=lambda job: job.key):
            level = self._place(queues[job.queue])[-1]
            level.jobs.append(job)
        for level in self._root.below():
            self._fill(level)
        self._demanding = self._allocated < shares.total
        self._work_out_all()

    def key(self, queue: Queue) -> Any:
        """Comparable: the queue of the smaller goes first."""
        answer = []
        above = self._root
        for level in self._place(queue):
            if level.position < len(above.shares):
                share, saturated = float(above.shares[level.position]), bool(above.saturated[level.position])
            else:  # no job is below it
                share, saturated = 0.0, True
            answer.append((saturated, share / level.weight))
            above = level
        return _comparable(tuple(answer))

    def add(self, job: Job, amount: Vector) -> None:
        """A job gets an amount of all resources (negative: loses it)."""
        place = self._rows.get(job.key)
        if place is None:
            return
        level, row = place
        part = amount[self._shares.dims]
        self._allocated += part
        level.amounts[row] += part
        demanding = self._allocated < self._shares.total
        if (demanding == self._demanding).all():
            self._judge(level)
            self._climb(level)
        else:
            self._demanding = demanding
            self._work_out_all()

    @contextmanager
    def supposing(self, job: Job, amount: Vector) -> Iterator[None]:
        """As things would be, had the job that much more; amounts are whole numbers, so all is as before after it."""
        self.add(job, amount)
        try:
            yield
        finally:
            self.add(job, -amount)

    # --- the tree ---
    def _place(self, queue: Queue) -> list[Level]:
        """The levels of a queue's path; made where they are new. A queue that names none is a child of the root."""
        known = self._places.get(queue.name)
        if known is not None:
            return known
        path = queue.annotations.get(HIERARCHY, "").split("/")[1:] or [queue.name]
        if len(path) > DEEPEST:
            self._complain(queue, HIERARCHY, f"{len(path)} levels below the root, at most {DEEPEST} are followed")
            path = [queue.name]
        weights = queue.annotations.get(HIERARCHY_WEIGHTS, "").split("/")[1:]
        if len(weights) not in (0, len(path)):
            self._complain(queue, HIERARCHY_WEIGHTS, f"{len(weights)} weights below the root for {len(path)} levels")
        levels, level = [], self._root
        for depth, name in enumerate(path):
            lower = level.levels.get(name)
            if lower is None:
                lower = Level(level, self._weight(queue, weights[depth]) if depth < len(weights) else 1.0)
                level.levels[name] = lower
            level = lower
            levels.append(level)
        self._places[queue.name] = levels
        return levels

    def _weight(self, queue: Queue, text: str) -> float:
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            self._complain(queue, HIERARCHY_WEIGHTS, f"{text[:64]!r} is not a number")
            return 1.0
        return max(weight, 1.0)

    def _fill(self, level: Level) -> None:
        dims = self._shares.dims
        first = len(level.levels)
        number = first + len(level.jobs)
        level.amounts = np.zeros((number, len(dims)))
        level.asked = np.zeros((len(level.jobs), len(dims)))
        level.shares = np.zeros(number)
        level.saturated = np.zeros(number, dtype=bool)
        for row, job in enumerate(level.jobs):
            held = (job.allocated + job.pipelined)[dims]
            level.amounts[first + row] = held
            level.asked[row] = held + job.pending[dims] + _beyond(job)[dims]
            self._allocated += held
            self._rows[job.key] = level, first + row

    # --- shares ---
    def _work_out_all(self) -> None:
        for level in self._root.below():
            self._judge(level)
            self._pass_up(level)

    def _climb(self, level: Level) -> None:
        while level.above is not None:
            self._pass_up(level)
            level = level.above

    def _judge(self, level: Level) -> None:
        """Share of each job of a level, and whether it is saturated."""
        first = len(level.levels)
        held, asked = level.amounts[first:], level.asked
        if not len(held):
            return
        has = (held >= SMALLEST) & (asked != 0)
        level.saturated[first:] = (has & ((held >= asked) | ~self._demanding)).any(axis=1)
        level.shares[first:] = (held / self._shares.total).max(axis=1) if len(self._shares.dims) else 0.0

    def _pass_up(self, level: Level) -> None:
        """What the level holds, as the level above sees it."""
        above = level.above
        if above is None:
            return
        counted = level.shares != 0
        growing = counted & ~level.saturated
        least = min(1.0, float(level.shares[growing].min())) if growing.any() else 1.0
        scale = np.where(counted, 1.0, 0.0)
        scale[growing] = least / level.shares[growing]
        held = scale @ level.amounts
        above.amounts[level.position] = held
        above.shares[level.position] = self._shares.of_part(held)
        above.saturated[level.position] = level.saturated.all()


def _beyond(job: Job) -> Vector:
    asked: Vector = np.zeros_like(job.pending)
    for status in _BEYOND:
        for task in job.of(status).values():
            asked += task.cls.request
    return asked
