"""allocate: places pending tasks on nodes, queue by queue and gang by gang.

The order is Volcano's: allocate places the first job of the first queue until it is ready, then inserts the queue
again. Tasks beyond a job's minimum are placed one at a time, so that queues and jobs interleave fairly.
``placement.gang`` places a gang: ``placement.placer`` chooses nodes, ``placement.domain_search`` chooses HyperNodes,
``placement.reordering`` tries other task orders before a gang is refused.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from scheduler.actions.failed_jobs import FailedJobs, FailedSearch
from scheduler.actions.order import Worklist
from scheduler.actions.placement.domain_search import PendingBySubJob
from scheduler.actions.placement.gang import pending_by_sub_job, place_gang
from scheduler.actions.placement.placer import Placer
from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import ALLOCATABLE, ALLOCATABLE_NOW, NODE_ASSIGNMENT
from scheduler.framework.failures import raise_as
from scheduler.framework.registry import register_action
from scheduler.framework.search_limit import FIRST_COST, SearchLimit
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

_ASKED: Final = (ALLOCATABLE, ALLOCATABLE_NOW)


@register_action
class Allocate:
    """Places pending tasks of the jobs that are admitted to their queues."""

    name: ClassVar[str] = "allocate"

    def __init__(self, arguments: Arguments) -> None:
        self._remember_failures = arguments.boolean("predicateErrorCacheEnable", True)

    def execute(self, session: Session) -> None:
        self._session = session
        self._work: dict[str, PendingBySubJob] = {}
        self._placer = Placer(session, remember_failures=self._remember_failures)
        self._failed: FailedJobs | None = None
        """None: no search has failed since the session changed."""
        worklist = Worklist(session, self._jobs(session))
        while (queue := worklist.next_queue()) is not None:
            refusal = session.overused(queue)
            if refusal is not None:
                for waiting in worklist.remaining_jobs(queue):
                    session.refuse(waiting, refusal)
                continue
            job = worklist.next_job(queue)
            if job is None:
                continue
            try:
                self._serve(queue, job, worklist)
            except Exception as error:  # the code of others may raise anything
                work = list(self._work[job.key].values())
                raise_as(f"action {self.name}", "execute", error, job, work[0].remaining() if len(work) == 1 else ())
            worklist.put_queue(queue)

    def _jobs(self, session: Session) -> Iterable[Job]:
        enqueue = session.configuration.has_action("enqueue")
        ungates = SCHEDULING_GATES_QUEUE_ADMISSION in session.configuration.features
        for job in session.active_jobs.values():
            if job.queue not in session.queues:
                continue
            if job.waiting_for_queue:
                if enqueue:
                    continue
                job.phase = INQUEUE  # also for a PodGroup without Pods: controllers may create them only now
                job.changed = True
            if TaskStatus.PENDING not in job.by_status:
                continue
            refusal = session.job_valid(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            work = self._work_of(job, ungates)
            if work:
                self._work[job.key] = work
                yield job

    def _work_of(self, job: Job, ungates: bool) -> PendingBySubJob:
        """Returns the tasks to place per sub-job; under the key of the job if it has no sub-jobs."""
        session = self._session
        compute = partial(pending_by_sub_job, session, job, ungates=ungates)
        if not session.task_order_is_fixed:
            return compute()
        kept = job.remember("tasks to place", (session.configuration, ungates), compute)
        return {key: pending.copy() for key, pending in kept.items()}

    def _serve(self, queue: Queue, job: Job, worklist: Worklist) -> None:
        session = self._session
        work = self._work[job.key]
        tasks = next(iter(work.values())).remaining() if len(work) == 1 else []
        comparable = self._is_comparable(job, tasks)
        if comparable and self._failed and self._failed.repeat(self._failed.demand(job, tasks), job, tasks):
            return
        if self._is_left_out(job, work):
            return
        statement = self._place(queue, job)
        if statement is None:
            return
        if session.job_ready(job):
            statement.commit()
            if any(self._work[job.key].values()):
                worklist.put_job(job)
        elif not session.job_pipelined(job):
            statement.discard()
            self._count_failure(job, tasks)
            if comparable:
                self._remember_failure(job, tasks)
            return
        # The statement of a pipelined job stays open: its nodes are reserved for this session, and nothing is written.
        self._failed = None

    def _is_left_out(self, job: Job, work: PendingBySubJob) -> bool:
        """Returns whether the whole job waits for its turn in a later session. For a job that can start with any of its
        tasks, the placer decides about each class."""
        tasks = (task for pending in work.values() for task in pending.remaining())
        classes = {task.cls.id: task.cls for task in tasks if not task.gated}.values()
        if len(classes) > 1 and not self._needs_all(job, len(classes)):
            return False
        limit = self._session.once(SearchLimit)
        if limit.admits(job, classes):
            return False
        limit.leave_out_job(job, classes)
        return True

    def _needs_all(self, job: Job, classes: int) -> bool:
        """Returns whether a job may need tasks of all its classes to become ready. If it can do without some, the
        search goes on after a failure, so only a few classes are tried at once."""
        return job.min_member >= job.size or (classes <= FIRST_COST and self._session.job_missing(job) > 1)

    def _count_failure(self, job: Job, tasks: Sequence[Task]) -> None:
        """Counts the tasks whose nodes a failed job gave back: their searches failed, too."""
        limit = self._session.once(SearchLimit)
        for cls in {task.cls.id: task.cls for task in tasks if task.uid in job.transaction}.values():
            limit.failed(job, cls)

    def _is_comparable(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Returns whether an equal job would fail in the same way: this job removes no gates, and nothing was recorded
        about it in this session."""
        session = self._session
        features = session.configuration.features
        if SCHEDULING_GATES_QUEUE_ADMISSION in features or session.functions(NODE_ASSIGNMENT):
            return False
        return bool(tasks) and not (job.fit_errors or job.refusals or job.transaction)

    def _remember_failure(self, job: Job, tasks: Sequence[Task]) -> None:
        if self._failed is None:
            self._failed = FailedJobs(self._session, self.name, _ASKED)
        given = job.transaction
        nodes = {i: given[task.uid] for i, task in enumerate(tasks) if task.uid in given} if given else {}
        found = FailedSearch(nodes, dict(job.fit_errors), job.refusals)
        self._failed.add(self._failed.demand(job, tasks), found)

    def _place(self, queue: Queue, job: Job) -> Statement | None:
        """Places tasks of the job until it is ready or cannot become ready."""
        statement, self._work[job.key] = place_gang(self._session, self._placer, queue, job, self._work[job.key])
        return statement
