"""Places the gang of one job in a statement, as the action allocate does and as alternatives are tried."""

from scheduler.actions.placement.domain_search import DomainSearch, PendingBySubJob
from scheduler.actions.placement.placer import PendingTasks, PlacementScope, Placer, gated_tasks, waiting_tasks
from scheduler.actions.placement.reordering import place_in_other_orders
from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.task import Task
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement


def pending_by_sub_job(session: Session, job: Job, *, ungates: bool = False) -> PendingBySubJob:
    """Returns the tasks to place per sub-job; under the key of the job if it has no sub-jobs. ``ungates``: with the
    tasks whose scheduling gate is removed when their queue has room."""
    tasks = waiting_tasks(job)
    if ungates:
        tasks += gated_tasks(job)
    parts: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=session.task_key):
        sub_job = job.sub_job_of.get(task.uid)
        parts.setdefault(job.key if sub_job is None else sub_job.key, []).append(task)
    found = {key: PendingTasks(part) for key, part in parts.items()}
    for pending in found.values():
        pending.run()  # its copies know the end of the first run
    return found


def place_gang(
    session: Session, placer: Placer, queue: Queue, job: Job, work: PendingBySubJob
) -> tuple[Statement | None, PendingBySubJob]:
    """Places tasks of the job until it is ready or cannot become ready. Returns the open statement (None: nothing is
    placed), and what remains to be placed. ``work``: the tasks to place, at least one."""
    if job.has_sub_groups or job.has_tier_limit:
        # Tasks are tried in several HyperNodes; gates are removed once, before that.
        left = {key: placer.ungate(queue, job, pending) for key, pending in work.items()}
        work = {key: pending for key, pending in left.items() if pending}
        placement = DomainSearch(session, placer, queue, job).place(work) if work else None
        return (None, work) if placement is None else (placement.statement, placement.remaining)
    ((key, pending),) = work.items()
    statement = session.statement()
    sub_job = job.sub_jobs.get(key)
    around = session.hyper_nodes.top if sub_job is not None else None
    scope = PlacementScope(queue, job, sub_job, around)
    before = pending.copy() if session.job_missing(job) > 1 else None
    failed = placer.place(scope, pending, statement)
    if before and failed is not None and statement and not (session.job_ready(job) or session.job_pipelined(job)):
        found = place_in_other_orders(session, placer, scope, before, statement)
        if found is not None:
            statement, work[key] = found
    return statement, work
