"""Finds a node where evictions make room for one task."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from scheduler.actions.eviction.feasibility import EvictionFeasibility, Shortfall, Shortfalls
from scheduler.actions.eviction.node_eviction import NodeEviction, TaskNeed
from scheduler.actions.eviction.policy import EvictionRules, Preemptor, VictimNodeOrder
from scheduler.actions.order import in_eviction_order
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.extension import Protection, ReclaimContext
from scheduler.framework.failures import PluginError
from scheduler.framework.statement import Statement

ORDERS: Final = 4
"""Most orders of eviction that are tried on a node."""
MORE_ORDERS: Final = 64
"""Most further orders that are tried on all nodes together."""
ImpossibleNodes = dict[tuple[Hashable, Protection | None], Mask]
"""Demand of a task, protection -> the nodes that evictions cannot open."""


class NodeSearch:
    """Finds room for single tasks, and remembers the nodes where there is none."""

    def __init__(self, rules: EvictionRules, order: VictimNodeOrder, impossible: ImpossibleNodes) -> None:
        """``impossible``: the nodes that are found; the caller clears it when the session changed."""
        self.rules = rules
        self.order = order
        self.feasibility = EvictionFeasibility(rules.session, rules.policy.approval)
        self._by_demand = rules.policy.approval not in rules.session.by_task
        self._impossible = impossible

    def room_for(self, preemptor: Preemptor, scope: Mask) -> "_RoomForTask":
        return _RoomForTask(self, preemptor, scope)

    def demand(self, job: Job, task: Task) -> Hashable:
        """Returns the properties of a task and its job that quotas and victim functions may depend on, without the
        class: tasks with equal ones get equal answers."""
        if not self._by_demand:
            return task.uid
        cls = task.cls
        own = job.key if job.count(TaskStatus.RUNNING, TaskStatus.BOUND) else ""
        amounts = (cls.request.tobytes(), job.allocated.tobytes(), job.pipelined.tobytes())
        annotations = tuple(sorted(cls.annotations.items()))
        return (job.queue, job.priority, task.priority, own, cls.namespace, annotations, *amounts)

    def impossible(self, demand: Hashable, protection: Protection | None) -> Mask:
        """Returns the nodes that evictions cannot open for a demand under a protection. The search sets those that it
        finds."""
        unknown = np.zeros(len(self.rules.session.nodes), dtype=bool)
        return self._impossible.setdefault((demand, protection), unknown)


class _RoomForTask:
    """Room for one task on one node."""

    def __init__(self, search: NodeSearch, preemptor: Preemptor, scope: Mask) -> None:
        self._search = search
        self._rules = search.rules
        self._session = search.rules.session
        self._job = preemptor.job
        (self._task,) = preemptor.tasks
        self._scope = scope
        self._demand = search.demand(self._job, self._task)
        self.demand: Hashable = (self._demand, self._task.cls.id)
        self._more_orders = MORE_ORDERS
        self._waits_for_quota = False
        """Whether terminating tasks hold the quota, so that no further eviction helps."""

    @cached_property
    def _shortfall(self) -> Shortfall:
        return self._session.once(Shortfalls).of(self._task.cls.request)

    @cached_property
    def _view(self) -> ClassView:
        return self._session.view(self._task.cls, self._job)

    @cached_property
    def _usable(self) -> Mask:
        return ~self._view.unresolvable()

    def without_evictions(self) -> Statement | None:
        """Returns a statement that pipelines the task onto a node that has room for it, or None."""
        room = self._shortfall.none()
        if not room.any() or not self._rules.within_quota(self._job, self._task):
            return None
        if not self._rules.within_quota_now(self._job, self._task):
            self._waits_for_quota = True
            return None
        need = TaskNeed(self._job, self._task, self._view, self._shortfall.dims)
        for row in self._tried(room & self._usable & self._view.passes_in_future()):
            found = self._attempt(need, row, ())
            if found.succeeded:
                return found.statement
        return None

    def with_evictions(self, protection: Protection | None) -> Statement | None:
        """Returns a statement that evicts candidates on one node and pipelines the task there, or None."""
        if self._waits_for_quota:
            return None
        candidates, guard, request = self._session.eviction_candidates, self._rules.guard, self._task.cls.request
        scope, losing = self._scope & candidates.present, None
        if protection is not None:
            lacking = self._shortfall.lacking()
            losing = ReclaimContext(self._job, (self._task.cls,), request, lacking, protection)
            scope = guard.possible(losing, scope)
            if not scope.any():
                return None
        impossible = self._search.impossible(self._demand, protection)
        may_open = self._search.feasibility.nodes_for(self._task, self._shortfall, scope) & ~impossible
        if not may_open.any():
            return None

        need = TaskNeed(self._job, self._task, self._view, self._shortfall.dims, losing)

        def attempt(row: int) -> NodeEviction | None:
            found = self._attempt(need, row, candidates.at(row, scope))
            if not found.succeeded:
                impossible[row] = not found.filtered
                return None
            return found

        rows: Iterable[int] = self._tried(may_open & self._usable)
        if (comparison := self._search.order.comparison) is not None:
            rows = _cheapest(rows, comparison.number(len(self._session.nodes)), attempt)
        enough: Mask | None = None
        for row in rows:
            if enough is not None and not enough[row]:
                continue
            found = attempt(row)
            if found is not None:
                return found.statement
            if enough is None and losing is not None:  # the first node is seldom refused
                enough = guard.enough(losing, scope, self._shortfall)
        return None

    def _tried(self, nodes: Mask) -> Iterator[int]:
        by_score = self._search.order.by_score
        return self._view.best_first(nodes, self._usable) if by_score else map(int, np.flatnonzero(nodes))

    def _attempt(self, need: TaskNeed, row: int, here: Sequence[Task]) -> NodeEviction:
        """Returns the evictions on one node, which are discarded unless they succeeded."""
        session = self._session
        try:
            here = self._rules.guard.each(need.losing, here)
            candidates = in_eviction_order(session, here, session.queues[self._job.queue])
            found = self._attempt_in(need, row, candidates)
            # All candidates together were not enough, unless their queues could not lose all of them.
            if not found.succeeded and need.losing is None:
                return found
            return self._cheapest_device(need, row, candidates, found)
        except PluginError as error:
            error.add_subject(node=session.nodes.names[row])
            raise

    def _attempt_in(self, need: TaskNeed, row: int, candidates: Sequence[Task]) -> NodeEviction:
        """Returns the evictions on one node of candidates in their order, discarded unless they succeeded.

        Small victims may use up what their queue can lose, although a large one that comes after them is needed. So
        those that were refused are tried first next time.
        """
        candidates = list(candidates)
        for number in range(1 if need.losing is None else ORDERS):
            self._more_orders -= number > 0
            found = NodeEviction(self._rules, need, row)
            if found.try_with(candidates):
                break
            first = found.refused
            if candidates[: len(first)] == first or not self._more_orders or not self._enough(row, candidates):
                break
            candidates = [*first, *(task for task in candidates if task not in first)]
        return found

    def _cheapest_device(
        self, need: TaskNeed, row: int, candidates: Sequence[Task], found: NodeEviction
    ) -> NodeEviction:
        """Returns the evictions on the device where they are cheapest, if the task needs room on one device, else
        ``found``, those of the candidates in their order. The cheapest are those that are evicted first in any case, by
        queue and priority, then the fewest."""
        orders = self._by_device(row, candidates)
        if not orders:
            return found
        ranks: dict[tuple[str, int, int], int] = {}
        rank_of: dict[str, int] = {}
        for task in candidates:
            job = self._session.jobs[task.job]
            rank_of[task.uid] = ranks.setdefault((job.queue, job.priority, task.priority), len(ranks))
        best: tuple[tuple[float, ...], Sequence[Task]] | None = None
        for order in (candidates, *orders):
            each = found if order is candidates else self._attempt_in(need, row, order)
            if each.succeeded:
                cost = (max((rank_of[task.uid] for task in each.evicted), default=0), *each.cost())
                each.statement.discard()
                if best is None or cost < best[0]:
                    best = cost, order
        return found if best is None else self._attempt_in(need, row, best[1])

    def _by_device(self, row: int, candidates: Sequence[Task]) -> list[list[Task]]:
        """Returns an order of the candidates for each of their devices, in which those on the device come first, if the
        task needs room on one device. Evictions on several devices may suffice by amounts, and use up what queues can
        lose, although no device has room then."""
        devices_of = self._view.devices_of
        if devices_of is None:
            return []
        devices: dict[tuple[int, ...], list[Task]] = {}
        for task in candidates:
            devices.setdefault(devices_of(row, task.uid), []).append(task)
        if len(devices) < 2:
            return []
        return [
            [*there, *(task for other, tasks in devices.items() if other != device for task in tasks)]
            for device, there in devices.items()
        ]

    def _enough(self, row: int, candidates: Sequence[Task]) -> bool:
        """Whether the task would have enough on a node without all candidates."""
        dims = self._shortfall.dims
        amounts = self._session.nodes.future_idle_of(row)[dims] + sum(task.cls.request[dims] for task in candidates)
        return bool((amounts >= self._task.cls.request[dims]).all())


def _cheapest(rows: Iterable[int], number: int, attempt: Callable[[int], NodeEviction | None]) -> list[int]:
    """Returns the row with the lowest cost among the first rows that have room, as a list of one; an empty list if none
    has. Every attempt is discarded again. ``number``: how many rows are compared."""
    costs: dict[int, tuple[float, ...]] = {}
    for row in rows:
        eviction = attempt(row)
        if eviction is not None:
            costs[row] = eviction.cost()
            eviction.statement.discard()
        if len(costs) == number:
            break
    return [min(costs, key=lambda row: costs[row])] if costs else []
