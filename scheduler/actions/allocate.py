"""allocate: give pending tasks their nodes, queue by queue and gang by gang.

The order of turns is Volcano's: the first queue's first job is placed until it is ready, then the queue goes back into
the order; what a job has beyond its minimum is placed a task a turn, so that queues and jobs interleave fairly. How
tasks are placed on nodes is in ``placing``, how jobs find their part of the network in ``domains``, what is tried
before a gang is given up in ``reordering``.
"""

from collections.abc import Iterable
from typing import ClassVar

from scheduler.actions.domains import DomainSearch, Work
from scheduler.actions.order import Worklist
from scheduler.actions.placing import Ground, PendingTasks, Placer, gated_tasks, waiting_tasks
from scheduler.actions.reordering import Reordering
from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement


@register_action
class Allocate:
    """Pending tasks of jobs in their queues get nodes."""

    name: ClassVar[str] = "allocate"

    def __init__(self, arguments: Arguments) -> None:
        self._remember_failures = arguments.boolean("predicateErrorCacheEnable", True)

    def execute(self, session: Session) -> None:
        self._session = session
        self._work: dict[str, Work] = {}
        self._placer = Placer(session, remember_failures=self._remember_failures)
        self._domains = DomainSearch(session, self._placer)
        self._reordering = Reordering(session, self._placer)
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
        ungates = SCHEDULING_GATES_QUEUE_ADMISSION in session.configuration.features
        for job in session.jobs.values():
            if job.queue not in session.queues:
                continue
            if job.waiting_for_queue:
                if enqueue:
                    continue
                job.phase = INQUEUE  # also of a PodGroup without Pods: they may be made only then
                job.changed = True
            if TaskStatus.PENDING not in job.by_status:
                continue
            refusal = session.job_valid(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            tasks = waiting_tasks(job)
            if ungates:
                tasks += gated_tasks(job)
            if tasks:
                self._work[job.key] = self._sorted_out(job, tasks)
                yield job

    def _sorted_out(self, job: Job, tasks: list[Task]) -> Work:
        """The tasks by sub-job; under the job's own key where it has none."""
        parts: dict[str, list[Task]] = {}
        for task in sorted(tasks, key=self._session.task_key):
            sub_job = job.sub_job_of.get(task.uid)
            parts.setdefault(job.key if sub_job is None else sub_job.key, []).append(task)
        return {key: PendingTasks(part) for key, part in parts.items()}

    def _turn(self, queue: Queue, job: Job, worklist: Worklist) -> None:
        session = self._session
        statement = self._place(queue, job)
        if statement is None:
            return
        if session.job_ready(job):
            statement.commit()
            if any(self._work[job.key].values()):
                worklist.put_job(job)
        elif not session.job_pipelined(job):
            statement.discard()
        # A job that is pipelined keeps its promises for the rest of the session, and nothing is carried out.

    def _place(self, queue: Queue, job: Job) -> Statement | None:
        """Place tasks of the job until it is ready, or cannot become so."""
        work = self._work[job.key]
        if job.grouped or job.confined:
            # Tasks are tried in one HyperNode after the other; gates are taken off once, before that.
            left = {key: self._placer.ungate_first(queue, job, pending) for key, pending in work.items()}
            work = self._work[job.key] = {key: pending for key, pending in left.items() if pending}
            solution = self._domains.place(queue, job, work) if work else None
            if solution is None:
                return None
            self._work[job.key] = solution.left
            return solution.statement
        session = self._session
        ((key, pending),) = work.items()
        statement = session.statement()
        sub_job = job.sub_jobs.get(key)
        around = session.hyper_nodes.top if sub_job is not None else None
        ground = Ground(queue, job, sub_job, around)
        before = pending.copy() if session.job_missing(job) > 1 else None
        failed = self._placer.place(ground, pending, statement)
        if before and failed is not None and statement and not (session.job_ready(job) or session.job_pipelined(job)):
            found = self._reordering.place(ground, before, statement)
            if found is not None:
                statement, work[key] = found
        return statement
