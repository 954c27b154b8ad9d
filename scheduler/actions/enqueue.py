"""enqueue: admits PodGroups to their queues, so that controllers create their Pods and allocate places them.

A refused job does not block its queue: enqueue continues with the next job (Volcano's enqueue action). For jobs whose
tasks list alternative accelerators, it chooses one (``alternatives``).
"""

from typing import ClassVar

from scheduler.actions.alternatives import AlternativeChooser
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
        chooser = AlternativeChooser(session)
        chooser.put_back()  # these jobs choose in the next session
        worklist = Worklist(session, waiting)
        while (queue := worklist.next_queue()) is not None:
            job = worklist.next_job(queue)
            if job is None:
                continue
            if chooser.admits(job):
                session.job_enqueued(job)
                job.phase = INQUEUE
                job.changed = True
            worklist.put_queue(queue)
        chooser.close()
