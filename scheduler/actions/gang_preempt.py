"""gangpreempt: starving gangs preempt jobs of lower priority in their own queue, a whole gang at a time.

Unlike preempt, it finds room for the whole gang before it evicts a task. It evicts tasks that other gangs can spare,
and breaks a gang only if these are not enough.
"""

from typing import ClassVar

from scheduler.actions.eviction.bundles import by_job_order
from scheduler.actions.eviction.eligibility import starving_jobs
from scheduler.actions.eviction.gang_evictor import GangEvictor
from scheduler.actions.eviction.policy import EvictionPolicy
from scheduler.actions.order import Worklist
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED
from scheduler.api.node import Mask
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import UNIFIED_EVICTABLE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class GangPreempt:
    """Evicts bundles of tasks in favour of starving gangs of their queue. See ``GangEvictor`` for the arguments."""

    name: ClassVar[str] = "gangpreempt"

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        self._session = session
        policy = EvictionPolicy(session, UNIFIED_EVICTABLE, self.name, EVENT_PREEMPTED, across_queues=False)
        evictor = GangEvictor(policy, self._arguments)
        worklist = Worklist(session, starving_jobs(session))
        while (queue := worklist.next_queue()) is not None:
            while (job := worklist.next_job(queue)) is not None:
                evictor.make_room(job, self._scope(job), lambda bundles, need: by_job_order(session, bundles))

    def _scope(self, job: Job) -> Mask:
        candidates = self._session.eviction_candidates
        less_important: Mask = candidates.per_job(_priority) < job.priority
        return candidates.preemptable & candidates.of_queues(job.queue.__eq__) & less_important


def _priority(job: Job) -> int:
    return job.priority
