"""gangreclaim: starving gangs reclaim resources from other queues, a whole gang at a time.

Unlike reclaim, it finds room for the whole gang before it evicts a task, as gangpreempt does.
"""

from functools import partial
from typing import ClassVar

from scheduler.actions.eviction.bundles import by_victim_queue_order
from scheduler.actions.eviction.eligibility import reclaimable_candidates, starving_jobs
from scheduler.actions.eviction.gang_evictor import GangEvictor
from scheduler.actions.eviction.policy import EvictionPolicy
from scheduler.actions.order import Worklist
from scheduler.api.names import EVENT_RECLAIMED
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import UNIFIED_EVICTABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class GangReclaim:
    """Evicts bundles of running tasks of other queues in favour of starving gangs. See ``GangEvictor`` for the
    arguments."""

    name: ClassVar[str] = "gangreclaim"

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        policy = EvictionPolicy(session, UNIFIED_EVICTABLE, self.name, EVENT_RECLAIMED, across_queues=True)
        evictor = GangEvictor(policy, self._arguments)
        worklist = Worklist(session, starving_jobs(session))
        while (queue := worklist.next_queue()) is not None:
            if session.overused(queue) is not None:
                continue
            ordered = partial(by_victim_queue_order, session, queue)
            while (job := worklist.next_job(queue)) is not None:
                evictor.make_room(job, reclaimable_candidates(session, queue), ordered)
