"""gangreclaim: gangs of queues that have less than they deserve take nodes back from others, all at once.

What reclaim does task by task is worked out for the whole gang before anybody is evicted, as by gangpreempt.
"""

from functools import partial
from typing import ClassVar

from scheduler.actions.bundles import worst_queue_first
from scheduler.actions.eviction import contenders, of_other_queues
from scheduler.actions.gang_eviction import GangRoomMaker
from scheduler.actions.order import Worklist
from scheduler.actions.trial import Terms
from scheduler.api.names import EVENT_RECLAIMED
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import UNIFIED_EVICTABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class GangReclaim:
    """Starving gangs evict bundles of running tasks of other queues. The arguments are those of ``GangRoomMaker``."""

    name: ClassVar[str] = "gangreclaim"

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        terms = Terms(session, UNIFIED_EVICTABLE, self.name, EVENT_RECLAIMED, across_queues=True)
        rooms = GangRoomMaker(terms, self._arguments)
        worklist = Worklist(session, contenders(session))
        while (queue := worklist.next_queue()) is not None:
            if session.overused(queue) is not None:
                continue
            ordered = partial(worst_queue_first, session, queue)
            while (job := worklist.next_job(queue)) is not None:
                rooms.make_room(job, of_other_queues(session, queue), ordered)
