"""The search that all policies share: which jobs it serves, and what it evicts for them.

It goes through the queues, their starving jobs, and the tasks or the gang of each. First it looks for room without an
eviction, then for evictions that leave other queues as much as possible of what they deserve: it tries the protections
from the strictest to the weakest, each everywhere, so that no queue falls below what it deserves while evictions
elsewhere would do. A search that failed is not repeated until the session changes. What a job gets is committed only if
it is enough.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property, partial

from scheduler.actions.eviction.feasibility import compared_resources
from scheduler.actions.eviction.gang_room import parts_to_place
from scheduler.actions.eviction.gang_search import RoomForGang
from scheduler.actions.eviction.node_search import ImpossibleNodes, NodeSearch
from scheduler.actions.eviction.policy import (
    BundleOrder,
    Enough,
    EvictionPolicy,
    EvictionRules,
    Preemptor,
    without_side_effects,
)
from scheduler.actions.failed_jobs import FailedJobs, FailedSearch
from scheduler.actions.order import Worklist
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.queue import Queue
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.failures import raise_as
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

NEVER = "Never"
"""preemptionPolicy of Pods that do not evict others."""
MAX_EVICTIONS = 1500
"""Evictions that an action decides in one session before it leaves the other jobs to the next session. Gang actions
have no limit."""


def serve_starving_jobs(session: Session, first: EvictionPolicy, *others: EvictionPolicy) -> None:
    """Evicts for the starving jobs of all queues: in each queue for all of its jobs under the first policy, then for
    each of them under the others."""
    jobs = (job for job in _starving_jobs(session) if first.serves(job))
    worklist, limit = Worklist(session, jobs), _EvictionLimit(session, first)
    while not limit.reached() and (queue := worklist.next_queue()) is not None:
        if first.across_queues and session.overused(queue) is not None:
            continue
        served, solver = [], Solver(session, first, queue)
        while not limit.reached() and (job := worklist.next_job(queue)) is not None:
            solver.serve(job)
            served.append(job)
        for policy in others:
            solver = Solver(session, policy, queue)
            for job in served:
                solver.serve(job)


def _starving_jobs(session: Session) -> Iterator[Job]:
    """Yields the valid jobs that are admitted to their queues, have pending tasks and starve (JOB_STARVING)."""
    for job in session.jobs.values():
        if (
            TaskStatus.PENDING in job.by_status
            and not job.waiting_for_queue
            and job.queue in session.queues
            and session.job_starving(job)
            and session.job_valid(job) is None
        ):
            yield job


class _EvictionLimit:
    """Keeps sessions short while thousands of Pods are evicted: the API server carries out about a thousand evictions
    per second, so more of them in one session delay the first ones and gain nothing."""

    def __init__(self, session: Session, policy: EvictionPolicy) -> None:
        """Counts the evictions that are decided from now on."""
        self._evictions = session.decisions.evictions
        self._before = len(self._evictions)
        self._limited = policy.enough is not Enough.GANG

    def reached(self) -> bool:
        return self._limited and len(self._evictions) - self._before >= MAX_EVICTIONS


class Solver:
    """Evicts for jobs of one queue under one policy."""

    def __init__(self, session: Session, policy: EvictionPolicy, queue: Queue) -> None:
        self._session = session
        self._policy = policy
        self._queue = queue
        self._rules = rules = EvictionRules(session, policy)
        order = policy.order
        self._impossible: ImpossibleNodes = {}
        self._room_for = (
            partial(RoomForGang, rules, order)
            if isinstance(order, BundleOrder)
            else NodeSearch(rules, order, self._impossible).room_for
        )
        self._failed: set[Hashable] = set()
        """Demands for which there is no room. They hold until the session changes."""
        self._failed_jobs = FailedJobs(session, policy.action, policy.asked_of_jobs)

    @cached_property
    def _from_queues(self) -> Mask:
        return self._policy.from_queues(self._session, self._queue)

    def _scope(self, job: Job) -> Mask:
        """Returns the candidates that may be evicted for a job."""
        return self._policy.of_jobs(self._session, job, self._from_queues)

    def serve(self, job: Job) -> None:
        """Evicts for a job, if that makes enough room for it."""
        match self._policy.enough:
            case Enough.TASK:
                self._serve_each_task(job)
            case Enough.JOB:
                self._serve_job(job)
            case Enough.GANG:
                self._serve_gang(job)

    # --- how much is enough ---
    def _serve_each_task(self, job: Job) -> None:
        """Evicts for the tasks one after another, as long as that succeeds."""
        scope = self._scope(job)
        if not scope.any():
            return  # as for most waiting gangs, which have no task that runs
        for task in self._pending_tasks(job):
            statement = self._session.statement()
            if not self.make_room(Preemptor(job, (task,)), scope, statement):
                return
            if statement.evicts:
                statement.commit()
            else:
                statement.discard()

    def _serve_job(self, job: Job) -> None:
        """Evicts for one task after another until the job starves no longer. Takes all back if the job is not ready
        then, or if no eviction is needed: it is left to allocate."""
        session, tasks, failed = self._session, self._pending_tasks(job), self._failed_jobs
        demand = failed.demand(job, tasks)
        if failed.repeat(demand, job, tasks):
            return
        scope = self._scope(job)
        statement = session.statement()
        placed: set[str] = set()
        changed = True
        for task in tasks:
            if changed and not session.job_starving(job):
                break
            changed = self.make_room(Preemptor(job, (task,)), scope, statement)
            if changed:
                placed.add(task.uid)
        if statement.evicts and session.job_pipelined(job):
            statement.commit()
            failed.clear()
            return
        if statement:
            statement.discard()
            self._forget_failures()
        nodes = {i: job.transaction[task.uid] for i, task in enumerate(tasks) if task.uid in placed}
        failed.add(demand, FailedSearch(nodes))

    def _serve_gang(self, job: Job) -> None:
        """Evicts for all waiting tasks of the job at once."""
        parts, statement = parts_to_place(self._session, job), self._session.statement()
        tasks = [task for _, part in parts for task in part]
        if tasks and self.make_room(Preemptor(job, tasks, parts), self._scope(job), statement):
            statement.commit()

    def _pending_tasks(self, job: Job) -> list[Task]:
        """Returns the pending tasks of a job that are not gated, in task order."""
        return sorted((t for t in job.of(TaskStatus.PENDING).values() if not t.gated), key=self._session.task_key)

    # --- the search ---
    def make_room(self, preemptor: Preemptor, scope: Mask, statement: Statement) -> bool:
        """Pipelines the tasks of a preemptor and evicts candidates of the mask ``scope`` as needed, in ``statement``.
        Returns whether there was room for the tasks, or none but what allocate will use."""
        session, job, tasks = self._session, preemptor.job, preemptor.tasks
        if self._policy.best_effort_apart and tasks[0].cls.best_effort:
            scope = scope & session.eviction_candidates.best_effort
        room = self._room_for(preemptor, scope)
        if room.demand in self._failed:
            return False
        if any(task.cls.spec.preemption_policy == NEVER for task in tasks) or can_wait(session, tasks):
            return False
        if self._policy.across_queues and not session.preemptive(self._queue, tasks):
            return False
        limit, classes = session.once(SearchLimit), preemptor.classes
        if not limit.admits(job, classes):
            return False
        try:
            with without_side_effects(job, tasks):
                found = room.without_evictions()
                for protection in self._rules.protections if found is None else ():
                    if (found := room.with_evictions(protection)) is not None:
                        break
        except Exception as error:  # the code of others may raise anything
            raise_as(f"action {self._policy.action}", "execute", error, job, tasks[0] if len(tasks) == 1 else tasks)
        if found is None:
            self._failed.add(room.demand)
            for cls in classes:
                limit.failed(job, cls)
            return False
        if found:
            statement.merge(found)
            self._forget_failures()
            for cls in classes:
                limit.placed(job, cls)
        return True

    def _forget_failures(self) -> None:
        """Forgets the failed searches. It is called when the session changed, also when a statement was discarded."""
        self._failed.clear()
        self._impossible.clear()


def can_wait(session: Session, tasks: Sequence[Task]) -> bool:
    """Whether every task has a nominated node with enough room for it once the terminating tasks there end.

    Such tasks need no further eviction. False if no task terminates on these nodes.
    """
    if not all(task.nominated for task in tasks):
        return False
    nodes = session.nodes
    rows = [nodes.index.get(task.nominated) for task in tasks]
    left = {row: nodes.future_idle_of(row) for row in rows if row is not None}
    for task, row in zip(tasks, rows, strict=True):
        if row is None:
            return False
        left[row] -= task.cls.request
        if (left[row][compared_resources(task.cls.request)] < 0).any():
            return False
    return bool(nodes.releasing[PODS_INDEX, list(left)].any())
