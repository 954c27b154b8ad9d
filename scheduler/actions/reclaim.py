"""reclaim: queues below their deserved share reclaim resources from queues above theirs.

Plugins decide which queues may reclaim (OVERUSED, PREEMPTIVE) and which tasks are victims (RECLAIMABLE). Queues that
are not reclaimable lose nothing. Nodes are tried in name order, and the first that can be opened is used. A job that
needs no eviction is left to allocate. After many evictions, the other jobs are left to the next session.
"""

from typing import ClassVar, Final

from scheduler.actions.eviction.eligibility import pending_tasks, reclaimable_candidates, starving_jobs
from scheduler.actions.eviction.policy import EvictionLimit, EvictionPolicy
from scheduler.actions.eviction.task_evictor import TaskEvictor
from scheduler.actions.failed_jobs import FailedJobs, FailedSearch
from scheduler.actions.order import Worklist
from scheduler.api.job import Job
from scheduler.api.names import EVENT_RECLAIMED
from scheduler.api.queue import Queue
from scheduler.framework.extension import JOB_STARVING, PREEMPTIVE, RECLAIMABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session

_ASKED: Final = (RECLAIMABLE, JOB_STARVING, PREEMPTIVE)


@register_action
class Reclaim:
    """Evicts running tasks of other queues in favour of starving jobs."""

    name: ClassVar[str] = "reclaim"

    def execute(self, session: Session) -> None:
        self._session = session
        policy = EvictionPolicy(session, RECLAIMABLE, self.name, EVENT_RECLAIMED, across_queues=True)
        worklist = Worklist(session, starving_jobs(session))
        limit = EvictionLimit(session)
        while not limit.reached() and (queue := worklist.next_queue()) is not None:
            if session.overused(queue) is not None:
                continue
            evictor, failed = TaskEvictor(policy, ranked=False), FailedJobs(session, self.name, _ASKED)
            while not limit.reached() and (job := worklist.next_job(queue)) is not None:
                self._reclaim(queue, job, evictor, failed)

    def _reclaim(self, queue: Queue, job: Job, evictor: TaskEvictor, failed: FailedJobs) -> None:
        session = self._session
        tasks = pending_tasks(session, job)
        demand = failed.demand(job, tasks)
        if failed.repeat(demand, job, tasks):
            return
        scope = reclaimable_candidates(session, queue)
        statement = session.statement()
        placed: set[str] = set()
        for task in tasks:
            if not session.job_starving(job):
                break
            if session.preemptive(queue, (task,)) and evictor.make_room(job, task, scope, statement):
                placed.add(task.uid)
        if statement.evicts and session.job_pipelined(job):
            statement.commit()
            failed.clear()
            return
        if statement:
            statement.discard()
            evictor.forget_failures()
        nodes = {i: job.transaction[task.uid] for i, task in enumerate(tasks) if task.uid in placed}
        failed.add(demand, FailedSearch(nodes))
