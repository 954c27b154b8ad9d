"""Placing the tasks of a job, or of one of its sub-jobs, one after the other until it is ready or cannot become so.

Equal tasks are placed together (ClassView) as far as no plugin could answer differently in between: no more than the
queue may be given, no more than the gang still lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Mask, Rows
from scheduler.api.queue import Queue
from scheduler.api.reasons import FitErrors
from scheduler.api.subjob import SubJob
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.framework.classview import ClassView
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement


class PendingTasks:
    """Tasks of a job still to be placed, equal neighbours in runs."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """``tasks``: in TaskOrder."""
        self._tasks = tasks
        self._position = 0
        self.failed_roles: set[str] = set()
        """Roles of which a task found no node."""

    def __bool__(self) -> bool:
        return self._position < len(self._tasks)

    def run(self) -> Sequence[Task]:
        """The next tasks that are of one class and role (not taken out; at least one)."""
        tasks, start = self._tasks, self._position
        first = tasks[start]
        end = start + 1
        while (
            end < len(tasks)
            and tasks[end].cls is first.cls
            and tasks[end].role == first.role
            and not (tasks[end].nominated or first.nominated)
        ):
            end += 1
        return tasks[start:end]

    def rest(self) -> Sequence[Task]:
        """All that are left (not taken out)."""
        return self._tasks[self._position :]

    def take(self, number: int) -> None:
        self._position += number

    def copy(self) -> "PendingTasks":
        """To try with; nothing has failed yet."""
        return PendingTasks(self.rest())


def waiting_tasks(job: Job) -> list[Task]:
    """The tasks of a job that want a part of a node: pending, not gated, not best effort."""
    return [t for t in job.of(TaskStatus.PENDING).values() if not t.gated and not t.cls.best_effort]


def gated_tasks(job: Job) -> list[Task]:
    """The tasks of a job that only the gate of queue admission holds back, at their own wish."""
    pending = job.of(TaskStatus.PENDING).values()
    return [t for t in pending if t.cls.at_queue_gate and t.cls.asks_admission]


@dataclass(frozen=True, slots=True)
class Ground:
    """For whom places are looked for, and where."""

    queue: Queue
    job: Job
    sub_job: SubJob | None = None
    """The part of the job; None: the job has none."""
    hyper_node: HyperNode | None = None
    """On its nodes only; None: on all."""

    def rows(self) -> Rows | None:
        """The nodes in question; None: all. A new array each time for a sub-job: what views have planned for another
        does not hold, since scores look at where the rest of it is."""
        return None if self.hyper_node is None else self.hyper_node.rows.view()


class Placer:
    """Places tasks in one session."""

    def __init__(self, session: Session, *, remember_failures: bool) -> None:
        """``remember_failures``: where a task fits nowhere, no other of its role is tried."""
        self._session = session
        self._remember_failures = remember_failures

    def place(self, ground: Ground, pending: PendingTasks, statement: Statement) -> Task | None:
        """Place tasks until the job (the sub-job, if it is a sub-group) is ready, or cannot become so. Returns the
        first task that found no node."""
        session, job, sub_job = self._session, ground.job, ground.sub_job
        failed: Task | None = None
        session.placing = sub_job
        within = ground.rows()
        while pending:
            run = pending.run()
            task = run[0]
            if task.gated:
                self._ungate(ground.queue, job, run)
                pending.take(len(run))
                continue
            if self._remember_failures and task.role and task.role in pending.failed_roles:
                pending.take(len(run))
                continue
            wanted = min(len(run), max(session.sub_job_missing(job, sub_job), 1))
            wanted = session.allocatable(ground.queue, job, task.cls, wanted)
            if wanted <= 0:
                pending.take(len(run))
                continue
            now = session.allocatable_now(ground.queue, job, task.cls, wanted)
            if now > 0:
                placed = self._place_run(ground, run[:now], within, statement)
            else:
                placed = self._promise(ground, task, within, statement)
            pending.take(placed or len(run))  # where one of a run fits nowhere, none of it does
            if not placed:
                failed = failed or task
                pending.failed_roles.add(task.role)
                if not _may_go_on(job, sub_job, pending):
                    break
            if session.sub_job_ready(job, sub_job) or self._promised_enough(job, sub_job):
                break
        session.placing = None
        return failed

    def _promised_enough(self, job: Job, sub_job: SubJob | None) -> bool:
        """Whether it waits for nothing but what terminates: what more it were promised others would miss, and it has to
        be placed anew when the time comes."""
        return TaskStatus.PIPELINED in job.by_status and self._session.sub_job_pipelined(job, sub_job)

    def _place_run(self, ground: Ground, run: Sequence[Task], within: Rows | None, statement: Statement) -> int:
        """Place the first tasks of a run of equal ones; how many found a node. 0: the first of them fits nowhere."""
        session, job = self._session, ground.job
        task = run[0]
        view = session.view(task.cls, job)
        if task.nominated and self._place_nominated(ground, task, view, statement):
            return 1
        rows = view.choose(len(run), within)
        try:
            if rows:
                statement.allocate(job, run[: len(rows)], rows)
                return len(rows)
            row = view.choose_future(within)
            if row is not None:
                statement.pipeline(job, task, row)
                return 1
        except AllocationError as error:
            # The books of a plugin know better than its filter: try the first task alone, then give up.
            if len(rows) > 1:
                return self._place_run(ground, run[:1], within, statement)
            job.fit_errors[task.cls.id] = FitErrors(len(session.nodes), note=str(error))
            return 0
        errors = view.fit_errors(session.dimensions.names, within)
        if ground.hyper_node is not None and ground.hyper_node.parent is not None:
            errors.hyper_node = ground.hyper_node.name
        job.fit_errors[task.cls.id] = errors
        return 0

    def _promise(self, ground: Ground, task: Task, within: Rows | None, statement: Statement) -> int:
        """Pipeline a task that the queue may have once what terminates is gone; how many (1 or 0) found a node.

        Only a node where terminating tasks release some of every resource that the task requests will do: reserving
        idle nodes would keep them from other queues for as long as the termination takes.
        """
        nodes, asked = self._session.nodes, task.cls.request > 0
        leaving: Mask = np.all(nodes.releasing[asked] > nodes.pipelined[asked], axis=0)
        rows: Rows = np.flatnonzero(leaving) if within is None else within[leaving[within]]
        if not len(rows):
            return 0
        view = self._session.view(task.cls, ground.job)
        row = nodes.index.get(task.nominated)
        if row is None or row not in rows or not view.admits_later(row):
            row = view.choose_future(rows)
        if row is None:
            return 0
        try:
            statement.pipeline(ground.job, task, row)
        except AllocationError:
            return 0
        return 1

    def _place_nominated(self, ground: Ground, task: Task, view: ClassView, statement: Statement) -> bool:
        row = self._session.nodes.index.get(task.nominated)
        if row is None or (ground.hyper_node is not None and not ground.hyper_node.holds(np.array([row]))):
            return False
        try:
            if view.admits(row):
                statement.allocate(ground.job, (task,), (row,))
                return True
            if view.admits_later(row):
                statement.pipeline(ground.job, task, row)
                return True
        except AllocationError:
            pass  # any other node may still do
        return False

    def ungate_first(self, queue: Queue, job: Job, pending: PendingTasks) -> PendingTasks:
        """Take the gates off tasks as the queue has room; those left to be placed."""
        gated = PendingTasks([task for task in pending.rest() if task.gated])
        if not gated:
            return pending
        while gated:
            run = gated.run()
            self._ungate(queue, job, run)
            gated.take(len(run))
        return PendingTasks([task for task in pending.rest() if not task.gated])

    def _ungate(self, queue: Queue, job: Job, tasks: Sequence[Task]) -> None:
        """Take the gate off as many of these tasks of one class as the queue has room for; the first come first."""
        room = self._session.allocatable(queue, job, tasks[0].cls, len(tasks))
        if room > 0:
            self._session.ungate(job, tasks[:room])

    def redeem(self, ground: Ground, pending: PendingTasks, statement: Statement) -> bool:
        """Place all tasks left on the nodes nominated for them; if one cannot have its own, none is placed."""
        session, job = self._session, ground.job
        for task in pending.rest():
            allowed = session.allocatable(ground.queue, job, task.cls, 1) > 0
            allowed = allowed and session.allocatable_now(ground.queue, job, task.cls, 1) > 0
            if not allowed or not self._place_nominated(ground, task, session.view(task.cls, job), statement):
                statement.discard()
                return False
        pending.take(len(pending.rest()))
        return True


def _may_go_on(job: Job, sub_job: SubJob | None, pending: PendingTasks) -> bool:
    """After a task found no node: whether others could still make the job ready (Volcano's NeedContinueAllocating)."""
    if job.min_member == job.size or (sub_job is not None and sub_job.minimum >= len(sub_job.tasks)):
        return False
    if job.grouped:
        return True
    minimum = job.role_minimum
    if job.min_member < sum(minimum.values()):
        hopeful = sum(1 for t in job.of(TaskStatus.PENDING).values() if t.role not in pending.failed_roles)
        return job.ready_count + hopeful >= job.min_member
    if not minimum:
        return True
    counts = job.role_counts(*READY_STATUSES)
    return all(counts.get(role, 0) >= minimum.get(role, 0) for role in pending.failed_roles)
