"""What queues keep when their tasks are evicted for others: no queue falls below what it deserves while another one can
give.

The plugins that divide the cluster among queues (KEEPS_DESERVED) say which evictions leave a queue what it deserves.
Here, and only here, they are asked, before every eviction across queues and in whatever tiers they stand: the tiers of
victim functions decide without those below as soon as one of them has a victim. A search for victims goes through the
protections from the strictest to the weakest, so that a task is evicted under a weaker one only if no evictions in any
queue would do under a stricter one.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.actions.eviction.feasibility import Shortfall
from scheduler.api.node import Mask
from scheduler.api.resource import PODS_INDEX, SMALLEST
from scheduler.api.task import Task
from scheduler.framework.extension import KEEPS_DESERVED, Protection, ReclaimContext
from scheduler.framework.session import Session


class DeservedGuard:
    """Asks the plugins, for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._functions = session.all_functions(KEEPS_DESERVED)
        self._all_bounded = all(function in session.bounds for function in self._functions)

    @property
    def active(self) -> bool:
        """Whether a plugin divides the cluster among queues."""
        return bool(self._functions)

    def possible(self, context: ReclaimContext | None, scope: Mask) -> Mask:
        """Returns the candidates of a mask that may be evicted if no other one is."""
        if context is None:
            return scope
        for function in self._functions:
            if scope.any():
                scope = self._session.bounded(scope, KEEPS_DESERVED, function, context)
        return scope

    def enough(self, context: ReclaimContext | None, scope: Mask, shortfall: Shortfall) -> Mask:
        """Returns the nodes, shape (nodes,), where the candidates of a mask hold what the node lacks, as far as their
        queues can lose it: an upper bound, without which every node would be searched for nothing once queues have
        little more than they deserve."""
        session, candidates = self._session, self._session.eviction_candidates
        number = len(session.nodes)
        result: Mask = np.ones(number, dtype=bool)
        for most in session.most_losses if context is not None else ():
            limits = session.call(KEEPS_DESERVED, most, context, candidates)
            for d, lacking in shortfall.amounts():
                limited = limits[d] < shortfall.request[d]
                if d == PODS_INDEX or not shortfall.request[d] or not limited.any():
                    continue  # queues deserve no number of Pods
                held = scope & limited[candidates.queue_of]
                free = np.flatnonzero(scope & ~held)
                amounts = np.bincount(candidates.rows[free], candidates.requests[d, free], minlength=number)
                at = np.flatnonzero(held)
                position = np.cumsum(limited) - 1
                codes = position[candidates.queue_of[at]] * number + candidates.rows[at]
                by_queue = np.bincount(codes, candidates.requests[d, at], minlength=int(limited.sum()) * number)
                capped = np.minimum(by_queue.reshape(-1, number), np.maximum(limits[d][limited], 0)[:, np.newaxis])
                result &= lacking < amounts + capped.sum(axis=0) + SMALLEST
        return result

    def losses(self, context: ReclaimContext | None, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the candidates that may be evicted in this order. The evictions of the session so far count."""
        if context is None:
            return candidates
        left: Sequence[Task] = self._session.ask(KEEPS_DESERVED, context, candidates)
        return left

    def each(self, context: ReclaimContext | None, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the candidates of a mask from ``possible`` that may be evicted if no other one is, also where a
        plugin has no bound."""
        if context is None or self._all_bounded:
            return candidates
        return [task for task in candidates if self.allows(context, task)]

    def each_of(self, context: ReclaimContext | None, scope: Mask) -> Mask:
        """Returns ``each`` for the candidates of a mask."""
        if context is None or self._all_bounded:
            return scope
        result: Mask = np.zeros(len(scope), dtype=bool)
        tasks = self._session.eviction_candidates.tasks
        result[[i for i in np.flatnonzero(scope).tolist() if self.allows(context, tasks[i])]] = True
        return result

    def allows(self, context: ReclaimContext | None, task: Task) -> bool:
        """Whether a task may be evicted now."""
        return context is None or bool(self.losses(context, (task,)))


class KeptTasks:
    """The tasks that stay although plugins name them for shuffle: their queues would fall below what they deserve while
    a queue that has more could give a task on the same node instead."""

    def __init__(self, session: Session, guard: DeservedGuard) -> None:
        self._session = session
        self._guard = guard
        lacking = np.broadcast_to(False, (session.dimensions.width, len(session.nodes)))
        self._context = ReclaimContext(None, (), None, lacking, Protection.REQUESTED)

    def without_kept(self, running: list[Task]) -> list[Task]:
        """Returns the tasks that need not stay as long as none is evicted."""
        candidates = self._session.eviction_candidates
        may_go = self._guard.possible(self._context, candidates.present)
        givers = may_go & self._may_give()
        others = np.zeros((len(candidates.queues), len(self._session.nodes)), dtype=bool)
        """Shape (queues, nodes): whether the queue could give a task on the node."""
        others[candidates.queue_of[givers], candidates.rows[givers]] = True
        number = others.sum(axis=0)[candidates.rows] - others[candidates.queue_of, candidates.rows]
        stays = {candidates.tasks[i].uid for i in np.flatnonzero(~may_go & (number > 0)).tolist()}
        return [task for task in running if task.uid not in stays]

    def keeps(self, task: Task) -> bool:
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
