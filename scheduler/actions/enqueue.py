"""enqueue: admits PodGroups to their queues, so that controllers create their Pods and allocate places them.

A refused job does not block its queue: enqueue continues with the next job (Volcano's enqueue action).
"""

from typing import ClassVar

from scheduler.actions.order import Worklist
from scheduler.api.job import INQUEUE
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class Enqueue:
    """Sets pending PodGroups to Inqueue if the plugins admit them."""

    name: ClassVar[str] = "enqueue"

    def execute(self, session: Session) -> None:
        waiting = [job for job in session.active_jobs.values() if job.waiting_for_queue and job.queue in session.queues]
        worklist = Worklist(session, waiting)
        while (queue := worklist.next_queue()) is not None:
            job = worklist.next_job(queue)
            if job is None:
                continue
            if not job.declares_resources or session.job_enqueueable(job):
                session.job_enqueued(job)
                job.phase = INQUEUE
                job.changed = True
            worklist.put_queue(queue)
