"""shuffle: evicts the running tasks that plugins name (VICTIM_TASKS). It reserves their resources for no other task.

A task whose queue would fall below what it deserves stays as long as a queue that has more than it deserves could give
a task on the same node instead. Plugins do not see such a task, so they name others.
"""

from typing import ClassVar

import numpy as np

from scheduler.actions.eviction.deserved import DeservedGuard
from scheduler.api.node import Mask
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.extension import VICTIM_TASKS
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


@register_action
class Shuffle:
    """Evicts the victims that plugins name."""

    name: ClassVar[str] = "shuffle"

    def execute(self, session: Session) -> None:
        index = session.nodes.index
        running = [t for job in session.jobs.values() for t in job.of(TaskStatus.RUNNING).values() if t.node in index]
        guard = session.once(DeservedGuard)
        spared = _Spared(session, guard) if guard.active and session.functions(VICTIM_TASKS) else None
        statement = session.statement()
        for task in session.victim_tasks(running if spared is None else spared.left_of(running)):
            if spared is None or not spared.now(task):
                statement.evict(session.jobs[task.job], task, self.name)
        statement.commit()


class _Spared:
    """The tasks that stay because of what their queues deserve."""

    def __init__(self, session: Session, guard: DeservedGuard) -> None:
        self._session = session
        self._guard = guard
        self._context = guard.without_preemptor()

    def left_of(self, running: list[Task]) -> list[Task]:
        """Returns the tasks that need not stay."""
        candidates = self._session.eviction_candidates
        may_go = self._guard.possible(self._context, candidates.present)
        givers = may_go & self._may_give()
        others = np.zeros((len(candidates.queues), len(self._session.nodes)), dtype=bool)
        """Shape (queues, nodes): whether the queue could give a task on the node."""
        others[candidates.queue_of[givers], candidates.rows[givers]] = True
        number = others.sum(axis=0)[candidates.rows] - others[candidates.queue_of, candidates.rows]
        stays = {candidates.tasks[i].uid for i in np.flatnonzero(~may_go & (number > 0)).tolist()}
        return [task for task in running if task.uid not in stays]

    def now(self, task: Task) -> bool:
        """Whether a task stays after the evictions so far."""
        if self._guard.allows(self._context, task):
            return False
        session = self._session
        candidates, queue = session.eviction_candidates, session.jobs[task.job].queue
        here = candidates.at(session.nodes.index[task.node], self._may_give())
        others = (other for other in here if session.jobs[other.job].queue != queue)
        return any(self._guard.allows(self._context, other) for other in others)

    def _may_give(self) -> Mask:
        candidates = self._session.eviction_candidates
        return candidates.present & candidates.running & candidates.preemptable
