"""Makes room for whole gangs: finds a domain where evictions make room for all waiting tasks of a gang.

gangpreempt and gangreclaim share it. They differ in the victims they allow and in the order of eviction. If there is no
room for the whole gang, no task is evicted.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

import numpy as np

from scheduler.actions.eviction.bundles import Bundle, BundlesByJob
from scheduler.actions.eviction.domain_eviction import DomainEviction
from scheduler.actions.eviction.eligibility import NEVER, allows_gang_eviction, can_wait_for_nominated_nodes
from scheduler.actions.eviction.nomination import Nominator, Part, parts_to_place
from scheduler.actions.eviction.policy import EvictionPolicy, without_side_effects
from scheduler.actions.eviction.slots import Demand, Slots
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import EvictionContext, Protection, ReclaimContext
from scheduler.framework.failures import raise_as
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.statement import Statement

DEFAULT_MAX_DOMAINS = 8
FIRST_CHUNK = 64
"""How many bundles the victim functions see at first; gangs seldom need more."""
EvictionOrder = Callable[[BundlesByJob, Vector], Iterator[Bundle]]
"""Yields the bundles in the order of eviction, given what the gang needs."""


class GangEvictor:
    """Evicts bundles in favour of gangs, for one action of one session.

    Arguments: ``maxDomains`` (default 8, also for a number below 1), the number of domains that are searched at most;
    ``allowWholeBundle`` (default true), whether gangs may be broken.
    """

    def __init__(self, policy: EvictionPolicy, arguments: Arguments) -> None:
        self._policy = policy
        self._session = policy.session
        maximum = arguments.integer("maxDomains", DEFAULT_MAX_DOMAINS)
        self._max_domains = maximum if maximum > 0 else DEFAULT_MAX_DOMAINS
        self._break_gangs = arguments.boolean("allowWholeBundle", True)
        self._failed: set[object] = set()
        """Demands that found no domain. They hold until the session changes."""

    def make_room(self, job: Job, scope: Mask, ordered: EvictionOrder) -> None:
        """Evict candidates of the mask ``scope`` and pipeline all waiting tasks of the job, if that makes it ready."""
        session = self._session
        parts = parts_to_place(session, job)
        tasks = [task for _, part in parts for task in part]
        if not tasks or any(task.cls.spec.preemption_policy == NEVER for task in tasks):
            return
        if can_wait_for_nominated_nodes(session, tasks):
            return
        if self._policy.across_queues and not session.preemptive(session.queues[job.queue], tasks):
            return
        limit, classes = session.once(SearchLimit), {task.cls.id: task.cls for task in tasks}.values()
        if not limit.admits(job, classes):
            return
        demand_key = _demand_key(job, tasks)
        if demand_key in self._failed:
            return
        try:
            with without_side_effects(job, tasks):
                statement = self._search(job, parts, tasks, scope, ordered)
                if statement is not None and not statement.evicts:
                    statement.discard()  # no eviction is needed: the job is left to allocate
        except Exception as error:  # the code of others may raise anything
            raise_as(f"action {self._policy.reason}", "execute", error, job, tasks)
        if statement is None:
            self._failed.add(demand_key)
            for cls in classes:
                limit.failed(job, cls)
        elif statement:
            statement.commit()
            self._failed.clear()
            for cls in classes:
                limit.placed(job, cls)

    def _search(
        self, job: Job, parts: Sequence[Part], tasks: Sequence[Task], scope: Mask, ordered: EvictionOrder
    ) -> Statement | None:
        session, candidates, point = self._session, self._session.eviction_candidates, self._policy.point
        need: Vector = np.sum([task.cls.request for task in tasks], axis=0)
        context = EvictionContext(job, need, self._policy.across_queues)
        scope = scope & candidates.present & candidates.per_job(allows_gang_eviction).astype(bool)
        approvable = scope
        for tier in session.functions(point):
            for function in tier:
                approvable = session.bounded(approvable, point, function, context)
        demand, whole = Demand(session, job, parts[0][1]), Demand(session, job, tasks)
        domains = list(self._domains(job, demand.slots_without(approvable)))
        for protection in self._policy.protections:
            for domain in domains:
                losing = self._losing(job, tasks, need, whole, domain, protection)
                for bundles in self._orders(
                    losing, scope, demand, whole, domain, lambda bundles: ordered(bundles, need)
                ):
                    slots = demand.current_slots()
                    slots.confine(domain.rows)
                    eviction = DomainEviction(self._policy, job, Nominator(session, job, parts, domain), slots)
                    statement = eviction.plan(self._approved(context, losing, bundles))
                    if statement is not None:
                        return statement
        return None

    def _losing(
        self,
        job: Job,
        tasks: Sequence[Task],
        need: Vector,
        demand: Demand,
        domain: HyperNode,
        protection: Protection | None,
    ) -> ReclaimContext | None:
        """Returns what other queues keep; None: nothing, as within a queue."""
        if protection is None:
            return None
        width = len(need), len(self._session.nodes)
        lacking = np.broadcast_to(demand.lacking(domain.rows)[:, np.newaxis], width)
        classes = tuple(dict.fromkeys(task.cls for task in tasks))
        return ReclaimContext(job, classes, need, lacking, protection, gang=True)

    def _orders(
        self,
        losing: ReclaimContext | None,
        scope: Mask,
        demand: Demand,
        whole: Demand,
        domain: HyperNode,
        ordered: Callable[[BundlesByJob], Iterator[Bundle]],
    ) -> Iterator[Iterator[Bundle]]:
        """Yields the orders of eviction to be tried. ``whole``: the demand of all tasks, ``demand``: of the first
        part."""
        for possible in self._scopes(losing, scope, whole, domain):
            yield ordered(BundlesByJob(self._session, possible))
            if losing is not None:
                bundles = ordered(BundlesByJob(self._session, possible))
                yield self._node_by_node(bundles, demand, losing, possible)

    def _scopes(self, losing: ReclaimContext | None, scope: Mask, demand: Demand, domain: HyperNode) -> Iterator[Mask]:
        """Yields the candidates of the domain to be searched: if their queues keep something, first those on nodes that
        the gang could use, so that others do not use up what their queues can lose; then all of them, because evictions
        elsewhere may help a quota or a filter."""
        rows = self._session.eviction_candidates.rows
        inside = np.zeros(len(self._session.nodes), dtype=bool)
        inside[domain.rows] = True
        guard = self._policy.guard
        possible = guard.each_of(losing, guard.possible(losing, scope & inside[rows]))
        if losing is None:
            yield possible
            return
        usable = possible & demand.usable[rows]
        if usable.any() or losing.protection is Protection.REQUESTED:
            yield usable
        if not np.array_equal(usable, possible):
            yield possible

    def _node_by_node(
        self, bundles: Iterator[Bundle], demand: Demand, losing: ReclaimContext, possible: Mask
    ) -> Iterator[Bundle]:
        """Yields the bundles of spare tasks node by node, and then gangs. What queues can lose may be too little to
        make room if it is spread over many nodes or small tasks. Nodes where few evictions make room for a task come
        first, and on each node the tasks that hold most of what lacks."""
        lacking = losing.lacking[:, 0]
        session = self._session
        rows = session.eviction_candidates.rows[possible]
        gained = demand.slots_without(possible).each - demand.current_slots().each
        evictions = np.bincount(rows, minlength=len(session.nodes))
        cost = np.divide(evictions, gained, out=np.full(len(gained), np.inf), where=gained > 0)

        def place(bundle: Bundle) -> tuple[bool, float, int, tuple[float, ...]]:
            if bundle.whole:
                return (True, 0.0, 0, ())
            task = bundle.tasks[0]
            row = session.nodes.index[task.node]
            return (False, float(cost[row]), row, tuple((-task.cls.request[lacking]).tolist()))

        return iter(sorted(bundles, key=place))

    def _domains(self, job: Job, upper_bound: Slots) -> Iterator[HyperNode]:
        """Yields the domains to search. Domains that cannot have enough slots are left out."""
        if not upper_bound.enough():
            return iter(())
        top = self._session.hyper_nodes.top
        gradients = self._session.gradients(job, top, True)
        found = [domain for gradient in gradients for domain in gradient] or ([] if job.has_tier_limit else [top])
        return islice((d for d in dict.fromkeys(found) if upper_bound.enough_on(d.rows)), self._max_domains)

    def _approved(
        self, context: EvictionContext, losing: ReclaimContext | None, bundles: Iterator[Bundle]
    ) -> Iterator[Bundle]:
        """Yields the bundles whose tasks are all approved by the plugins. The plugins see twice as many candidates each
        time: their answer for a candidate depends only on those before it."""
        if not self._break_gangs:
            bundles = takewhile(lambda bundle: not bundle.whole, bundles)
        accepted: list[Bundle] = []
        size = FIRST_CHUNK
        while chunk := list(islice(bundles, size)):
            size += len(chunk)
            new = self._accepted(context, losing, accepted, chunk)
            accepted += new
            yield from new

    def _accepted(
        self, context: EvictionContext, losing: ReclaimContext | None, before: Sequence[Bundle], chunk: list[Bundle]
    ) -> list[Bundle]:
        """Returns the bundles of a chunk whose tasks are all approved if the bundles ``before`` are evicted."""
        while True:
            candidates: Sequence[Task] = [task for bundle in (*before, *chunk) for task in bundle.tasks]
            candidates = self._policy.guard.losses(losing, candidates)
            approved = {task.uid for task in self._session.ask(self._policy.point, context, candidates)}
            accepted = [bundle for bundle in chunk if all(task.uid in approved for task in bundle.tasks)]
            parts = [bundle for bundle in chunk if any(task.uid in approved for task in bundle.tasks)]
            if len(parts) == len(accepted):
                return accepted
            # The approved part of a refused gang counted against those after it: ask again without the first such gang.
            first = next(bundle for bundle in parts if bundle not in accepted)
            chunk = [bundle for bundle in parts if bundle is not first]


def _demand_key(job: Job, tasks: Sequence[Task]) -> object:
    """Returns the key under which failed searches are remembered: gangs with equal keys get equal answers."""
    if job.sub_jobs or job.count(*job.by_status) > len(tasks):
        return job.key
    classes = tuple(sorted((task.cls.id, task.role) for task in tasks))
    return (job.queue, job.priority, job.min_member, tuple(sorted(job.role_minimum.items())), classes)
