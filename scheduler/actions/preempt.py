"""preempt: jobs that starve take nodes from less important ones of their own queue, and within themselves.

First each job takes from the others of its queue, all or nothing: what it could not be started with is undone. Then its
tasks take from other tasks of the same job, one by one. Whom they may take from is the plugins' word (PREEMPTABLE).
Evicted tasks need time to go: the preemptor is promised its place, and the node is written on its Pod as nominated.
A job for which nobody need go is left to allocate.
"""

from typing import ClassVar

from scheduler.actions.eviction import RoomMaker, Survey, contenders, waiting
from scheduler.actions.order import Worklist
from scheduler.actions.trial import Terms
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
    """Starving jobs evict tasks of their own queue. Those that ask for a network topology do not: a node here and one
    there are of no use to them.

    Argument ``enableTopologyAwarePreemption`` (default false): do not take the best node by score but, of so many nodes
    that can be had (``minCandidateNodesPercentage`` 10, ``minCandidateNodesAbsolute`` 1, ``maxCandidateNodesAbsolute``
    100), the one whose victims matter least.
    """

    name: ClassVar[str] = "preempt"

    def __init__(self, arguments: Arguments) -> None:
        survey = Survey(
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
        )
        self._survey = survey if arguments.boolean("enableTopologyAwarePreemption", False) else None

    def execute(self, session: Session) -> None:
        self._session = session
        worklist = Worklist(session, (job for job in contenders(session) if not job.has_topology))
        while (queue := worklist.next_queue()) is not None:
            jobs = []
            others = self._room_maker()
            while (job := worklist.next_job(queue)) is not None:
                self._take_from_others(job, others)
                jobs.append(job)
            for job in jobs:
                self._take_from_itself(job, self._room_maker())

    def _room_maker(self) -> RoomMaker:
        terms = Terms(self._session, PREEMPTABLE, self.name, EVENT_PREEMPTED, across_queues=False)
        return RoomMaker(terms, ranked=True, survey=self._survey)

    def _take_from_others(self, job: Job, rooms: RoomMaker) -> None:
        """Evict tasks of other jobs of the queue until the job need not starve, if that lets it start."""
        session, tenants = self._session, self._session.tenants
        scope = tenants.preemptable & tenants.of_queues(job.queue.__eq__) & ~tenants.own(job.key)
        statement = session.statement()
        for task in waiting(session, job):
            if not session.job_starving(job):
                break
            rooms.make_room(job, task, self._reach(task, scope), statement)
        if statement.evicts and session.job_pipelined(job):
            statement.commit()
        elif statement:
            statement.discard()
            rooms.forget()

    def _take_from_itself(self, job: Job, rooms: RoomMaker) -> None:
        """Evict tasks of the job for others of it, for as long as that succeeds."""
        session, tenants = self._session, self._session.tenants
        scope = tenants.preemptable & tenants.own(job.key)
        for task in waiting(session, job):
            statement = session.statement()
            if not rooms.make_room(job, task, self._reach(task, scope), statement):
                return
            if statement.evicts:
                statement.commit()
            else:
                statement.discard()

    def _reach(self, task: Task, scope: Mask) -> Mask:
        """A task that asks for nothing takes nothing from those that do."""
        return scope & self._session.tenants.best_effort if task.cls.best_effort else scope
