"""Makes room for single tasks: finds a node where evictions make room for a task.

preempt and reclaim share it. They differ in the victims they allow and in the order in which nodes are tried.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from scheduler.actions.eviction.eligibility import NEVER, can_wait_for_nominated_nodes
from scheduler.actions.eviction.feasibility import EvictionFeasibility, Shortfall, Shortfalls
from scheduler.actions.eviction.node_eviction import NodeEviction
from scheduler.actions.eviction.policy import EvictionPolicy, without_side_effects
from scheduler.actions.order import in_eviction_order
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.extension import Protection, ReclaimContext
from scheduler.framework.failures import PluginError, raise_as
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.statement import Statement

ORDERS: Final = 4
"""Most orders of eviction that are tried on a node."""
MORE_ORDERS: Final = 64
"""Most further orders that are tried on all nodes together."""
DemandKey = tuple[object, ...]
"""The properties of a task and its job that quotas and victim functions may depend on."""


class NodeComparison(msgspec.Struct, frozen=True):
    """How many nodes are compared before the one with the cheapest victims is chosen (Volcano's topology-aware
    preemption)."""

    percentage: int
    """Percentage of all nodes."""
    minimum: int
    maximum: int

    def best(self, rows: Iterable[int], nodes: int, attempt: Callable[[int], NodeEviction | None]) -> list[int]:
        """Returns the row with the lowest cost as a list of one, or an empty list if no row admits the task.

        ``nodes``: the number of all nodes. ``attempt``: tries a row. Every attempt is discarded again.
        """
        number = max(min(max(nodes * self.percentage // 100, self.minimum), self.maximum), 1)
        costs: dict[int, tuple[float, ...]] = {}
        for row in rows:
            eviction = attempt(row)
            if eviction is not None:
                costs[row] = eviction.cost()
                eviction.statement.discard()
            if len(costs) == number:
                break
        return [min(costs, key=lambda row: costs[row])] if costs else []


class TaskEvictor:
    """Evicts tasks in favour of other tasks, for one action of one session."""

    def __init__(self, policy: EvictionPolicy, *, ranked: bool, comparison: NodeComparison | None = None) -> None:
        """``ranked``: try nodes in the order of their scores, otherwise in the order of their names. ``comparison``:
        compare the victims of several nodes; None: take the first node that admits the task."""
        self._policy = policy
        self._session = policy.session
        self._ranked = ranked
        self._comparison = comparison
        self._feasibility = EvictionFeasibility(policy.session, policy.point)
        self._by_demand = policy.session.answers_by_demand(policy.point)
        self._impossible: dict[tuple[DemandKey, Protection | None], Mask] = {}
        """Nodes that evictions cannot open for a demand, whatever class the task has."""
        self._failed: set[tuple[DemandKey, int]] = set()
        """Demands and class ids that found no node. Both hold until the session changes."""

    def make_room(self, job: Job, task: Task, scope: Mask, statement: Statement) -> bool:
        """Pipeline a pending task onto a node, evicting candidates of the mask ``scope`` as needed. Returns whether a
        node was found; the evictions and the placement are then merged into ``statement``."""
        session = self._session
        if task.cls.spec.preemption_policy == NEVER or can_wait_for_nominated_nodes(session, (task,)):
            return False
        limit = session.once(SearchLimit)
        if not limit.admits(job, (task.cls,)):
            return False
        demand = _demand_key(job, task, by_demand=self._by_demand)
        if (demand, task.cls.id) in self._failed:
            return False
        try:
            with without_side_effects(job, (task,)):
                done = self._search(job, task, scope, statement, demand)
        except Exception as error:  # the code of others may raise anything
            raise_as(f"action {self._policy.reason}", "execute", error, job, task)
        if done:
            self.forget_failures()
            limit.placed(job, task.cls)
        else:
            self._failed.add((demand, task.cls.id))
            limit.failed(job, task.cls)
        return done

    def forget_failures(self) -> None:
        """Forget which demands failed. To be called when the session changed, also when a statement was discarded."""
        self._impossible.clear()
        self._failed.clear()

    def _search(self, job: Job, task: Task, scope: Mask, statement: Statement, demand: DemandKey) -> bool:
        session = self._session
        scope = scope & session.eviction_candidates.present
        shortfall = session.once(Shortfalls).of(task.cls.request)
        room = shortfall.none()
        is_room = bool(room.any())
        if is_room and not self._policy.within_quota(job, task):
            is_room = False  # the quota refuses the task, not a shortage of room
        elif is_room and not self._policy.within_quota_now(job, task):
            return False  # terminating tasks hold the quota: no further eviction helps
        search = _Search(self._policy, job, task, shortfall, ranked=self._ranked)
        if is_room and search.with_room(statement):  # do not evict while there is room
            return True
        protections = self._policy.protections
        lacking = shortfall.lacking() if protections[0] is not None else None
        for protection in protections:
            context = None
            if protection is not None and lacking is not None:
                context = ReclaimContext(job, (task.cls,), task.cls.request, lacking, protection)
            within = self._policy.guard.possible(context, scope)
            if context is not None and not within.any():
                continue
            impossible = self._impossible.get((demand, protection))
            if impossible is None:
                impossible = np.zeros(len(session.nodes), dtype=bool)
                self._impossible[demand, protection] = impossible
            may_open = self._feasibility.nodes_for(task, shortfall, within) & ~impossible
            if may_open.any() and search.with_evictions(
                may_open, within, context, impossible, self._comparison, statement
            ):
                return True
        return False


class _Search:
    """The search for a node for one task."""

    def __init__(self, policy: EvictionPolicy, job: Job, task: Task, shortfall: Shortfall, *, ranked: bool) -> None:
        self._policy = policy
        self._session = policy.session
        self._job = job
        self._task = task
        self._shortfall = shortfall
        self._ranked = ranked
        self._more_orders = MORE_ORDERS

    @cached_property
    def _view(self) -> ClassView:
        return self._session.view(self._task.cls, self._job)

    @cached_property
    def _usable(self) -> Mask:
        return ~self._view.unresolvable()

    def with_room(self, statement: Statement) -> bool:
        """Pipelines the task onto a node that has room for it. Returns whether there is one."""
        room = self._shortfall.none() & self._usable & self._view.passes_in_future()
        for row in self._tried(room):
            found = self._attempt(row, (), None)
            if found.succeeded:
                statement.merge(found.statement)
                return True
        return False

    def with_evictions(
        self,
        may_open: Mask,
        scope: Mask,
        context: ReclaimContext | None,
        impossible: Mask,
        comparison: NodeComparison | None,
        statement: Statement,
    ) -> bool:
        """Pipelines the task onto one of the nodes ``may_open`` after the eviction of candidates of the mask ``scope``.
        Returns whether that is possible. Sets ``impossible`` for nodes where it is not, whatever the class of the
        task."""
        candidates = self._session.eviction_candidates

        def attempt(row: int) -> NodeEviction | None:
            found = self._attempt(row, candidates.at(row, scope), context)
            if not found.succeeded:
                impossible[row] = not found.filtered
                return None
            return found

        rows: Iterable[int] = self._tried(may_open & self._usable)
        if comparison is not None:
            rows = comparison.best(rows, len(self._session.nodes), attempt)
        enough: Mask | None = None
        for row in rows:
            if enough is not None and not enough[row]:
                continue
            found = attempt(row)
            if found is not None:
                statement.merge(found.statement)
                return True
            if enough is None and context is not None:  # the first node is seldom refused
                enough = self._policy.guard.enough(context, scope, self._shortfall)
        return False

    def _tried(self, nodes: Mask) -> Iterator[int]:
        return self._view.best_first(nodes, self._usable) if self._ranked else map(int, np.flatnonzero(nodes))

    def _attempt(self, row: int, here: Sequence[Task], context: ReclaimContext | None) -> NodeEviction:
        """Returns the evictions on one node, which are discarded unless they succeeded.

        Small victims may use up what their queue can lose, although a large one that comes after them is needed. So
        those that were refused are tried first next time.
        """
        session = self._session
        try:
            here = self._policy.guard.each(context, here)
            candidates = in_eviction_order(session, here, session.queues[self._job.queue]) if here else []
            for number in range(1 if context is None else ORDERS):
                self._more_orders -= number > 0
                found = NodeEviction(
                    self._policy, self._job, self._task, self._view, row, self._shortfall.dims, context
                )
                found.succeeded = found.evict_enough(candidates) and found.pipeline()
                if found.succeeded:
                    break
                found.statement.discard()
                first = found.refused
                if candidates[: len(first)] == first or not self._more_orders or not self._enough(row, candidates):
                    break
                candidates = [*first, *(task for task in candidates if task not in first)]
        except PluginError as error:
            error.add_subject(node=session.nodes.names[row])
            raise
        return found

    def _enough(self, row: int, candidates: Sequence[Task]) -> bool:
        """Whether the task would have enough on a node without all candidates."""
        dims = self._shortfall.dims
        amounts = self._session.nodes.future_idle_of(row)[dims] + sum(task.cls.request[dims] for task in candidates)
        return bool((amounts >= self._task.cls.request[dims]).all())


def _demand_key(job: Job, task: Task, *, by_demand: bool) -> DemandKey:
    """Returns the key under which failed searches are remembered: tasks with equal keys get equal answers from quotas
    and victim functions. ``by_demand`` False: some victim function may look at anything of the task."""
    if not by_demand:
        return (task.uid,)
    cls = task.cls
    own = job.key if job.count(TaskStatus.RUNNING, TaskStatus.BOUND) else ""
    amounts = (cls.request.tobytes(), job.allocated.tobytes(), job.pipelined.tobytes())
    annotations = tuple(sorted(cls.annotations.items()))
    return (job.queue, job.priority, task.priority, own, cls.namespace, annotations, *amounts)
