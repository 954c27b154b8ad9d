"""Weighted fair shares of namespaces.

``spec.hard["volcano.sh/namespace.weight"]`` of a ResourceQuota is the weight of its namespace: the highest if several
quotas have one, 1 if none has. Of two jobs in one queue, the job whose namespace has the smaller share per weight comes
first, so that namespaces get shares in proportion to their weights. If no quota has a weight, namespaces do not matter.
(Earlier versions of Volcano had this feature.)
"""

from collections.abc import Iterable, Mapping

from scheduler.api.job import Job
from scheduler.api.names import NAMESPACE_WEIGHT
from scheduler.api.objects import ResourceQuota
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Vector
from scheduler.framework.figures import NamespaceFigures
from scheduler.framework.session import Session
from scheduler.plugins.drf.shares import Shares


class Namespaces:
    """The allocated and pipelined amounts of each namespace, and its weight."""

    def __init__(self, session: Session, shares: Shares, weights: Mapping[str, float]) -> None:
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


def weights(quotas: Iterable[ResourceQuota], session: Session) -> dict[str, float]:
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
