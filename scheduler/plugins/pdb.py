"""pdb: limits evictions to what PodDisruptionBudgets allow (Volcano's pdb plugin).

Candidates become victims in their order, as long as each of their budgets allows it, less the evictions earlier in the
session. Preempt and reclaim never evict a Pod without labels, as in Volcano.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.kinds import DISRUPTION_BUDGET
from scheduler.api.node import Mask
from scheduler.api.objects import PodDisruptionBudget
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import is_valid, matches
from scheduler.api.task import Task
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin


@register_plugin
class Pdb:
    """Takes no arguments."""

    name: ClassVar[str] = "pdb"

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for key in sorted(session.snapshot.objects[DISRUPTION_BUDGET]):
            budget = session.snapshot.objects[DISRUPTION_BUDGET][key]
            if self._selects(budget):
                self._by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
        self._evicted: Counter[str] = Counter()
        """Uid of a budget -> the number of its Pods that were evicted in this session."""
        for add in (session.add_preemptable, session.add_reclaimable):
            add(lambda _, candidates: self._victims(candidates), bound=self._may_have_victims, by_demand=True)
        session.add_unified_evictable(lambda context, candidates: self._within_budgets(candidates))
        session.add_victim_limit(self._victims)
        if self._by_namespace:
            session.add_handlers(partial(self._count, -1), partial(self._count, 1))

    def _selects(self, budget: PodDisruptionBudget) -> bool:
        """Whether the budget selects any Pods. Reports an invalid selector."""
        meta, selector = budget.metadata, budget.spec.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False
        return is_valid(selector, partial(self._report, meta.namespace, meta.name))

    def _report(self, namespace: str, name: str, field: str, problem: str) -> None:
        malformed = Malformed("PodDisruptionBudget", namespace, name, f"spec.selector: {field}", problem)
        self._session.malformed_field(malformed)

    # --- victims ---
    def _victims(self, candidates: Sequence[Task]) -> list[Task]:
        return self._within_budgets([task for task in candidates if task.labels])

    def _within_budgets(self, candidates: Sequence[Task]) -> list[Task]:
        counted: Counter[str] = Counter()
        victims = []
        for task in candidates:
            allowed = True
            for budget in self._budgets(task):
                counted[budget.metadata.uid] += 1
                allowed &= counted[budget.metadata.uid] <= self._allowed(budget)
            if allowed:
                victims.append(task)
        return victims

    def _may_have_victims(self, preemptor: Task, candidates: EvictionCandidates) -> Mask:
        return candidates.per_task(self._evictable_alone)

    def _evictable_alone(self, task: Task) -> bool:
        """Whether all budgets allow the eviction of the task as the only one in the session."""
        return bool(task.labels) and all(b.status.disruptions_allowed > 0 for b in self._budgets(task))

    def _allowed(self, budget: PodDisruptionBudget) -> int:
        return budget.status.disruptions_allowed - self._evicted[budget.metadata.uid]

    def _budgets(self, task: Task) -> list[PodDisruptionBudget]:
        """The budgets against which the eviction of a task counts."""
        return [
            budget
            for budget in self._by_namespace.get(task.namespace, ())
            if matches(budget.spec.selector, task.labels) and task.name not in (budget.status.disrupted_pods or {})
        ]

    # --- handlers: only tasks that had a node before the session are evicted in it ---
    def _count(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        for task in tasks:
            if task.node:
                for budget in self._budgets(task):
                    self._evicted[budget.metadata.uid] += sign
