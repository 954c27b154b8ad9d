"""reclaim: queues that have less than they deserve take nodes back from queues that have more.

Which queue has less is the plugins' word (OVERUSED, PREEMPTIVE), and so is whom it may take from (RECLAIMABLE). Queues
that are not reclaimable lose nothing. Nodes are taken in name order: the first on which enough can be had. A job for
which nobody need go is left to allocate.
"""

from typing import ClassVar

from scheduler.actions.eviction import RoomMaker, contenders, of_other_queues, waiting
from scheduler.actions.order import Worklist
from scheduler.actions.trial import Terms
from scheduler.api.job import Job
from scheduler.api.names import EVENT_RECLAIMED
from scheduler.api.queue import Queue
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import RECLAIMABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class Reclaim:
    """Starving jobs evict running tasks of other queues."""

    name: ClassVar[str] = "reclaim"

    def __init__(self, arguments: Arguments) -> None:
        del arguments  # takes none

    def execute(self, session: Session) -> None:
        self._session = session
        terms = Terms(session, RECLAIMABLE, self.name, EVENT_RECLAIMED, across_queues=True)
        worklist = Worklist(session, contenders(session))
        while (queue := worklist.next_queue()) is not None:
            if session.overused(queue) is not None:
                continue
            rooms = RoomMaker(terms, ranked=False)
            while (job := worklist.next_job(queue)) is not None:
                self._take_from_other_queues(queue, job, rooms)

    def _take_from_other_queues(self, queue: Queue, job: Job, rooms: RoomMaker) -> None:
        session = self._session
        scope = of_other_queues(session, queue)
        statement = session.statement()
        for task in waiting(session, job):
            if not session.job_starving(job):
                break
            if session.preemptive(queue, (task,)):
                rooms.make_room(job, task, scope, statement)
        if statement.evicts and session.job_pipelined(job):
            statement.commit()
        elif statement:
            statement.discard()
            rooms.forget()
