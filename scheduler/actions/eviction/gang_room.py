"""Room for a gang while other tasks are evicted: how many of its tasks the nodes could hold, and nodes for all of them.

``Slots`` is an upper bound by amounts: filters and quotas may reduce the number, never increase it, so no placement is
tried before there are slots for the whole gang. ``Nominator`` places the gang on idle resources and on those that
terminating tasks release. It takes the tasks to be evicted for terminating ones and applies the filters, scores and
quotas of allocate. It prefers resources that are idle now, then those that terminating tasks release, then those that
evictions free.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.eviction.feasibility import Shortfall, compared_resources, freed_amounts
from scheduler.actions.order import SubJobOrder
from scheduler.actions.placement.placer import waiting_tasks
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement

Nomination = list[tuple[Task, int]]
"""Tasks and the rows of their nodes, in the order of placement."""
Part = tuple[SubJob | None, list[Task]]
"""A sub-job (None: the job has none) and its waiting tasks, in task order."""


# --- an upper bound ---
class Demand:
    """How many tasks of each class a gang has to place, and on which nodes evictions could make room for them."""

    def __init__(self, session: Session, job: Job, tasks: Sequence[Task]) -> None:
        """``tasks``: the waiting tasks, at least one."""
        self._session = session
        self._classes = [
            _ClassDemand(cls, number, ~session.view(cls, job).unresolvable())
            for cls, number in Counter(task.cls for task in tasks).items()
        ]
        self._dims = np.unique(np.concatenate([asked.dims for asked in self._classes]))

    @property
    def usable(self) -> Mask:
        """The nodes on which evictions could make room for some of the tasks."""
        usable: Mask = np.logical_or.reduce([asked.usable for asked in self._classes])
        return usable

    def lacking(self, rows: Rows) -> Mask:
        """Returns the resources that some nodes lack for the tasks without evictions, shape (resources,)."""
        nodes = self._session.nodes
        future = nodes.future_idle()
        result: Mask = np.zeros(len(future), dtype=bool)
        usable = self.usable[rows]
        for d in self._dims.tolist():
            amounts = np.maximum(future[d, rows][usable], 0)
            result[d] = amounts.sum() < sum(asked.total(d) for asked in self._classes) or any(
                asked.room_by(d, amounts) < asked.number for asked in self._classes
            )
        return result

    def slots_without(self, evicted: Mask) -> "Slots":
        """Returns the slots that exist if all candidates of a mask are evicted."""
        future = self._session.nodes.future_idle()
        future[self._dims] += freed_amounts(self._session, evicted, self._dims)
        return Slots(self._classes, future)

    def current_slots(self) -> "Slots":
        """Returns the slots that exist without evictions."""
        return Slots(self._classes, self._session.nodes.future_idle())


class _ClassDemand:
    """The tasks of one class."""

    def __init__(self, cls: TaskClass, number: int, usable: Mask) -> None:
        self.number = number
        self.usable = usable
        self.dims = compared_resources(cls.request)
        self._request = cls.request[self.dims]

    def total(self, d: int) -> float:
        """Returns what the tasks request of a resource."""
        return float(self._asked(d) * self.number)

    def room_by(self, d: int, amounts: Vector) -> float:
        """Returns how many of the tasks fit if only one resource is compared, of which nodes have these amounts."""
        asked = self._asked(d)
        return float((amounts // asked).sum()) if asked > 0 else np.inf

    def _asked(self, d: int) -> float:
        return float(self._request[self.dims == d].sum())

    def room(self, future: Column) -> Counts:
        """Returns how many of the tasks fit into each column of ``future``, shape (resources, nodes)."""
        asked = self._request[:, np.newaxis]
        available: NDArray[np.float64] = future[self.dims]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(asked > 0, available // asked, np.where(available >= 0, UNBOUNDED, 0)).min(axis=0)
        room: Counts = np.clip(each, 0, self.number).astype(np.int64)
        return room


class Slots:
    """How many tasks of each class each node can hold."""

    def __init__(self, classes: Sequence[_ClassDemand], future: Column) -> None:
        self._classes = classes
        self._future = future
        self._each = [asked.room(future) * asked.usable for asked in classes]
        self._totals = self._sums(slice(None))

    def _sums(self, rows: Rows | slice) -> list[int]:
        return [int(each[rows].sum()) for each in self._each]

    @property
    def each(self) -> Counts:
        """The number of slots of each node, shape (nodes,)."""
        result: Counts = np.add.reduce(self._each)
        return result

    def confine(self, rows: Rows) -> None:
        """Counts only the slots of these nodes from now on."""
        self._totals = self._sums(rows)

    @property
    def number(self) -> int:
        """The number of tasks that have slots."""
        return sum(min(total, asked.number) for total, asked in zip(self._totals, self._classes, strict=True))

    def enough(self) -> bool:
        """Whether all tasks of every class have slots."""
        return all(total >= asked.number for total, asked in zip(self._totals, self._classes, strict=True))

    def enough_on(self, rows: Rows) -> bool:
        """Whether all tasks of every class have slots on the given nodes."""
        return all(total >= asked.number for total, asked in zip(self._sums(rows), self._classes, strict=True))

    def add_freed(self, row: int, amount: Vector) -> None:
        """Adds the amounts that an eviction frees on a node that is counted."""
        self._future[:, row] += amount
        for i, asked in enumerate(self._classes):
            if asked.usable[row]:
                now = int(asked.room(self._future[:, row : row + 1])[0])
                self._totals[i] += now - int(self._each[i][row])
                self._each[i][row] = now


# --- nodes for all tasks ---
def parts_to_place(session: Session, job: Job) -> list[Part]:
    """Returns the tasks that need room, per sub-job: all waiting tasks, or only those of the next sub-job if the job is
    ready already (Volcano's gang actions). Best-effort tasks are left to backfill."""
    waiting = sorted(waiting_tasks(job), key=session.task_key)
    if not job.sub_jobs:
        return [(None, waiting)] if waiting else []
    by_sub_job: dict[SubJob, list[Task]] = {}
    for task in waiting:
        by_sub_job.setdefault(job.sub_job_of[task.uid], []).append(task)
    ordered = sorted(by_sub_job, key=SubJobOrder(session, job).key)
    parts: list[Part] = [(sub_job, by_sub_job[sub_job]) for sub_job in ordered]
    return parts[:1] if session.job_ready(job) else parts


class Nominator:
    """Finds nominations for one job in one domain."""

    def __init__(self, session: Session, job: Job, parts: Sequence[Part], domain: HyperNode) -> None:
        self._session = session
        self._job = job
        self._parts = parts
        self._domain = domain

    def nominate(self, evicted: Iterable[tuple[Task, int]]) -> Nomination | None:
        """Returns nodes for tasks that make the job pipelined, or None if there are none.

        ``evicted``: the tasks evicted for the job and the rows of their nodes. The session is unchanged afterwards.
        """
        session = self._session
        self._taken: Column = np.zeros_like(session.nodes.idle)
        for victim, row in evicted:
            self._taken[:, row] += victim.cls.request
        statement = session.statement()
        result: Nomination = []
        try:
            for sub_job, tasks in self._parts:
                found = self._place_part(sub_job, tasks, statement)
                if found is None:
                    return None
                result += found
                if session.job_pipelined(self._job):
                    return result
            return None
        finally:
            statement.discard()

    def _place_part(self, sub_job: SubJob | None, tasks: Sequence[Task], statement: Statement) -> Nomination | None:
        """Returns nodes for one part, all within one HyperNode that the sub-job may use."""
        session, job = self._session, self._job
        for rows in self._domains(sub_job):
            trial = session.statement()
            session.plugin_session.placing = sub_job
            found = self._place(tasks, rows, trial)
            session.plugin_session.placing = None
            if found is not None and (sub_job is None or session.sub_job_pipelined(job, sub_job)):
                statement.merge(trial)
                return found
            trial.discard()
        return None

    def _domains(self, sub_job: SubJob | None) -> Iterator[Rows]:
        if sub_job is None or not self._job.has_tier_limit:
            yield self._domain.rows
            return
        for gradient in self._session.gradients(sub_job, self._domain, True):
            for hyper_node in gradient:
                yield hyper_node.rows

    def _place(self, tasks: Sequence[Task], rows: Rows, trial: Statement) -> Nomination | None:
        session, job = self._session, self._job
        queue = session.queues[job.queue]
        result: Nomination = []
        open_to: dict[TaskClass, Rows] = {}
        for task in tasks:
            cls = task.cls
            if session.allocatable(queue, job, cls, 1) < 1:
                return None
            if cls not in open_to:
                open_to[cls] = rows[Shortfall(session, cls.request).none()[rows]]
            row = self._choose(cls, open_to[cls])
            if row is None:
                return None
            try:
                trial.pipeline(job, task, row)
            except AllocationError:
                return None
            result.append((task, row))
        return result

    def _choose(self, cls: TaskClass, rows: Rows) -> int | None:
        """Returns the best of the rows. All of them had sufficient amounts when the part was started."""
        nodes = self._session.nodes
        dims = compared_resources(cls.request)
        at = np.ix_(dims, rows)
        wanted = cls.request[dims][:, np.newaxis]
        idle = nodes.idle[at]
        later = idle + nodes.releasing[at] - nodes.pipelined[at]
        fits = wanted <= later
        view = self._session.view(cls, self._job)
        for amounts in (fits & (wanted <= idle), wanted <= later - self._taken[at], fits):
            better = rows[amounts.all(axis=0)]
            row = view.choose_future(within=better) if len(better) else None
            if row is not None:
                return row
        return None
