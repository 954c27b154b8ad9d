"""The plugin: orders jobs by dominant share (Volcano's drf plugin).

Namespaces are ordered by weighted share if weights exist, and queues by hierarchical share with ``enableHierarchy``.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.kinds import RESOURCE_QUOTA
from scheduler.api.names import NAMESPACE_WEIGHT
from scheduler.api.node import Mask
from scheduler.api.objects import ResourceQuota
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import ENABLE_HIERARCHY, ENABLE_NAMESPACE_ORDER
from scheduler.framework.figures import Figures, NamespaceFigures
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.drf.shares import TOLERANCE, Hierarchy, JobShares, Shares, at_least


@register_plugin
class Drf:
    """Has no arguments. Flags: ``enableHierarchy`` (default false), ``enableNamespaceOrder`` (default true)."""

    name: ClassVar[str] = "drf"

    def __init__(self, arguments: Arguments) -> None:
        del arguments  # takes none
        self._namespaces: Namespaces | None = None
        self._hierarchy: Hierarchy | None = None

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._shares = Shares(session.total)
        if quotas := session.snapshot.objects[RESOURCE_QUOTA]:
            weighted = weights(quotas.values(), session)
            if weighted and session.option(ENABLE_NAMESPACE_ORDER):
                self._namespaces = Namespaces(session, self._shares, weighted)
                session.add_job_order(self._namespaces.share_of, moving=True)
        session.add_job_order(self.share)
        session.add_preemptable(self._victims, bound=self._possible_victims, by_demand=True)
        session.add_figures(self._figures)
        if session.option(ENABLE_HIERARCHY):
            jobs = session.jobs.values()
            self._hierarchy = Hierarchy(self._shares, session.queues, jobs, self._report)
            session.add_queue_order(self._hierarchy.key, moving=True)
            session.add_reclaimable(self._reclaimable, by_demand=True)
        if self._namespaces is not None or self._hierarchy is not None:
            session.add_handlers(partial(self._count, 1), partial(self._count, -1))

    def share(self, job: Job) -> float:
        """Returns the dominant share (0 to 1) of the job's allocated and pipelined amounts."""
        return self._shares.of(job.allocated + job.pipelined)

    def _report(self, queue: Queue, annotation: str, problem: str) -> None:
        field = f"metadata.annotations[{annotation}]"
        self._session.malformed_field(Malformed("Queue", "", queue.name, field, problem))

    def _figures(self) -> Figures:
        namespaces = {} if self._namespaces is None else self._namespaces.figures()
        return Figures(jobs=JobShares(self._shares, self._session.jobs.values()), namespaces=namespaces)

    # --- books ---
    def _count(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        amount = tasks[0].cls.request * (sign * len(tasks))
        if self._namespaces is not None:
            self._namespaces.add(job, amount)
        if self._hierarchy is not None:
            self._hierarchy.add(job, amount)

    # --- preemption: within a queue ---
    def _victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        jobs = self._session.jobs
        job = jobs.get(preemptor.job)
        if job is None:
            return None
        claim = self._shares.of(job.allocated + job.pipelined + preemptor.cls.request)
        left: dict[str, Vector] = {}
        left_to_namespace: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            owner = jobs.get(task.job)
            if owner is None:
                continue
            if self._namespaces is not None and owner.namespace != job.namespace:
                held = left_to_namespace.get(owner.namespace, self._namespaces.held(owner.namespace))
                left_to_namespace[owner.namespace] = rest = held - task.cls.request
                claimed = self._namespaces.held(job.namespace) + preemptor.cls.request
                theirs = self._namespaces.share(owner.namespace, rest)
                ours = self._namespaces.share(job.namespace, claimed)
                if abs(theirs - ours) > TOLERANCE:
                    if theirs > ours:
                        victims.append(task)
                    continue
            rest = left.get(task.job, owner.allocated + owner.pipelined) - task.cls.request
            left[task.job] = rest
            if at_least(self._shares.of(rest), claim):
                victims.append(task)
        return victims

    def _possible_victims(self, preemptor: Task, candidates: EvictionCandidates) -> Mask:
        """Returns the tasks whose job keeps at least the preemptor's share if only this task is evicted."""
        job = self._session.jobs.get(preemptor.job)
        shares = self._shares
        if job is None or self._namespaces is not None or not len(shares.dims):
            return candidates.present
        claim = shares.of(job.allocated + job.pipelined + preemptor.cls.request)
        rest = (candidates.per_job(self._held) - candidates.requests[shares.dims].T) / shares.total
        possible: Mask = rest.max(axis=1) >= claim - TOLERANCE
        return possible

    def _held(self, job: Job) -> Vector:
        held: Vector = (job.allocated + job.pipelined)[self._shares.dims]
        return held

    # --- reclaim: between queues of a hierarchy ---
    def _reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """Returns the candidates whose queue still comes after the reclaimer's queue once the resources are
        exchanged."""
        tree, jobs, queues = self._hierarchy, self._session.jobs, self._session.queues
        job = jobs.get(reclaimer.job)
        if tree is None or job is None or job.queue not in queues:
            return None
        ours = queues[job.queue]
        victims = []
        with tree.assuming(job, reclaimer.cls.request):
            for task in candidates:
                owner = jobs.get(task.job)
                if owner is None or owner.queue not in queues:
                    continue
                with tree.assuming(owner, -task.cls.request):
                    if tree.key(ours) < tree.key(queues[owner.queue]):
                        victims.append(task)
        return victims


class Namespaces:
    """Weighted fair shares of namespaces: the allocated and pipelined amounts of each, and its weight.

    ``spec.hard["volcano.sh/namespace.weight"]`` of a ResourceQuota is the weight of its namespace: the highest if
    several quotas have one, 1 if none has. Of two jobs in one queue, the job whose namespace has the smaller share per
    weight comes first, so that namespaces get shares in proportion to their weights. If no quota has a weight,
    namespaces do not matter. (Earlier versions of Volcano had this feature.)
    """

    def __init__(self, session: PluginSession, shares: Shares, weights: Mapping[str, float]) -> None:
        self._shares = shares
        self._weights = weights
        self._held: dict[str, Vector] = {}
        for job in session.jobs.values():
            self.add(job, job.allocated + job.pipelined)

    def add(self, job: Job, amount: Vector) -> None:
        """Adds an amount to the namespace of a job (negative: subtracts)."""
        held = self._held.get(job.namespace)
        self._held[job.namespace] = amount if held is None else held + amount

    def held(self, namespace: str) -> Vector:
        """Returns the allocated and pipelined amount of a namespace. Raises KeyError if it has no jobs."""
        return self._held[namespace]

    def share(self, namespace: str, held: Vector) -> float:
        """Returns the share per weight of a namespace that holds ``held``."""
        return self._shares.of(held) / self._weights.get(namespace, 1.0)

    def figures(self) -> dict[str, NamespaceFigures]:
        """Returns the figures of all namespaces with jobs."""
        return {
            name: NamespaceFigures(self._shares.of(held), self._weights.get(name, 1.0))
            for name, held in self._held.items()
        }

    def share_of(self, job: Job) -> float:
        """The share per weight of a job's namespace."""
        return self.share(job.namespace, self._held[job.namespace])


def weights(quotas: Iterable[ResourceQuota], session: PluginSession) -> dict[str, float]:
    """Returns namespace -> weight, for namespaces with a quota that has one. Invalid weights (below 1, or not a number)
    are ignored and reported."""
    result: dict[str, float] = {}
    for quota in quotas:
        written = (quota.spec.hard or {}).get(NAMESPACE_WEIGHT)
        if written is None:
            continue
        meta = quota.metadata
        try:
            weight = float(parse_quantity(written))
        except QuantityError as error:
            weight, problem = 0.0, str(error)
        else:
            problem = f"{written} is less than 1"
        if weight < 1:
            field = f"spec.hard[{NAMESPACE_WEIGHT}]"
            session.malformed_field(Malformed("ResourceQuota", meta.namespace, meta.name, field, problem))
            continue
        result[meta.namespace] = max(weight, result.get(meta.namespace, 0.0))
    return result
