"""Finds a domain of the network where evictions make room for all waiting tasks of a gang.

If there is no room for the whole gang, no task is evicted.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import islice, takewhile
from typing import Final

import numpy as np

from scheduler.actions.eviction.bundles import Bundle, BundlesByJob
from scheduler.actions.eviction.gang_eviction import GangEviction
from scheduler.actions.eviction.gang_room import Demand, Nominator
from scheduler.actions.eviction.policy import BundleOrder, EvictionRules, Preemptor
from scheduler.api.hypernode import HyperNode
from scheduler.api.node import Mask
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskClass
from scheduler.framework.extension import EvictionContext, Protection, ReclaimContext
from scheduler.framework.statement import Statement

FIRST_CHUNK: Final = 64
"""How many bundles the victim functions see at first; gangs seldom need more."""


class RoomForGang:
    """Room for a gang in one domain."""

    def __init__(self, rules: EvictionRules, order: BundleOrder, preemptor: Preemptor, scope: Mask) -> None:
        self._rules = rules
        self._session = rules.session
        self._order = order
        self._job = preemptor.job
        self._tasks = preemptor.tasks
        self._parts = preemptor.parts
        self._all = scope
        self.demand = _demand(preemptor)

    def without_evictions(self) -> Statement | None:
        """Returns None: the search in a domain begins without evictions."""
        return None

    def with_evictions(self, protection: Protection | None) -> Statement | None:
        """Returns a statement that evicts bundles in one domain and pipelines the gang there, or None. The statement is
        empty if no eviction is needed: the job is left to allocate."""
        for domain in self._domains:
            losing = self._losing(domain, protection)
            for bundles in self._orders(losing, domain):
                slots = self._first_demand.current_slots()
                slots.confine(domain.rows)
                nominator = Nominator(self._session, self._job, self._parts, domain)
                eviction = GangEviction(self._rules, self._job, nominator, slots)
                statement = eviction.plan(self._approved(losing, bundles))
                if statement is not None:
                    if not statement.evicts:
                        statement.discard()
                    return statement
        return None

    # --- what is needed, and where it may be found ---
    @cached_property
    def _classes(self) -> tuple[TaskClass, ...]:
        return tuple(dict.fromkeys(task.cls for task in self._tasks))

    @cached_property
    def _context(self) -> EvictionContext:
        need: Vector = np.sum([task.cls.request for task in self._tasks], axis=0)
        return EvictionContext(self._job, need, self._rules.policy.across_queues)

    @cached_property
    def _demand(self) -> Demand:
        """The demand of all tasks."""
        return Demand(self._session, self._job, self._tasks)

    @cached_property
    def _first_demand(self) -> Demand:
        """The demand of the first sub-job."""
        return Demand(self._session, self._job, self._parts[0][1])

    @cached_property
    def _scope(self) -> Mask:
        return self._all & self._session.eviction_candidates.present

    @cached_property
    def _domains(self) -> Sequence[HyperNode]:
        """The domains to search, the first to be tried in front. Domains that cannot have enough slots are left out."""
        session, approvable = self._session, self._scope
        point = self._rules.policy.approval
        for function in session.all_functions(point):
            approvable = session.bounded(approvable, point, function, self._context)
        upper_bound = self._first_demand.slots_without(approvable)
        if not upper_bound.enough():
            return ()
        top = session.hyper_nodes.top
        gradients = session.gradients(self._job, top, True)
        found = [domain for gradient in gradients for domain in gradient] or ([] if self._job.has_tier_limit else [top])
        feasible = (domain for domain in dict.fromkeys(found) if upper_bound.enough_on(domain.rows))
        return list(islice(feasible, self._order.max_domains))

    def _losing(self, domain: HyperNode, protection: Protection | None) -> ReclaimContext | None:
        """Returns what other queues keep; None: nothing, as within a queue."""
        if protection is None:
            return None
        need = self._context.request
        width = len(need), len(self._session.nodes)
        lacking = np.broadcast_to(self._demand.lacking(domain.rows)[:, np.newaxis], width)
        return ReclaimContext(self._job, self._classes, need, lacking, protection, gang=True)

    # --- in what order ---
    def _orders(self, losing: ReclaimContext | None, domain: HyperNode) -> Iterator[Iterator[Bundle]]:
        """Yields the orders of eviction to be tried."""
        sort, session = self._order.sort, self._session
        for possible in self._scopes(losing, domain):
            yield sort(session, self._context, BundlesByJob(session, possible))
            if losing is not None:
                bundles = sort(session, self._context, BundlesByJob(session, possible))
                yield self._node_by_node(bundles, losing, possible)

    def _scopes(self, losing: ReclaimContext | None, domain: HyperNode) -> Iterator[Mask]:
        """Yields the candidates of the domain to be searched: if their queues keep something, first those on nodes that
        the gang could use, so that others do not use up what their queues can lose; then all of them, because evictions
        elsewhere may help a quota or a filter."""
        rows = self._session.eviction_candidates.rows
        inside = np.zeros(len(self._session.nodes), dtype=bool)
        inside[domain.rows] = True
        guard = self._rules.guard
        possible = guard.each_of(losing, guard.possible(losing, self._scope & inside[rows]))
        if losing is None:
            yield possible
            return
        usable = possible & self._demand.usable[rows]
        if usable.any() or losing.protection is Protection.REQUESTED:
            yield usable
        if not np.array_equal(usable, possible):
            yield possible

    def _node_by_node(self, bundles: Iterator[Bundle], losing: ReclaimContext, possible: Mask) -> Iterator[Bundle]:
        """Yields the bundles of spare tasks node by node, and then gangs. What queues can lose may be too little to
        make room if it is spread over many nodes or small tasks. Nodes where few evictions make room for a task come
        first, and on each node the tasks that hold most of what lacks, device by device if one device needs room."""
        lacking = losing.lacking[:, 0]
        session = self._session
        rows = session.eviction_candidates.rows[possible]
        demand = self._first_demand
        gained = demand.slots_without(possible).each - demand.current_slots().each
        evictions = np.bincount(rows, minlength=len(session.nodes))
        cost = np.divide(evictions, gained, out=np.full(len(gained), np.inf), where=gained > 0)

        views = [session.view(cls, self._job) for cls in self._classes]
        devices_of = [view.devices_of for view in views if view.devices_of is not None]

        def place(bundle: Bundle) -> tuple[bool, float, int, tuple[int, ...], tuple[float, ...]]:
            if len(bundle.tasks) > 1:  # a gang
                return (True, float("inf"), 0, (), ())
            (task,) = bundle.tasks
            row = session.nodes.index[task.node]
            devices = tuple(device for each in devices_of for device in each(row, task.uid))
            return (bundle.whole, float(cost[row]), row, devices, tuple((-task.cls.request[lacking]).tolist()))

        return iter(sorted(bundles, key=place))

    # --- who must not ---
    def _approved(self, losing: ReclaimContext | None, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        """Yields the bundles whose tasks are all approved by the plugins. The plugins see twice as many candidates each
        time: their answer for a candidate depends only on those before it."""
        if not self._order.break_gangs:
            bundles = takewhile(lambda bundle: not bundle.whole, bundles)
        accepted: list[Bundle] = []
        size = FIRST_CHUNK
        while chunk := list(islice(bundles, size)):
            size += len(chunk)
            new = self._accepted(losing, accepted, chunk)
            accepted += new
            yield from new

    def _accepted(self, losing: ReclaimContext | None, before: Sequence[Bundle], chunk: list[Bundle]) -> list[Bundle]:
        """Returns the bundles of a chunk whose tasks are all approved if the bundles ``before`` are evicted."""
        while True:
            candidates: Sequence[Task] = [task for bundle in (*before, *chunk) for task in bundle.tasks]
            candidates = self._rules.guard.losses(losing, candidates)
            approved = {task.uid for task in self._rules.approved(self._context, candidates)}
            accepted = [bundle for bundle in chunk if all(task.uid in approved for task in bundle.tasks)]
            parts = [bundle for bundle in chunk if any(task.uid in approved for task in bundle.tasks)]
            if len(parts) == len(accepted):
                return accepted
            # The approved part of a refused gang counted against those after it: ask again without the first such gang.
            first = next(bundle for bundle in parts if bundle not in accepted)
            chunk = [bundle for bundle in parts if bundle is not first]


def _demand(preemptor: Preemptor) -> Hashable:
    """Returns the key under which failed searches are remembered: gangs with equal keys get equal answers."""
    job, tasks = preemptor.job, preemptor.tasks
    if job.sub_jobs or job.count(*job.by_status) > len(tasks):
        return job.key
    classes = tuple(sorted((task.cls.id, task.role) for task in tasks))
    return (job.queue, job.priority, job.min_member, tuple(sorted(job.role_minimum.items())), classes)
