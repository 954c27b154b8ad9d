"""The nodes of jobs in super pods, chosen for each job as a whole when its first Pod is placed.

The Pods of a job are ordered by rank: those of the first ranks form the first block, and so on. The plan gives each
waiting Pod its node; the filter lets the Pod use no other. If some Pods of a block run already, as after a fault, the
others go to their super pod.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.columns import Filter
from scheduler.framework.session import Session
from scheduler.plugins.ascend.demand import Use
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.settings import Settings
from scheduler.plugins.ascend.super_pods import BlockRequest, choose_blocks

AFFINITY: Final = "super-pod-affinity"
SOFT: Final = "soft"
RANK: Final = "super-pod-rank"
ID: Final = "super-pod-id"
_MOST: Final = 9e8
"""The highest score."""
_STEP: Final = 1e6
_HOLDING: Final = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED)


@dataclass(slots=True)
class Plan:
    """The nodes of one job."""

    rows: dict[str, int] = field(default_factory=dict)
    """uid of a waiting task -> row of its node."""
    blocks: dict[str, int] = field(default_factory=dict)
    """uid of a waiting task -> number of its block."""
    fitting: int = 0
    """Number of nodes on which a Pod of the job fits."""
    failure: str = ""
    """Why there is no plan, or ""."""


class SuperPodPlans:
    """The plans of one session."""

    def __init__(self, session: Session, settings: Settings, ranks: Callable[[Job], Mapping[str, str]]) -> None:
        self._session = session
        self._settings = settings
        self._ranks = ranks
        self._plans: dict[str, Plan] = {}
        self.planning = False
        """Filters are asked for, to find the nodes of a plan."""

    def known(self, job: Job) -> Plan | None:
        """The plan of a job, if it was made in this session."""
        return self._plans.get(job.key)

    def of(self, job: Job, use: Use, ledger: ChipLedger) -> Plan:
        if job.key not in self._plans:
            self._plans[job.key] = self._made(job, use, ledger)
        return self._plans[job.key]

    def rows(self, plan: Plan, job: Job, cls: TaskClass) -> Rows:
        """The rows for tasks of a class, in the order in which the session places the tasks."""
        own = (task for task in job.tasks() if task.uid in plan.rows and task.cls is cls)
        tasks = sorted(own, key=self._session.task_key)
        return np.array([plan.rows[task.uid] for task in tasks], dtype=np.intp)

    def mask(self, rows: Rows) -> Mask:
        mask = np.zeros(len(self._session.nodes), dtype=np.bool_)
        mask[rows] = True
        return mask

    def score(self, rows: Rows) -> Column:
        """The highest score for the node of the first task."""
        score = np.zeros(len(self._session.nodes))
        score[rows] = np.arange(len(rows), 0, -1) * min(_STEP, _MOST / max(len(rows), 1))
        return score

    # --- planning ---
    def _made(self, job: Job, use: Use, ledger: ChipLedger) -> Plan:
        members = self._members(job, ledger)
        waiting = [task for task in members if task.uid in job.of(TaskStatus.PENDING)]
        if not waiting:
            return Plan()
        rows = self._fitting(job, waiting[0].cls)
        if len(members) == 1:
            idle = np.bitwise_count(ledger.usable(rows, use.without_faults))
            rows = rows[idle == idle.min()] if len(rows) else rows
        plan = Plan(fitting=len(rows))
        free: dict[int, list[int]] = {}
        for row, super_pod in zip(rows.tolist(), ledger.super_pods[rows].tolist(), strict=True):
            free.setdefault(super_pod, []).append(row)
        whole: list[list[Task]] = []
        soft = _is_soft(job)
        for start in range(0, len(members), use.block):
            block = members[start : start + use.block]
            near = self._super_pod(job, block, ledger)
            if near is None:
                whole.append([task for task in block if task.uid in job.of(TaskStatus.PENDING)])
                continue
            for task in (task for task in block if task.uid in job.of(TaskStatus.PENDING)):
                rows_left = free.get(near) or (next((each for each in free.values() if each), []) if soft else [])
                if not rows_left:
                    plan.failure = f"super pod {near}, which has the other Pods of the block of Pod {task.key}, is full"
                    return plan
                plan.rows[task.uid], plan.blocks[task.uid] = rows_left.pop(0), start // use.block
        request = BlockRequest(len(whole), use.block, self._settings.reserve_nodes, soft)
        chosen = choose_blocks({each: nodes for each, nodes in free.items() if nodes}, request)
        nodes = [(row, number) for number, block_rows in enumerate(chosen) for row in block_rows]
        tasks = [task for tasks_of_block in whole for task in tasks_of_block]
        if len(nodes) < len(tasks):
            sizes = ", ".join(f"{each}: {len(nodes)}" for each, nodes in sorted(free.items())) or "none"
            plan.failure = (
                f"the job needs {len(whole)} blocks of {use.block} nodes in one super pod each, "
                f"there is room for {len(chosen)} (free nodes per super pod: {sizes})"
            )
            return plan
        position = {task.uid: at for at, task in enumerate(members)}
        split = len(chosen) > len(whole)  # parts of blocks count as blocks
        for task, (row, number) in zip(tasks, nodes, strict=False):
            plan.rows[task.uid] = row
            plan.blocks[task.uid] = number if split else position[task.uid] // use.block
        return plan

    def _super_pod(self, job: Job, block: Sequence[Task], ledger: ChipLedger) -> int | None:
        """The super pod of the tasks of a block that hold nodes; None if no task does, or if its node is not known."""
        for task in block:
            if any(task.uid in job.of(status) for status in _HOLDING):
                row = job.placed.get(task.uid, self._session.nodes.index.get(task.node))
                if row is not None:
                    return int(ledger.super_pods[row])
        return None

    def _members(self, job: Job, ledger: ChipLedger) -> list[Task]:
        """The tasks of the job that request chips, ordered by rank."""
        ranks = self._ranks(job)
        tasks = [task for task in job.tasks() if task.uid in ranks and ledger.concerns(task.cls)]
        return sorted(tasks, key=lambda task: (_number(ranks[task.uid]), task.name))

    def _fitting(self, job: Job, cls: TaskClass) -> Rows:
        """The nodes that take a task of the class now, by amounts and by all filters."""
        session = self._session
        self.planning = True
        try:
            filters: Sequence[Filter] = session.filters(cls, job)
        finally:
            self.planning = False
        asked = np.flatnonzero(cls.request > 0)
        idle = session.nodes.idle[asked]
        rows: Rows = np.flatnonzero((idle >= cls.request[asked][:, np.newaxis]).all(axis=0))
        for condition in filters:
            rows = rows[condition.room(rows) > 0]
        return rows


def _is_soft(job: Job) -> bool:
    return SOFT in (job.labels.get(AFFINITY), *(task.labels.get(AFFINITY) for task in job.tasks()))


def _number(rank: str) -> int:
    return int(rank) if rank.isascii() and rank.isdecimal() and len(rank) < 10 else 10**9
