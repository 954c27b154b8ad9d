"""The nodes of jobs in super pods, chosen for each job as a whole when its first Pod is placed.

The Pods of a job are ordered by rank: those of the first ranks form the first block, and so on. The plan gives each
waiting Pod its node; the filter lets the Pod use no other. If some Pods of a block run already, as after a fault, the
others go to their super pod.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import SUPER_POD_AFFINITY, SUPER_POD_SOFT
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.columns import Filter
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import ChipUse
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.ranks import is_number
from scheduler.plugins.ascend.super_pods import BlockRequest, choose_blocks, numbers_of_parts

_MAX_SCORE: Final = 9e8
"""The highest score."""
_STEP: Final = 1e6
_HOLDING: Final = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED)


@dataclass(slots=True)
class SuperPodPlan:
    """The nodes of one job."""

    rows: dict[str, int] = field(default_factory=dict)
    """uid of a waiting task -> row of its node."""
    blocks: dict[str, int] = field(default_factory=dict)
    """uid of a waiting task -> number of its block."""
    fitting: int = 0
    """Number of nodes on which a Pod of the job fits."""
    failure: str = ""
    """Why there is no plan, or ""."""


class _Members(NamedTuple):
    """The tasks of a job that request chips."""

    tasks: list[Task]
    """The tasks in the order of their ranks."""
    near: dict[str, int]
    """uid -> super pod of the tasks that hold nodes."""
    kept: Mapping[int, int]
    """Position of a task that runs -> number of its block."""
    blocks: list[int]
    """The number of the block of each task."""


class SuperPodPlans:
    """The plans of one session."""

    def __init__(self, npus: NpuSession, ranks: Callable[[Job], Mapping[str, str]]) -> None:
        """``ranks``: uid -> rank of the Pods of a job."""
        self._npus = npus
        self._session = npus.session
        self._ranks = ranks
        self._plans: dict[str, SuperPodPlan] = {}
        self._found: dict[tuple[object, ...], Mapping[int, Sequence[int]]] = {}
        """Keys of the views of a job's classes -> super pod -> rows of nodes that take them."""
        self._refused: dict[tuple[object, ...], SuperPodPlan] = {}
        """Keys of these views, and the needs of the job -> the plan of a waiting job that has no room."""
        self._changes = 0
        """Number of changes of nodes for which ``_found`` and ``_refused`` hold."""
        self.planning = False
        """Filters are asked for, to find the nodes of a plan."""

    def known(self, job: Job) -> SuperPodPlan | None:
        """Returns the plan of a job, if it was made in this session."""
        return self._plans.get(job.key)

    def of(self, job: Job, use: ChipUse, ledger: ChipLedger) -> SuperPodPlan:
        if job.key not in self._plans:
            self._plans[job.key] = self._made(job, use, ledger)
        return self._plans[job.key]

    def rows(self, plan: SuperPodPlan, job: Job, cls: TaskClass) -> Rows:
        """Returns the rows for tasks of a class, in the order in which the session places the tasks."""
        own = (task for task in job.tasks() if task.uid in plan.rows and task.cls is cls)
        tasks = sorted(own, key=self._session.task_key)
        return np.array([plan.rows[task.uid] for task in tasks], dtype=np.intp)

    def mask(self, rows: Rows) -> Mask:
        mask = np.zeros(len(self._session.nodes), dtype=np.bool_)
        mask[rows] = True
        return mask

    def score(self, rows: Rows) -> Column:
        """Returns the highest score for the node of the first task."""
        score = np.zeros(len(self._session.nodes))
        score[rows] = np.arange(len(rows), 0, -1) * min(_STEP, _MAX_SCORE / max(len(rows), 1))
        return score

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Raises AllocationError if a task is placed on another node than the plan says: the node that was chosen for
        it was taken meanwhile, as between two Pods of an elastic job."""
        plan = self._plans.get(job.key)
        if plan is None:
            return
        for task, row in zip(tasks, rows, strict=True):
            planned = plan.rows.get(task.uid, row)
            if planned != row:
                raise AllocationError(
                    f"node {self._session.nodes.names[planned]}, which was chosen for Pod {task.key} in its super pod, "
                    "was taken meanwhile"
                )

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Does nothing: a plan holds for the session, so that a job that is tried again gets the same nodes."""

    # --- planning ---
    def _made(self, job: Job, use: ChipUse, ledger: ChipLedger) -> SuperPodPlan:
        pending = job.of(TaskStatus.PENDING)
        asking = [cls for cls in job.remember("pending classes", None, partial(_classes, job)) if ledger.concerns(cls)]
        if not asking:
            return SuperPodPlan()
        self._forget_if_changed()
        request = BlockRequest(use.blocks, use.block, self._npus.settings.reserve_nodes, _is_soft(job))
        waits = len(pending) == job.size
        views = self._views(job, asking)
        if waits and (views, request) in self._refused:
            return self._refused[views, request]
        if views not in self._found:
            self._found[views] = self._fitting(job, use, ledger, asking)
        found = self._found[views]
        plan = SuperPodPlan(fitting=sum(map(len, found.values())))
        if waits and not request.fits(found):  # most jobs that wait: their ranks do not matter
            plan.failure = _no_room(request, found)
            self._refused[views, request] = plan
            return plan
        free = {super_pod: list(rows) for super_pod, rows in found.items()}
        members = self._members(job, ledger, use.block)
        whole = _join_running(plan, members, pending, free, soft=request.soft)
        request = request._replace(blocks=len(whole))
        if not plan.failure and not request.fits(free):
            plan.failure = _no_room(request, free)
        if plan.failure:
            return plan
        chosen = choose_blocks({each: nodes for each, nodes in free.items() if nodes}, request)
        plan.rows |= _rows_of_blocks(whole, chosen)
        numbers: Mapping[int, int] = dict(enumerate(members.blocks))
        if request.soft:
            super_pods = members.near | {uid: int(ledger.super_pods[row]) for uid, row in plan.rows.items()}
            places = [super_pods.get(task.uid) for task in members.tasks]
            numbers = numbers_of_parts(places, members.kept, use.block)
        plan.blocks = {task.uid: numbers[i] for i, task in enumerate(members.tasks) if task.uid in plan.rows}
        return plan

    def _super_pods_held(self, job: Job, members: Sequence[Task], ledger: ChipLedger) -> dict[str, int]:
        """Returns uid -> super pod of the tasks that hold nodes; without those whose nodes are not known."""
        holding = {uid for status in _HOLDING for uid in job.of(status)}
        found: dict[str, int] = {}
        for task in members if holding else ():
            if task.uid in holding:
                row = job.placed.get(task.uid, self._session.nodes.index.get(task.node))
                if row is not None:
                    found[task.uid] = int(ledger.super_pods[row])
        return found

    def _members(self, job: Job, ledger: ChipLedger, size: int) -> _Members:
        """Returns the tasks of the job that request chips. ``size``: the nodes of a block."""
        ranks = self._ranks(job)
        asking = [task for task in job.tasks() if task.uid in ranks and ledger.concerns(task.cls)]
        tasks = sorted(asking, key=lambda task: (_number(ranks[task.uid]), task.name))
        near = self._super_pods_held(job, tasks, ledger)
        running = ((i, task.super_pod_rank) for i, task in enumerate(tasks) if task.uid in near)
        kept = {i: int(rank) for i, rank in running if is_number(rank)}
        return _Members(tasks, near, kept, _blocks([_number(ranks[task.uid]) for task in tasks], kept, size))

    def _forget_if_changed(self) -> None:
        if self._changes != len(self._session.nodes.log):
            self._changes = len(self._session.nodes.log)
            self._found.clear()
            self._refused.clear()

    def _views(self, job: Job, classes: Sequence[TaskClass]) -> tuple[object, ...]:
        """Returns the keys of the views of classes, before the job has a plan."""
        self.planning = True
        try:
            return tuple(self._session.view_key(cls, job) for cls in classes)
        finally:
            self.planning = False

    def _fitting(
        self, job: Job, use: ChipUse, ledger: ChipLedger, classes: Sequence[TaskClass]
    ) -> Mapping[int, Sequence[int]]:
        """Returns super pod -> rows of the nodes that take a task of each class now, by amounts and by all filters.
        Jobs with equal requests share it while nothing is placed."""
        self.planning = True
        try:
            return self._by_super_pod(self._search(job, classes), use, ledger)
        finally:
            self.planning = False

    def _by_super_pod(self, rows: Rows, use: ChipUse, ledger: ChipLedger) -> dict[int, list[int]]:
        """Returns the rows in the order in which they are used."""
        if use.blocks * use.block == 1 and len(rows):
            idle = np.bitwise_count(ledger.usable(rows, use.without_faults))
            rows = rows[idle == idle.min()]
        rows = rows[np.argsort(self._npus.health.sub_healthy(use.resource)[rows], kind="stable")]
        found: dict[int, list[int]] = {}
        for row, super_pod in zip(rows.tolist(), ledger.super_pods[rows].tolist(), strict=True):
            found.setdefault(super_pod, []).append(row)
        return found

    def _search(self, job: Job, classes: Sequence[TaskClass]) -> Rows:
        """Returns the nodes that take a task of each class."""
        session = self._session
        rows: Rows = np.arange(len(session.nodes))
        for cls in classes:
            filters: Sequence[Filter] = session.filters(cls, job)
            asked = np.flatnonzero(cls.request > 0)
            idle = session.nodes.idle[asked][:, rows]
            rows = rows[(idle >= cls.request[asked][:, np.newaxis]).all(axis=0)]
            for condition in filters:
                rows = rows[condition.room(rows) > 0]
        return rows


def _classes(job: Job) -> list[TaskClass]:
    """Returns the classes of the pending tasks of a job."""
    return list({task.cls.id: task.cls for task in job.of(TaskStatus.PENDING).values()}.values())


def _blocks(ranks: Sequence[int], kept: Mapping[int, int], size: int) -> list[int]:
    """Returns the number of the block of each task, in the order of ranks.

    Without gaps between the ranks it is the position of the task divided by the size of a block. With gaps, as while
    a lost Pod is not created again yet, or with a rank twice, as with a backup, the rank takes the place of the
    position, if the numbers of the tasks that run (``kept``: position -> number) say so.
    """
    irregular = bool(ranks) and (ranks[-1] - ranks[0] != len(ranks) - 1 or len({*ranks}) < len(ranks))
    by_rank = irregular and bool(kept) and all(ranks[at] // size == number for at, number in kept.items())
    return [(rank if by_rank else position) // size for position, rank in enumerate(ranks)]


def _join_running(
    plan: SuperPodPlan, members: _Members, pending: Container[str], free: dict[int, list[int]], *, soft: bool
) -> list[list[Task]]:
    """Gives the waiting tasks of blocks of which tasks run nodes in their super pods, and takes these from ``free``.
    Returns the waiting tasks of the other blocks. If a super pod is full, this is the failure of the plan."""
    whole: list[list[Task]] = []
    for _, group in groupby(zip(members.blocks, members.tasks, strict=True), key=itemgetter(0)):
        block = [task for _, task in group]
        waiting = [task for task in block if task.uid in pending]
        super_pod = next((members.near[task.uid] for task in block if task.uid in members.near), None)
        if super_pod is None:
            whole.append(waiting)
            continue
        for task in waiting:
            left = free.get(super_pod)
            if not left and soft:
                left = next((each for each in free.values() if each), None)
            if not left:
                text = f"super pod {super_pod}, which has the other Pods of the block of Pod {task.key}, is full"
                plan.failure = text
                return whole
            plan.rows[task.uid] = left.pop(0)
    return whole


def _rows_of_blocks(whole: Sequence[Sequence[Task]], chosen: Sequence[Sequence[int]]) -> dict[str, int]:
    """Returns uid -> row. If blocks are split, the tasks take the rows one after another."""
    if len(chosen) > len(whole):
        whole, chosen = [[task for block in whole for task in block]], [[row for rows in chosen for row in rows]]
    pairs = (pair for block, rows in zip(whole, chosen, strict=True) for pair in zip(block, rows, strict=False))
    return {task.uid: row for task, row in pairs}


def _no_room(request: BlockRequest, free: Mapping[int, Sequence[int]]) -> str:
    sizes = ", ".join(f"{each}: {len(nodes)}" for each, nodes in sorted(free.items())) or "none"
    if request.soft:
        needed = f"the job needs {request.nodes} nodes in super pods, {sum(map(len, free.values()))} are free"
    else:
        needed = (
            f"the job needs {request.blocks} blocks of {request.size} nodes in one super pod each, "
            f"there is room for {request.room(free)}"
        )
    return f"{needed} (free nodes per super pod: {sizes})"


def _is_soft(job: Job) -> bool:
    def asks_for_it() -> bool:
        values = (job.labels.get(SUPER_POD_AFFINITY), *(task.labels.get(SUPER_POD_AFFINITY) for task in job.tasks()))
        return SUPER_POD_SOFT in values

    return job.remember("soft super pods", None, asks_for_it)


def _number(rank: str) -> int:
    return int(rank) if is_number(rank) else 10**9
