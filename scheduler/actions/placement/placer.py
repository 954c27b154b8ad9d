"""Places the tasks of a job, or of one of its sub-jobs, until it is ready or cannot become ready.

Equal tasks are placed together (``ClassView``) as long as no plugin could change its answer in between: no more than
the queue's quota admits, and no more than the gang lacks.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Mask, Rows
from scheduler.api.queue import Queue
from scheduler.api.reasons import FitErrors
from scheduler.api.sub_job import SubJob
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.framework.extension import ALLOCATABLE, ALLOCATABLE_NOW
from scheduler.framework.failures import PluginError
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement


class PendingTasks:
    """The tasks of a job that remain to be placed, taken in runs of equal tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """``tasks``: the tasks in TaskOrder."""
        self._tasks = tasks
        self._position = 0
        self._run_end = 0
        """The end of the last run. The rest of a run is a run, so it is compared only once."""
        self.failed_roles: set[str] = set()
        """Roles with a task that found no node."""

    def __bool__(self) -> bool:
        return self._position < len(self._tasks)

    def run(self) -> Sequence[Task]:
        """Returns the next tasks of one class and role, at least one, without taking them."""
        tasks, start = self._tasks, self._position
        if self._run_end <= start:
            first = tasks[start]
            end = start + 1
            while (
                end < len(tasks)
                and tasks[end].cls is first.cls
                and tasks[end].role == first.role
                and not (tasks[end].nominated or first.nominated)
            ):
                end += 1
            self._run_end = end
        return tasks[start : self._run_end]

    def remaining(self) -> Sequence[Task]:
        """Returns all remaining tasks, without taking them."""
        return self._tasks[self._position :]

    def take(self, number: int) -> None:
        self._position += number

    def copy(self) -> "PendingTasks":
        """Returns a copy of the remaining tasks, without the failed roles."""
        copy = PendingTasks(self.remaining())
        copy._run_end = self._run_end - self._position
        return copy


def waiting_tasks(job: Job) -> list[Task]:
    """Returns the tasks of a job that need resources of a node: pending, not gated, not best effort."""
    return [t for t in job.of(TaskStatus.PENDING).values() if not t.gated and not t.cls.best_effort]


def gated_tasks(job: Job) -> list[Task]:
    """Returns the tasks of a job that have no scheduling gate but the one of queue admission, which they requested."""
    pending = job.of(TaskStatus.PENDING).values()
    return [t for t in pending if t.cls.at_queue_gate and t.cls.requests_queue_gate]


class PlacementScope(msgspec.Struct, frozen=True):
    """The tasks to place, and the nodes that may be used."""

    queue: Queue
    job: Job
    sub_job: SubJob | None = None
    """The sub-job whose tasks are placed; None: the job has no sub-jobs."""
    hyper_node: HyperNode | None = None
    """The HyperNode whose nodes are used; None: all nodes."""

    def rows(self) -> Rows | None:
        """Returns the rows of the nodes; None: all nodes.

        The array is a new view for each call: class views key their plans by it, and a plan for one sub-job does not
        hold for another, because scores depend on where the rest of the sub-job is.
        """
        return None if self.hyper_node is None else self.hyper_node.rows.view()


class Placer:
    """Places tasks in one session."""

    def __init__(self, session: Session, *, remember_failures: bool) -> None:
        """``remember_failures``: whether the other tasks of a role are skipped if one of them fits on no node."""
        self._session = session
        self._remember_failures = remember_failures

    def place(self, scope: PlacementScope, pending: PendingTasks, statement: Statement) -> Task | None:
        """Places tasks until the job (or the sub-job) is ready or cannot become ready. Returns the first task that
        found no node."""
        session, job, sub_job = self._session, scope.job, scope.sub_job
        failed: Task | None = None
        session.plugin_session.placing = sub_job
        within, limit = scope.rows(), session.once(SearchLimit)
        try:
            while pending:
                run = pending.run()
                task = run[0]
                if task.gated:
                    self._ungate(scope.queue, job, run)
                    pending.take(len(run))
                    continue
                if self._remember_failures and task.role and task.role in pending.failed_roles:
                    pending.take(len(run))
                    continue
                if not limit.admits(job, (task.cls,)):
                    limit.leave_out(job, task.cls)
                    failed = failed or task
                    pending.take(len(run))
                    pending.failed_roles.add(task.role)
                    if not _can_still_become_ready(job, sub_job, pending):
                        break
                    continue
                wanted = min(len(run), max(session.sub_job_missing(job, sub_job), 1))
                wanted = session.allocatable(scope.queue, job, task.cls, wanted)
                if wanted <= 0:
                    session.refuse_without_reason(ALLOCATABLE, scope.queue, job, task.cls)
                    pending.take(len(run))
                    continue
                now = session.allocatable_now(scope.queue, job, task.cls, wanted)
                if now > 0:
                    placed = self._place_run(scope, run[:now], within, statement)
                else:
                    placed = self._pipeline_on_releasing(scope, task, within, statement)
                    if not placed:
                        session.refuse_without_reason(ALLOCATABLE_NOW, scope.queue, job, task.cls)
                pending.take(placed or len(run))  # if one task of a run fits on no node, none does
                if not placed:
                    limit.failed(job, task.cls)
                    failed = failed or task
                    pending.failed_roles.add(task.role)
                    if not _can_still_become_ready(job, sub_job, pending):
                        break
                if session.sub_job_ready(job, sub_job) or self._pipelined_enough(job, sub_job):
                    break
        except PluginError as error:
            error.add_subject(job, task)
            raise
        session.plugin_session.placing = None
        return failed

    def _pipelined_enough(self, job: Job, sub_job: SubJob | None) -> bool:
        """Returns whether the job only waits for terminating tasks. Pipelining more of its tasks would withhold
        resources from other jobs, although the next session places the job again."""
        return TaskStatus.PIPELINED in job.by_status and self._session.sub_job_pipelined(job, sub_job)

    def _place_run(self, scope: PlacementScope, run: Sequence[Task], within: Rows | None, statement: Statement) -> int:
        """Places the first tasks of a run of equal tasks. Returns how many found a node; 0: the first fits on no
        node."""
        session, job = self._session, scope.job
        task = run[0]
        if task.nominated and self._place_nominated(scope, task, statement):
            return 1
        rows = session.choose(task.cls, job, len(run), within)
        try:
            if rows:
                tasks = run[: len(rows)]
                statement.allocate(job, tasks, session.assigned(job, tasks, rows))
                return len(rows)
            if placed := self._pipeline_run(scope, run, within, statement):
                return placed
        except AllocationError as error:
            # The books of a plugin are stricter than its filter: try the first task alone, then give up.
            if len(rows) > 1:
                return self._place_run(scope, run[:1], within, statement)
            job.fit_errors[task.cls.id] = FitErrors(len(session.nodes), note=str(error))
            return 0
        errors = session.view(task.cls, job).fit_errors(session.dimensions.names, within)
        if scope.hyper_node is not None and scope.hyper_node.parent is not None:
            errors.hyper_node = scope.hyper_node.name
        job.fit_errors[task.cls.id] = errors
        return 0

    def _pipeline_run(
        self, scope: PlacementScope, run: Sequence[Task], within: Rows | None, statement: Statement
    ) -> int:
        """Pipelines the first tasks of a run of equal tasks that fits nowhere now, until the job waits for terminating
        tasks only. Returns how many found a node. Raises AllocationError if a plugin refuses the first."""
        job, view = scope.job, self._session.view(run[0].cls, scope.job)
        for placed, task in enumerate(run):
            row = view.choose_future(within)
            if row is None:
                return placed
            try:
                statement.pipeline(job, task, row)
            except AllocationError:
                if not placed:
                    raise
                return placed
            if self._pipelined_enough(job, scope.sub_job):
                return placed + 1
        return len(run)

    def _pipeline_on_releasing(
        self, scope: PlacementScope, task: Task, within: Rows | None, statement: Statement
    ) -> int:
        """Pipelines a task that the queue's quota admits once terminating tasks end. Returns how many found a node (0
        or 1).

        Only nodes where terminating tasks release some of every requested resource are considered: reserving idle nodes
        would withhold them from other queues until the termination ends.
        """
        nodes, asked = self._session.nodes, task.cls.request > 0
        leaving: Mask = np.all(nodes.releasing[asked] > nodes.pipelined[asked], axis=0)
        rows: Rows = np.flatnonzero(leaving) if within is None else within[leaving[within]]
        if not len(rows):
            return 0
        view = self._session.view(task.cls, scope.job)
        row = nodes.index.get(task.nominated)
        if row is None or row not in rows or not view.admits_later(row):
            row = view.choose_future(rows)
        if row is None:
            return 0
        try:
            statement.pipeline(scope.job, task, row)
        except AllocationError:
            return 0
        return 1

    def _place_nominated(self, scope: PlacementScope, task: Task, statement: Statement) -> bool:
        row = self._session.nodes.index.get(task.nominated)
        if row is None or (scope.hyper_node is not None and not scope.hyper_node.holds(np.array([row]))):
            return False
        view = self._session.view(task.cls, scope.job)
        try:
            if view.admits(row):
                statement.allocate(scope.job, (task,), (row,))
                return True
            if view.admits_later(row):
                statement.pipeline(scope.job, task, row)
                return True
        except AllocationError:
            pass  # any other node may still do
        except PluginError as error:
            error.add_subject(scope.job, task)
            raise
        return False

    def ungate(self, queue: Queue, job: Job, pending: PendingTasks) -> PendingTasks:
        """Removes the gates of as many tasks as the queue has room for. Returns the tasks that were not gated."""
        gated = PendingTasks([task for task in pending.remaining() if task.gated])
        if not gated:
            return pending
        while gated:
            run = gated.run()
            self._ungate(queue, job, run)
            gated.take(len(run))
        return PendingTasks([task for task in pending.remaining() if not task.gated])

    def _ungate(self, queue: Queue, job: Job, tasks: Sequence[Task]) -> None:
        """Removes the gate of the first tasks of one class, as many as the queue has room for."""
        room = self._session.allocatable(queue, job, tasks[0].cls, len(tasks))
        if room > 0:
            self._session.ungate(job, tasks[:room])
        else:
            self._session.refuse_without_reason(ALLOCATABLE, queue, job, tasks[0].cls)

    def place_on_nominated(self, scope: PlacementScope, pending: PendingTasks, statement: Statement) -> bool:
        """Places all remaining tasks on their nominated nodes. Returns False, and places none, if one does not fit."""
        session, job = self._session, scope.job
        for task in pending.remaining():
            allowed = session.allocatable(scope.queue, job, task.cls, 1) > 0
            allowed = allowed and session.allocatable_now(scope.queue, job, task.cls, 1) > 0
            if not allowed or not self._place_nominated(scope, task, statement):
                statement.discard()
                return False
        pending.take(len(pending.remaining()))
        return True


def _can_still_become_ready(job: Job, sub_job: SubJob | None, pending: PendingTasks) -> bool:
    """Returns whether the job can still become ready after a task found no node (Volcano's NeedContinueAllocating)."""
    if job.min_member == job.size or (sub_job is not None and sub_job.minimum >= len(sub_job.tasks)):
        return False
    if job.has_sub_groups:
        return True
    minimum = job.role_minimum
    if job.min_member < sum(minimum.values()):
        left = sum(1 for t in job.of(TaskStatus.PENDING).values() if t.role not in pending.failed_roles)
        return job.ready_count + left >= job.min_member
    if not minimum:
        return True
    counts = job.role_counts(*READY_STATUSES)
    return all(counts.get(role, 0) >= minimum.get(role, 0) for role in pending.failed_roles)
