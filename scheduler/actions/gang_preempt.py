"""gangpreempt: gangs that starve take the nodes of less important jobs of their own queue, all at once.

Unlike preempt it works out room for the whole gang before anybody is evicted: it takes what other gangs can spare, and
breaks one only where that is not enough.
"""

from typing import ClassVar

from scheduler.actions.bundles import worst_job_first
from scheduler.actions.eviction import contenders
from scheduler.actions.gang_eviction import GangRoomMaker
from scheduler.actions.order import Worklist
from scheduler.actions.trial import Terms
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED
from scheduler.api.node import Mask
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import UNIFIED_EVICTABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class GangPreempt:
    """Starving gangs evict bundles of tasks of their own queue. The arguments are those of ``GangRoomMaker``."""

    name: ClassVar[str] = "gangpreempt"

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        self._session = session
        terms = Terms(session, UNIFIED_EVICTABLE, self.name, EVENT_PREEMPTED, across_queues=False)
        rooms = GangRoomMaker(terms, self._arguments)
        worklist = Worklist(session, contenders(session))
        while (queue := worklist.next_queue()) is not None:
            while (job := worklist.next_job(queue)) is not None:
                rooms.make_room(job, self._scope(job), lambda bundles, need: worst_job_first(session, bundles))

    def _scope(self, job: Job) -> Mask:
        tenants = self._session.tenants
        less_important: Mask = tenants.per_job(_priority) < job.priority
        return tenants.preemptable & tenants.of_queues(job.queue.__eq__) & less_important


def _priority(job: Job) -> int:
    return job.priority
