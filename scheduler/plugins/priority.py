"""priority: what is more important goes first, and never gives way to what is less (Volcano's priority plugin)."""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import JOB_ORDER, JOB_STARVING, PREEMPTABLE, SUB_JOB_ORDER, TASK_ORDER
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session


@register_plugin
class Priority:
    """Orders jobs and tasks by priority; only lower priorities are victims of preemption."""

    name: ClassVar[str] = "priority"

    def __init__(self, arguments: Arguments) -> None:
        del arguments  # takes none

    def open(self, session: Session) -> None:
        self._session = session
        session.add(TASK_ORDER, lambda task: -task.priority)
        session.add(JOB_ORDER, lambda job: -job.priority)
        session.add(SUB_JOB_ORDER, lambda sub_job: -sub_job.priority)
        session.add(PREEMPTABLE, self._victims)
        session.add(JOB_STARVING, self._starving)

    def _victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        jobs = self._session.jobs
        job = jobs.get(preemptor.job)
        if job is None:
            return None
        victims = []
        for task in candidates:
            if task.job == preemptor.job:
                lower = task.priority < preemptor.priority
            else:
                owner = jobs.get(task.job)
                lower = owner is not None and owner.priority < job.priority
            if lower:
                victims.append(task)
        return victims

    @staticmethod
    def _starving(job: Job) -> bool:
        return job.ready_count + job.waiting_count < job.size
