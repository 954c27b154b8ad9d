"""The evictions that make room for one task on one node, and no more than are needed.

They are recorded in a statement of their own, which the caller merges or discards.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.eviction.policy import EvictionPolicy, describe
from scheduler.api.job import Job
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.extension import ReclaimContext
from scheduler.framework.statement import AllocationError

LOWEST_PRIORITY = 2**31
"""Added to each priority, so that a sum of priorities grows with the number of victims."""


class NodeEviction:
    """Evictions for one task on one node."""

    def __init__(
        self,
        policy: EvictionPolicy,
        job: Job,
        task: Task,
        view: ClassView,
        row: int,
        dims: NDArray[np.intp],
        context: ReclaimContext | None,
    ) -> None:
        """``dims``: the resources whose requests are compared with the node (``compared_resources``). ``context``: what
        other queues keep; None: nothing, as within a queue."""
        self.statement = policy.session.statement()
        self._policy = policy
        self._job = job
        self._task = task
        self._view = view
        self._row = row
        self._dims = dims
        self._context = context
        self._request = task.cls.request[dims]
        node = policy.session.nodes.names[row]
        self._message = f"Makes room on node {node} for Pod {task.key} of {describe(job)}"
        self._evicted: list[Task] = []
        self.filtered = False
        """Whether a filter or a plugin's books refused the task: a task of another class may still fit."""
        self.refused: list[Task] = []
        """Candidates that stay because of the evictions before them: because of what their queues keep, or of what
        plugins say about the candidates in their order."""
        self.succeeded = False
        """Whether the task is pipelined. Set by the caller."""

    def evict_enough(self, candidates: Sequence[Task]) -> bool:
        """Evicts victims in the order of the candidates until the node admits the task. Returns whether it does.

        A victim that holds none of the resources that the node lacks is evicted only if amounts are sufficient and a
        quota or a filter still refuses the task (free chips in different rings, for example). Then every victim that a
        later one has made unnecessary is restored.
        """
        passed = self._evict_by_amounts(candidates)
        if passed is None:
            return False
        for victim in passed:
            if self._admitted():
                break
            if self._policy.guard.allows(self._context, victim):
                self._evict(victim)
        else:
            if not self._admitted():
                return False
        spare = -self._wanted()
        for victim in reversed(self._evicted[:-1]):
            amounts = victim.cls.request[self._dims]
            if (amounts > spare).any():
                continue
            self._restore(victim)
            if self._admitted():
                spare = spare - amounts
            else:
                self._evict(victim)
        return True

    def _evict_by_amounts(self, candidates: Sequence[Task]) -> list[Task] | None:
        """Evicts victims that hold resources that the node lacks until it lacks none. Returns the victims that hold
        none of these, or None if the victims are not enough.

        Victims whose queue would lose what it keeps are spared. Plugins are then asked again without them: their
        answers depend on the candidates before.
        """
        attempted = False
        while True:
            victims = self._policy.session.ask(self._policy.point, self._task, candidates) if candidates else []
            wanted = self._wanted()
            held = [victim.cls.request[self._dims] for victim in victims]
            if (wanted > sum(held)).any():
                approved = {victim.uid for victim in victims}
                self.refused += [task for task in candidates if task.uid not in approved]
                return None
            if not attempted and not self._policy.across_queues:
                self._policy.session.decisions.preemption_attempts += 1
            attempted = True
            passed: list[Task] = []
            gone: set[str] = set()
            for victim, amounts in zip(victims, held, strict=True):
                if not amounts[wanted > 0].any():
                    passed.append(victim)
                    continue
                gone.add(victim.uid)
                if self._policy.guard.allows(self._context, victim):
                    self._evict(victim)
                    wanted = wanted - amounts
                else:
                    self.refused.append(victim)
            if not (wanted > 0).any():
                return passed
            candidates = [task for task in candidates if task.uid not in gone]

    def pipeline(self) -> bool:
        """Pipeline the task onto the node. Returns False if a plugin's books refuse it, or if an evicted task would
        come back at once."""
        if self._policy.across_queues and any(map(self._futile, list(self._evicted))):
            return False
        try:
            self.statement.pipeline(self._job, self._task, self._row, nominate=bool(self._evicted))
        except AllocationError:
            self.filtered = True
            return False
        return True

    def cost(self) -> tuple[float, ...]:
        """The cost of the evictions, to be compared with that of other nodes; the smaller is better.

        It consists of the highest priority of a victim, the sum of all priorities, the number of victims, and how early
        the oldest victim of the highest priority was created (Kubernetes' pickOneNodeForPreemption).
        """
        highest = max((victim.priority for victim in self._evicted), default=-LOWEST_PRIORITY)
        total = sum(victim.priority + LOWEST_PRIORITY for victim in self._evicted)
        earliest = min((victim.creation for victim in self._evicted if victim.priority == highest), default=0.0)
        return (highest, total, len(self._evicted), -earliest)

    def _futile(self, victim: Task) -> bool:
        """Whether evicting a task of another queue achieves nothing: once it is restored, some plugin refuses it as a
        victim, and its queue would reclaim the resources. Its replacement would be placed and evicted again, for
        ever."""
        session, point = self._policy.session, self._policy.point
        if not self._policy.would_be_reclaimed(self._job, (victim,)):
            return False
        self._restore(victim)
        answers = [session.call(point, f, self._task, [victim]) for f in session.all_functions(point)]
        self._evict(victim)
        return any(answer is not None and not answer for answer in answers)

    def _wanted(self) -> Vector:
        """The amount of each compared resource that the node lacks; negative where it has more than the task
        requests."""
        future = self._policy.session.nodes.future_idle_of(self._row)
        wanted: Vector = self._request - future[self._dims]
        return wanted

    def _admitted(self) -> bool:
        """Whether quota and filters admit the task to the node once the evicted tasks end."""
        if not self._policy.within_quota(self._job, self._task):
            return False
        later = self._view.admits_later(self._row)
        self.filtered = not later
        return later

    def _evict(self, victim: Task) -> None:
        self._policy.evict(self.statement, victim, self._message)
        self._evicted.append(victim)

    def _restore(self, victim: Task) -> None:
        self.statement.restore(victim)
        self._evicted.remove(victim)
