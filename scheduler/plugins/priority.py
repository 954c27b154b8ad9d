"""priority: orders jobs and tasks by priority, and lets only lower priorities be preempted (Volcano's priority plugin).

While the plugin is enabled for preemption, a lower tier cannot make a task a victim of a preemptor with a lower
priority. It can for equal priorities. (In Volcano a lower tier can do both.)
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import PREEMPTABLE, EvictionContext
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin


@register_plugin
class Priority:
    """Takes no arguments."""

    name: ClassVar[str] = "priority"

    def open(self, session: PluginSession) -> None:
        self._session = session
        session.add_task_order(lambda task: -task.priority, fixed=True)
        session.add_job_order(lambda job: -job.priority)
        session.add_sub_job_order(lambda sub_job: -sub_job.priority)
        session.add_preemptable(self._victims, bound=self._lower, by_demand=True)
        if session.option(PREEMPTABLE.flag):
            session.add_veto(PREEMPTABLE, self._higher)
        session.add_unified_evictable(self._evictable)
        session.add_job_starving(lambda job: job.ready_count + job.waiting_count < job.size, by_demand=True)

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

    def _evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Priorities are not compared across queues, as in reclaim."""
        if context.across_queues:
            return list(candidates)
        return [task for task in candidates if self._session.jobs[task.job].priority < context.job.priority]

    def _higher(self, preemptor: Task | None, task: Task) -> bool:
        """Whether the task has a higher priority than the preemptor."""
        if preemptor is None:
            return False
        if task.job == preemptor.job:
            return task.priority > preemptor.priority
        owner, job = self._session.jobs.get(task.job), self._session.jobs.get(preemptor.job)
        return owner is not None and job is not None and owner.priority > job.priority

    def _lower(self, preemptor: Task, candidates: EvictionCandidates) -> Mask:
        job = self._session.jobs.get(preemptor.job)
        if job is None:
            return candidates.present
        lower: Mask = candidates.per_job(_priority) < job.priority
        own = candidates.span(job.key)
        lower[own] = candidates.priority[own] < preemptor.priority
        return lower


def _priority(job: Job) -> int:
    return job.priority
