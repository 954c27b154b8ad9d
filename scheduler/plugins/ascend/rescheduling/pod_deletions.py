"""Deletes the Pods of recorded restarts at the end of a session, and marks those that another component deletes."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

from scheduler.api.decisions import Evict, ObjectWrite, group_ref
from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.names import EVENT_RESCHEDULED, EVENT_WARNING, POD_STATUS
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.rescheduling.decision import deletions, marks
from scheduler.plugins.ascend.rescheduling.faults import is_lost
from scheduler.plugins.ascend.rescheduling.state import Restart

_EVICTION: Final = "rescheduling"
Words = Callable[[Job, Restart], Iterable[ObjectWrite]]
"""Returns the writes of the dying words of a job."""


class PodDeletions:
    """The deletions of one session."""

    def __init__(
        self,
        session: PluginSession,
        restarts: Mapping[str, Restart],
        jobs: Container[str],
        grace_over_time: float,
        words: Words,
    ) -> None:
        """``restarts``: those that are recorded, by the keys of jobs; ``jobs``: keys of the jobs with a policy;
        ``grace_over_time``: seconds after which Pods with a grace period are deleted by force."""
        self._session = session
        self._restarts = restarts
        self._jobs = jobs
        self._grace_over_time = grace_over_time
        self._words = words

    def due(self) -> Iterator[Evict]:
        """Yields the Pods to delete, and marks those that another component deletes."""
        session = self._session
        for key, restart in self._restarts.items():
            job = session.jobs.get(key)
            if restart.pods and job is None:
                yield from self._late(key, restart)
            if not restart.pods or job is None or key not in self._jobs:
                continue
            reason = f"{_EVICTION} ({restart.why})"
            for task, value in marks(job, restart):
                body = {"metadata": {"annotations": {POD_STATUS: value}}}
                write = ObjectWrite(POD, task.namespace, task.name, body, uid=task.uid)
                session.write(write)
            due = deletions(job.tasks(), restart, session.now, self._grace_over_time, self._is_reachable)
            if due:
                self._report(job, restart)
                session.write(*self._words(job, restart))  # again, in case the first write failed
            for task, grace_period in due:
                yield Evict(task, reason, grace_period)

    def _late(self, key: str, restart: Restart) -> Iterator[Evict]:
        """Yields the Pods to delete by force: those of a job without a PodGroup that had time to stop. Controllers
        create the PodGroup again once the Pods are gone, which a Pod on a broken node never is by itself."""
        session = self._session
        tasks = (task for task in session.snapshot.tasks_without_job if task.job == key)
        due = deletions(tasks, restart, session.now, self._grace_over_time, self._is_reachable)
        for task, grace_period in due:
            if grace_period == 0:
                yield Evict(task, f"{_EVICTION} ({restart.why})", grace_period)

    def _report(self, job: Job, restart: Restart) -> None:
        names = [entry.name for entry in restart.pods]
        restarts = f"restart {restart.number} of the job"
        if len(names) == 1 and restart.force:
            text = f"{restarts}: Pod {names[0]} is deleted without a grace period ({restart.why})"
        elif len(names) == 1:
            text = f"{restarts}: Pod {names[0]} is deleted ({restart.why})"
        elif restart.force:
            text = f"{restarts}: {len(names)} Pods are deleted without a grace period ({restart.why})"
        else:
            text = f"{restarts}: {len(names)} Pods are deleted ({restart.why})"
        self._session.event(group_ref(job), EVENT_WARNING, EVENT_RESCHEDULED, text)

    def _is_reachable(self, node: str) -> bool:
        """Whether a node exists, and is ready or has been unready for a short time only."""
        snapshot = self._session.snapshot
        if node not in snapshot.nodes.index:
            return not snapshot.all_nodes
        return not is_lost(snapshot, node)
