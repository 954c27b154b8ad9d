"""allocate: give pending tasks their nodes, queue by queue and gang by gang.

The order of turns is Volcano's: the first queue's first job is placed until it is ready, then the queue goes back into
the order; what a job has beyond its minimum is placed a task a turn, so that queues and jobs interleave fairly. Within
a turn, equal tasks are placed together (ClassView) as far as no plugin could answer differently in between: no more
than the queue may be given, no more than the gang still lacks.
"""

from collections.abc import Iterable
from typing import ClassVar

from scheduler.actions.order import Worklist
from scheduler.api.job import INQUEUE, Job
from scheduler.api.queue import Queue
from scheduler.api.reasons import FitErrors
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.classview import ClassView
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement


class PendingTasks:
    """The tasks of a job still to be placed, in TaskOrder, equal neighbours in runs."""

    def __init__(self, session: Session, tasks: Iterable[Task]) -> None:
        self._tasks: list[Task] = sorted(tasks, key=session.task_key)
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._tasks)

    def run(self) -> list[Task]:
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

    def take(self, number: int) -> None:
        self._position += number


@register_action
class Allocate:
    """Pending tasks of jobs in their queues get nodes."""

    name: ClassVar[str] = "allocate"

    def __init__(self, arguments: Arguments) -> None:
        self._remember_failures = arguments.boolean("predicateErrorCacheEnable", True)

    def execute(self, session: Session) -> None:
        self._session = session
        self._pending: dict[str, PendingTasks] = {}
        worklist = Worklist(session, self._jobs(session))
        while (queue := worklist.next_queue()) is not None:
            refusal = session.overused(queue)
            if refusal is not None:
                for waiting in worklist.rest_of(queue):
                    session.refuse(waiting, refusal)
                continue
            job = worklist.next_job(queue)
            if job is None:
                continue
            self._turn(queue, job, worklist)
            worklist.put_queue(queue)

    def _jobs(self, session: Session) -> Iterable[Job]:
        enqueue = session.configuration.has_action("enqueue")
        for job in session.jobs.values():
            if TaskStatus.PENDING not in job.by_status or job.queue not in session.queues:
                continue
            if job.waiting_for_queue:
                if enqueue:
                    continue
                job.phase = INQUEUE
                job.changed = True
            refusal = session.job_valid(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            tasks = [t for t in job.by_status[TaskStatus.PENDING].values() if not t.gated and not t.cls.best_effort]
            if tasks:
                self._pending[job.key] = PendingTasks(session, tasks)
                yield job

    def _turn(self, queue: Queue, job: Job, worklist: Worklist) -> None:
        session = self._session
        statement = session.statement()
        self._place(queue, job, statement)
        if session.job_ready(job):
            statement.commit()
            if self._pending[job.key]:
                worklist.put_job(job)
        elif not session.job_pipelined(job):
            statement.discard()
        # A job that is pipelined keeps its promises for the rest of the session, and nothing is carried out.

    def _place(self, queue: Queue, job: Job, statement: Statement) -> None:
        """Place tasks until the job is ready, or cannot become so."""
        session, pending = self._session, self._pending[job.key]
        while pending:
            run = pending.run()
            task = run[0]
            cls = task.cls
            if self._remember_failures and task.role and task.role in job.failed_roles:
                pending.take(len(run))
                continue
            wanted = min(len(run), max(session.job_missing(job), 1))
            wanted = session.allocatable(queue, job, cls, wanted)
            if wanted <= 0:
                pending.take(len(run))
                continue
            placed = self._place_run(job, run[:wanted], statement)
            pending.take(placed or len(run))  # where one of a run fits nowhere, none of it does
            if not placed:
                job.failed_roles.add(task.role)
                if not self._may_go_on(job):
                    return
            if session.job_ready(job):
                return

    def _place_run(self, job: Job, run: list[Task], statement: Statement) -> int:
        """Place the first tasks of a run of equal ones; how many found a node. 0: the first of them fits nowhere."""
        session = self._session
        task = run[0]
        view = session.view(task.cls, job)
        if task.nominated and self._place_nominated(job, task, view, statement):
            return 1
        rows = view.choose(len(run))
        try:
            if rows:
                statement.allocate(job, run[: len(rows)], rows)
                return len(rows)
            row = view.choose_future()
            if row is not None:
                statement.pipeline(job, task, row)
                return 1
        except AllocationError as error:
            # The books of a plugin know better than its filter: try the first task alone, then give up.
            if len(rows) > 1:
                return self._place_run(job, run[:1], statement)
            job.fit_errors[task.cls.id] = FitErrors(len(session.nodes), note=str(error))
            return 0
        job.fit_errors[task.cls.id] = view.fit_errors(session.dimensions.names)
        return 0

    def _place_nominated(self, job: Job, task: Task, view: ClassView, statement: Statement) -> bool:
        row = self._session.nodes.index.get(task.nominated)
        if row is None:
            return False
        now, later = view.admits(row)
        try:
            if now:
                statement.allocate(job, (task,), (row,))
            elif later:
                statement.pipeline(job, task, row)
        except AllocationError:
            return False  # any other node may still do
        return now or later

    def _may_go_on(self, job: Job) -> bool:
        """After a task found no node: whether the rest of the job could still make it ready."""
        if job.min_member == job.size:
            return False
        minimum: dict[str, int] = dict(job.role_minimum)
        if job.min_member < sum(minimum.values()):
            hopeful = sum(1 for t in job.of(TaskStatus.PENDING).values() if t.role not in job.failed_roles)
            return job.ready_count + hopeful >= job.min_member
        if not minimum:
            return True
        counts = job.role_counts(*READY_STATUSES)
        return all(counts.get(role, 0) >= minimum.get(role, 0) for role in job.failed_roles)
