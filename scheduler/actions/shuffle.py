"""shuffle: evicts the running tasks that plugins name (VICTIM_TASKS). It reserves their resources for no other task."""

from typing import ClassVar

from scheduler.api.task import TaskStatus
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class Shuffle:
    """Evicts the victims that plugins name."""

    name: ClassVar[str] = "shuffle"

    def execute(self, session: Session) -> None:
        index = session.nodes.index
        running = [t for job in session.jobs.values() for t in job.of(TaskStatus.RUNNING).values() if t.node in index]
        statement = session.statement()
        for task in session.victim_tasks(running):
            statement.evict(session.jobs[task.job], task, self.name)
        statement.commit()
