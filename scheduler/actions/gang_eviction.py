"""Making room for whole gangs: in which domain of the cluster, at whose expense, and for whom it is in vain.

Shared by gangpreempt and gangreclaim, which differ in whose tasks are candidates and in the order in which they go. A
gang gets room for all its tasks that wait, or nobody is evicted.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

import numpy as np

from scheduler.actions.bundles import Bundle, BundlesByJob
from scheduler.actions.eviction import NEVER, await_their_places
from scheduler.actions.nomination import Nominator, Part, parts_to_place
from scheduler.actions.slots import Demand, Slots
from scheduler.actions.takeover import Takeover
from scheduler.actions.trial import Terms, unspoken
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.names import PREEMPTABLE, TRUE
from scheduler.api.node import Mask
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import EvictionContext
from scheduler.framework.statement import Statement

MOST_DOMAINS = 8
FIRST_ASKED = 64
"""Bundles of which plugins are asked at first; gangs seldom need more."""
Ordered = Callable[[BundlesByJob, Vector], Iterator[Bundle]]
"""ordered(bundles, need): the bundles, those to go first in front."""


class GangRoomMaker:
    """Evicts bundles for gangs, for one action of one session.

    Arguments: ``maxDomains`` (default 8, also for a number below 1), in how many domains at most room is sought;
    ``allowWholeBundle`` (default true), whether gangs may be broken.
    """

    def __init__(self, terms: Terms, arguments: Arguments) -> None:
        self._terms = terms
        self._session = terms.session
        most = arguments.integer("maxDomains", MOST_DOMAINS)
        self._most_domains = most if most > 0 else MOST_DOMAINS
        self._break_gangs = arguments.boolean("allowWholeBundle", True)
        self._in_vain: set[object] = set()
        """Claims that could not be met; until something changes."""

    def make_room(self, job: Job, scope: Mask, ordered: Ordered) -> None:
        """Evict tenants of ``scope`` so that the job can have all that it waits for, if that lets it start."""
        session = self._session
        parts = parts_to_place(session, job)
        tasks = [task for _, part in parts for task in part]
        if not tasks or any(task.cls.spec.preemption_policy == NEVER for task in tasks):
            return
        if await_their_places(session, tasks):
            return
        if self._terms.across_queues and not session.preemptive(session.queues[job.queue], tasks):
            return
        claim = _claim(job, tasks)
        if claim in self._in_vain:
            return
        with unspoken(job, tasks):
            statement = self._search(job, parts, tasks, scope, ordered)
            if statement is not None and not statement.evicts:
                statement.discard()  # nobody need go: the job is left to allocate
        if statement is None:
            self._in_vain.add(claim)
        elif statement:
            statement.commit()
            self._in_vain.clear()

    def _search(
        self, job: Job, parts: Sequence[Part], tasks: Sequence[Task], scope: Mask, ordered: Ordered
    ) -> Statement | None:
        session, tenants, point = self._session, self._session.tenants, self._terms.point
        need: Vector = np.sum([task.cls.request for task in tasks], axis=0)
        context = EvictionContext(job, need, self._terms.across_queues)
        scope = scope & tenants.present & tenants.per_job(gives_way).astype(bool)
        approvable = scope
        for tier in session.functions(point):
            for bound in filter(None, map(session.bound, tier)):
                approvable = approvable & bound(context, tenants)
        demand = Demand(session, job, parts[0][1])
        for domain in self._domains(job, demand.without(approvable)):
            inside = np.zeros(len(session.nodes), dtype=bool)
            inside[domain.rows] = True
            slots = demand.now()
            slots.confine(domain.rows)
            takeover = Takeover(self._terms, job, Nominator(session, job, parts, domain), slots)
            bundles = ordered(BundlesByJob(session, scope & inside[tenants.rows]), need)
            statement = takeover.work_out(self._approved(context, bundles))
            if statement is not None:
                return statement
        return None

    def _domains(self, job: Job, most: Slots) -> Iterator[HyperNode]:
        """Where room is sought, one after the other. Domains that could not have enough do not count."""
        if not most.enough():
            return iter(())
        top = self._session.hyper_nodes.top
        gradients = self._session.gradients(job, top, True)
        found = [domain for gradient in gradients for domain in gradient] or ([] if job.confined else [top])
        return islice((d for d in dict.fromkeys(found) if most.enough_on(d.rows)), self._most_domains)

    def _approved(self, context: EvictionContext, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        """Those of which every task may go. Plugins are asked about twice as many each time: what they say of one
        depends on those before it only."""
        if not self._break_gangs:
            bundles = takewhile(lambda bundle: not bundle.whole, bundles)
        asked: list[Bundle] = []
        while chunk := list(islice(bundles, max(len(asked), FIRST_ASKED))):
            asked += chunk
            candidates = [task for bundle in asked for task in bundle.tasks]
            approved = {task.uid for task in self._session.ask(self._terms.point, context, candidates)}
            yield from (bundle for bundle in chunk if all(task.uid in approved for task in bundle.tasks))


def _claim(job: Job, tasks: Sequence[Task]) -> object:
    """What matters of a gang to those who might make room for it: gangs of one claim are answered alike."""
    if job.sub_jobs or job.count(*job.by_status) > len(tasks):
        return job.key
    classes = tuple(sorted((task.cls.id, task.role) for task in tasks))
    return (job.queue, job.priority, job.min_member, tuple(sorted(job.role_minimum.items())), classes)


def gives_way(job: Job) -> bool:
    """Whether the PodGroup lets gangs take its nodes; it does unless it says otherwise."""
    text = job.annotations.get(PREEMPTABLE, job.labels.get(PREEMPTABLE))
    return text is None or text in TRUE
