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
        self._all_bounded = all(session.bound(function) is not None for function in self._functions)

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
        queues can lose it: an upper bound, without which every node would be searched in vain once queues have little
        more than they deserve."""
        session, candidates = self._session, self._session.eviction_candidates
        number = len(session.nodes)
        result: Mask = np.ones(number, dtype=bool)
        for most in session.most_losses() if context is not None else ():
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

    # --- without a preemptor ---
    def without_preemptor(self) -> ReclaimContext:
        """Returns the context of evictions for no job (shuffle)."""
        lacking = np.broadcast_to(False, (self._session.dimensions.width, len(self._session.nodes)))
        return ReclaimContext(None, (), None, lacking, Protection.REQUESTED)
