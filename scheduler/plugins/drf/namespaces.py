"""Fair shares of namespaces by weight: a ResourceQuota says how much its namespace counts for.

``spec.hard["volcano.sh/namespace.weight"]`` of any ResourceQuota is the weight of its namespace, the highest where
several name one, 1 where none does. Of two jobs in one queue, that of the namespace with the smaller share per weight
goes first, so that what each namespace gets is in proportion to its weight. Where no quota names a weight, namespaces
play no part. (Volcano once had this and dropped it.)
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
    """What each namespace holds or was promised, and its weight."""

    def __init__(self, session: Session, shares: Shares, weights: Mapping[str, float]) -> None:
        self._shares = shares
        self._weights = weights
        self._held: dict[str, Vector] = {}
        for job in session.jobs.values():
            self.add(job, job.allocated + job.pipelined)

    def add(self, job: Job, amount: Vector) -> None:
        """A job gets an amount (negative: loses it)."""
        held = self._held.get(job.namespace)
        self._held[job.namespace] = amount if held is None else held + amount

    def held(self, namespace: str) -> Vector:
        """What the namespace's jobs hold or were promised. Raises KeyError for one without jobs."""
        return self._held[namespace]

    def share(self, namespace: str, held: Vector) -> float:
        """The namespace's share per weight, if it held so much."""
        return self._shares.of(held) / self._weights.get(namespace, 1.0)

    def figures(self) -> dict[str, NamespaceFigures]:
        """All namespaces with jobs."""
        return {
            name: NamespaceFigures(self._shares.of(held), self._weights.get(name, 1.0))
            for name, held in self._held.items()
        }

    def share_of(self, job: Job) -> float:
        """The share per weight of a job's namespace."""
        return self.share(job.namespace, self._held[job.namespace])


def weights(quotas: Iterable[ResourceQuota], session: Session) -> dict[str, float]:
    """Namespace -> weight, for those that a quota gives one. A weight below 1 or no number is set aside and told of."""
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
