"""preempt: starving jobs preempt tasks of other jobs in their own queue, and tasks of their own.

First each job evicts tasks of other jobs in its queue, all or nothing: the evictions are discarded unless the job
becomes ready. Then its tasks evict other tasks of the job, one by one. Plugins decide which tasks are victims
(PREEMPTABLE). The preemptor is pipelined until its victims have terminated, and its Pod gets the node as nominated. A
job that needs no eviction is left to allocate. After many evictions, the other jobs are left to the next session.
"""

from typing import ClassVar

from scheduler.actions.eviction.eligibility import pending_tasks, starving_jobs
from scheduler.actions.eviction.policy import EvictionLimit, EvictionPolicy
from scheduler.actions.eviction.task_evictor import NodeComparison, TaskEvictor
from scheduler.actions.order import Worklist
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import PREEMPTABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class Preempt:
    """Evicts tasks in favour of starving jobs of their queue. Jobs with a network topology do not preempt, because
    single nodes anywhere in the network are of no use to them.

    Argument ``enableTopologyAwarePreemption`` (default false): choose the node with the cheapest victims among several
    (``minCandidateNodesPercentage`` 10, ``minCandidateNodesAbsolute`` 1, ``maxCandidateNodesAbsolute`` 100) instead of
    the node with the highest score.
    """

    name: ClassVar[str] = "preempt"

    def __init__(self, arguments: Arguments) -> None:
        comparison = NodeComparison(
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
        )
        self._comparison = comparison if arguments.boolean("enableTopologyAwarePreemption", False) else None

    def execute(self, session: Session) -> None:
        self._session = session
        worklist = Worklist(session, (job for job in starving_jobs(session) if not job.has_topology))
        limit = EvictionLimit(session)
        while not limit.reached() and (queue := worklist.next_queue()) is not None:
            jobs = []
            others = self._evictor()
            while not limit.reached() and (job := worklist.next_job(queue)) is not None:
                self._preempt_other_jobs(job, others)
                jobs.append(job)
            for job in jobs:
                self._preempt_own_tasks(job)

    def _evictor(self) -> TaskEvictor:
        policy = EvictionPolicy(self._session, PREEMPTABLE, self.name, EVENT_PREEMPTED, across_queues=False)
        return TaskEvictor(policy, ranked=True, comparison=self._comparison)

    def _preempt_other_jobs(self, job: Job, evictor: TaskEvictor) -> None:
        """Evict tasks of other jobs in the queue until the job no longer starves; discard unless it becomes ready."""
        session, candidates = self._session, self._session.eviction_candidates
        scope = candidates.preemptable & candidates.of_queues(job.queue.__eq__) & ~candidates.own(job.key)
        statement = session.statement()
        for task in pending_tasks(session, job):
            if not session.job_starving(job):
                break
            evictor.make_room(job, task, self._allowed_victims(task, scope), statement)
        if statement.evicts and session.job_pipelined(job):
            statement.commit()
        elif statement:
            statement.discard()
            evictor.forget_failures()

    def _preempt_own_tasks(self, job: Job) -> None:
        """Evict tasks of the job in favour of its other tasks, as long as that succeeds."""
        session, candidates = self._session, self._session.eviction_candidates
        scope = candidates.preemptable & candidates.own(job.key)
        if not scope.any():
            return  # as for most waiting gangs, which have no task that runs
        evictor = self._evictor()
        for task in pending_tasks(session, job):
            statement = session.statement()
            if not evictor.make_room(job, task, self._allowed_victims(task, scope), statement):
                return
            if statement.evicts:
                statement.commit()
            else:
                statement.discard()

    def _allowed_victims(self, task: Task, scope: Mask) -> Mask:
        """Best-effort tasks evict only best-effort tasks."""
        return scope & self._session.eviction_candidates.best_effort if task.cls.best_effort else scope
