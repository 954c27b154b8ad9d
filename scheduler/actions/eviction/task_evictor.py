"""Makes room for single tasks: finds a node where evictions make room for a task.

preempt and reclaim share it. They differ in the victims they allow and in the order in which nodes are tried.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec
import numpy as np

from scheduler.actions.eviction.eligibility import NEVER, can_wait_for_nominated_nodes
from scheduler.actions.eviction.feasibility import EvictionFeasibility, Shortfalls
from scheduler.actions.eviction.node_eviction import NodeEviction
from scheduler.actions.eviction.policy import EvictionPolicy, without_side_effects
from scheduler.actions.order import in_eviction_order
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.statement import Statement

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
        self._impossible: dict[DemandKey, Mask] = {}
        """Nodes that evictions cannot open for a demand, whatever class the task has."""
        self._failed: set[tuple[DemandKey, int]] = set()
        """Demands and class ids that found no node. Both hold until the session changes."""

    def make_room(self, job: Job, task: Task, scope: Mask, statement: Statement) -> bool:
        """Pipeline a pending task onto a node, evicting candidates of the mask ``scope`` as needed. Returns whether a
        node was found; the evictions and the placement are then merged into ``statement``."""
        session = self._session
        if task.cls.spec.preemption_policy == NEVER or can_wait_for_nominated_nodes(session, (task,)):
            return False
        demand = _demand_key(job, task, by_demand=self._by_demand)
        if (demand, task.cls.id) in self._failed:
            return False
        with without_side_effects(job, (task,)):
            done = self._search(job, task, scope, statement, demand)
        if done:
            self.forget_failures()
        else:
            self._failed.add((demand, task.cls.id))
        return done

    def forget_failures(self) -> None:
        """Forget which demands failed. To be called when the session changed, also when a statement was discarded."""
        self._impossible.clear()
        self._failed.clear()

    def _search(self, job: Job, task: Task, scope: Mask, statement: Statement, demand: DemandKey) -> bool:
        session = self._session
        scope = scope & session.eviction_candidates.present
        impossible = self._impossible.setdefault(demand, np.zeros(len(session.nodes), dtype=bool))
        shortfall = session.once(Shortfalls).of(task.cls.request)
        may_open = self._feasibility.nodes_for(task, shortfall, scope) & ~impossible
        room = shortfall.none()
        is_room = bool(room.any())
        if is_room and not self._policy.within_quota(job, task):
            is_room = False  # the quota refuses the task, not a shortage of room
        elif is_room and not self._policy.within_quota_now(job, task):
            return False  # terminating tasks hold the quota: no further eviction helps
        if not (is_room or may_open.any()):
            return False
        view = session.view(task.cls, job)
        usable = ~view.unresolvable()
        may_open &= usable
        if is_room:
            room = room & usable & view.passes_in_future()
            is_room = bool(room.any())

        def tried(nodes: Mask) -> Iterator[int]:
            return view.best_first(nodes, usable) if self._ranked else map(int, np.flatnonzero(nodes))

        def attempt(row: int) -> NodeEviction | None:
            eviction = NodeEviction(self._policy, job, task, view, row, shortfall.dims)
            here = session.eviction_candidates.at(row, scope)
            candidates = in_eviction_order(session, here, session.queues[job.queue])
            victims: list[Task] = session.ask(self._policy.point, task, candidates) if candidates else []
            if eviction.evict_enough(victims, minimize=self._comparison is not None) and eviction.pipeline():
                return eviction
            eviction.statement.discard()
            impossible[row] = not eviction.filtered
            return None

        rows: Iterable[int]
        if is_room:  # do not evict while there is room
            rows = chain(tried(room), tried(may_open & ~room))
        elif self._comparison is not None:
            rows = self._comparison.best(tried(may_open), len(session.nodes), attempt)
        else:
            rows = tried(may_open)
        for row in rows:
            eviction = attempt(row)
            if eviction is not None:
                statement.merge(eviction.statement)
                return True
        return False


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
