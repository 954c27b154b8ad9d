"""backfill: places best-effort tasks, which request no resources.

Only predicates decide, neither the queue's quota nor the node's idle amounts (Volcano's backfill action). As soon as a
job is ready with its best-effort tasks, backfill binds all of its allocated tasks. A best-effort task that preempt
pipelined without an eviction is placed again, because it need not wait.
"""

from typing import ClassVar

from scheduler.actions.order import Worklist
from scheduler.api.job import Job
from scheduler.api.reasons import FitErrors
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.failures import PluginError, raise_as
from scheduler.framework.registry import register_action
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError


@register_action
class Backfill:
    """Places best-effort tasks of the jobs that are admitted to their queues."""

    name: ClassVar[str] = "backfill"

    def execute(self, session: Session) -> None:
        worklist = Worklist(session, (job for job in session.active_jobs.values() if self._is_candidate(session, job)))
        while (queue := worklist.next_queue()) is not None:
            while (job := worklist.next_job(queue)) is not None:
                self._place(session, job)

    @staticmethod
    def _is_candidate(session: Session, job: Job) -> bool:
        return bool(
            (job.pending_best_effort or TaskStatus.PIPELINED in job.by_status)
            and not job.waiting_for_queue
            and job.queue in session.queues
            and session.job_valid(job) is None
        )

    def _place(self, session: Session, job: Job) -> None:
        for task in [t for t in job.of(TaskStatus.PIPELINED).values() if t.cls.best_effort]:
            if task.uid not in job.nominated:
                session.statement().withdraw(job, task)
        pending = [t for t in job.of(TaskStatus.PENDING).values() if t.cls.best_effort and not t.gated]
        try:
            for task in sorted(pending, key=session.task_key):
                self._place_task(session, job, task)
            if session.job_ready(job):
                self._bind_allocated(session, job)
        except Exception as error:  # the code of others may raise anything
            raise_as(f"action {self.name}", "execute", error, job, pending)

    @staticmethod
    def _place_task(session: Session, job: Job, task: Task) -> None:
        limit = session.once(SearchLimit)
        if not limit.admits(job, (task.cls,)):
            limit.leave_out(job, task.cls)
            return
        rows = session.choose(task.cls, job, 1)
        if not rows:
            try:
                job.fit_errors[task.cls.id] = session.view(task.cls, job).fit_errors(session.dimensions.names)
            except PluginError as error:
                error.add_subject(job, task)
                raise
            limit.failed(job, task.cls)
            return
        try:
            session.statement().allocate(job, (task,), rows)
        except AllocationError as error:
            job.fit_errors[task.cls.id] = FitErrors(len(session.nodes), note=str(error))

    @staticmethod
    def _bind_allocated(session: Session, job: Job) -> None:
        allocated = list(job.of(TaskStatus.ALLOCATED).values())
        if allocated:
            session.bind([(job, allocated, [job.placed[task.uid] for task in allocated])])
