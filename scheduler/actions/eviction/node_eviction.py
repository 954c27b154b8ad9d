"""The evictions that make room for one task on one node, and no more than are needed.

They are recorded in a statement of their own, which the caller merges or discards.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.actions.eviction.policy import EvictionRules, describe
from scheduler.api.job import Job
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.extension import ReclaimContext
from scheduler.framework.statement import AllocationError

LOWEST_PRIORITY = 2**31
"""Added to each priority, so that a sum of priorities grows with the number of victims."""


class TaskNeed(msgspec.Struct, frozen=True):
    """The task for which nodes are tried."""

    job: Job
    task: Task
    view: ClassView
    dims: NDArray[np.intp]
    """The resources whose requests are compared with a node (``compared_resources``)."""
    losing: ReclaimContext | None = None
    """What other queues keep; None: nothing, as within a queue."""


class NodeEviction:
    """Evictions for one task on one node."""

    def __init__(self, rules: EvictionRules, need: TaskNeed, row: int) -> None:
        self.statement = rules.session.statement()
        self._rules = rules
        self._need = need
        self._row = row
        self._request = need.task.cls.request[need.dims]
        node = rules.session.nodes.names[row]
        self._message = f"Makes room on node {node} for Pod {need.task.key} of {describe(need.job)}"
        self.evicted: list[Task] = []
        """The victims so far."""
        self.succeeded = False
        """Whether the task is pipelined."""
        self.filtered = False
        """Whether a filter or a plugin's books refused the task: a task of another class may still fit."""
        self.refused: list[Task] = []
        """Candidates that stay because of the evictions before them: because of what their queues keep, or of what
        plugins say about the candidates in their order."""

    def try_with(self, candidates: Sequence[Task]) -> bool:
        """Evicts some of the candidates and pipelines the task; takes all back if it cannot. Returns whether it can."""
        self.succeeded = self._evict_enough(candidates) and self._pipeline()
        if not self.succeeded:
            self.statement.discard()
        return self.succeeded

    def _evict_enough(self, candidates: Sequence[Task]) -> bool:
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
            if self._rules.guard.allows(self._need.losing, victim):
                self._evict(victim)
        else:
            if not self._admitted():
                return False
        if len(self.evicted) < 2:
            return True
        spare = -self._wanted()
        for victim in reversed(self.evicted[:-1]):
            amounts = victim.cls.request[self._need.dims]
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
            victims = self._rules.approved(self._need.task, candidates) if candidates else []
            wanted = self._wanted()
            held = [victim.cls.request[self._need.dims] for victim in victims]
            if (wanted > sum(held)).any():
                approved = {victim.uid for victim in victims}
                self.refused += [task for task in candidates if task.uid not in approved]
                return None
            if not attempted and not self._rules.policy.across_queues:
                self._rules.session.decisions.preemption_attempts += 1
            attempted = True
            passed: list[Task] = []
            gone: set[str] = set()
            for victim, amounts in zip(victims, held, strict=True):
                if not amounts[wanted > 0].any():
                    passed.append(victim)
                    continue
                gone.add(victim.uid)
                if self._rules.guard.allows(self._need.losing, victim):
                    self._evict(victim)
                    wanted = wanted - amounts
                else:
                    self.refused.append(victim)
            if not (wanted > 0).any():
                return passed
            candidates = [task for task in candidates if task.uid not in gone]

    def _pipeline(self) -> bool:
        """Pipelines the task onto the node. Returns False if a plugin's books refuse it, or if an evicted task would
        come back at once."""
        if any(map(self._futile, list(self.evicted))):
            return False
        try:
            self.statement.pipeline(self._need.job, self._need.task, self._row, nominate=bool(self.evicted))
        except AllocationError:
            self.filtered = True
            return False
        return True

    def cost(self) -> tuple[float, ...]:
        """The cost of the evictions, to be compared with that of other nodes; the smaller is better.

        It consists of the highest priority of a victim, the sum of all priorities, the number of victims, and how early
        the oldest victim of the highest priority was created (Kubernetes' pickOneNodeForPreemption).
        """
        highest = max((victim.priority for victim in self.evicted), default=-LOWEST_PRIORITY)
        total = sum(victim.priority + LOWEST_PRIORITY for victim in self.evicted)
        earliest = min((victim.creation for victim in self.evicted if victim.priority == highest), default=0.0)
        return (highest, total, len(self.evicted), -earliest)

    def _futile(self, victim: Task) -> bool:
        """Whether evicting a task of another queue achieves nothing: once it is restored, some plugin refuses it as a
        victim, and its queue would reclaim the resources. Its replacement would be placed and evicted again, for
        ever."""
        session, point, task = self._rules.session, self._rules.policy.approval, self._need.task
        if not self._rules.would_be_reclaimed(self._need.job, (victim,)):
            return False
        self._restore(victim)
        answers = [session.call(point, function, task, [victim]) for function in session.all_functions(point)]
        self._evict(victim)
        return any(answer is not None and not answer for answer in answers)

    def _wanted(self) -> Vector:
        """The amount of each compared resource that the node lacks; negative where it has more than the task
        requests."""
        future = self._rules.session.nodes.future_idle_of(self._row)
        wanted: Vector = self._request - future[self._need.dims]
        return wanted

    def _admitted(self) -> bool:
        """Whether quota and filters admit the task to the node once the evicted tasks end."""
        if not self._rules.within_quota(self._need.job, self._need.task):
            return False
        later = self._need.view.admits_later(self._row)
        self.filtered = not later
        return later

    def _evict(self, victim: Task) -> None:
        self._rules.evict(self.statement, victim, self._message)
        self.evicted.append(victim)

    def _restore(self, victim: Task) -> None:
        self.statement.restore(victim)
        self.evicted.remove(victim)
