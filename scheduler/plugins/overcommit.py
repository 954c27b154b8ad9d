"""overcommit: admits PodGroups up to a multiple of the cluster's resources (Volcano's overcommit plugin)."""

from collections.abc import Iterator
from math import ceil
from typing import ClassVar, Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.resource import exceeded
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.support.queue_accounting import not_admitted, queue_amounts, reservation

DEFAULT_FACTOR = 1.2
_HUNDREDTHS: Final = 100
_MAX_RAISE: Final = 2
"""A remedy raises the factor to at most this multiple of it. A larger one would admit jobs whose Pods have no room."""


@register_plugin
class Overcommit:
    """Argument ``overcommit-factor`` (1.2, at least 1): the multiple of the cluster's resources that may be
    reserved."""

    name: ClassVar[str] = "overcommit"

    def __init__(self, arguments: Arguments) -> None:
        self.factor = arguments.number("overcommit-factor", DEFAULT_FACTOR, least=1)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._idle = np.maximum(session.total * self.factor - session.nodes.used.sum(axis=1), 0)
        self._inqueue = sum((held.reserved for held in queue_amounts(session).values()), session.dimensions.zeros())
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)

    def _enqueueable(self, job: Job) -> Vote:
        if job.min_resources is None:
            return Vote.PERMIT
        over = exceeded(self._inqueue + job.min_resources, self._idle, job.min_resources)
        if not over:
            return Vote.PERMIT
        refusal = not_admitted(
            self._session.dimensions,
            "resource in cluster is overused",
            "overused",
            over,
            asked=job.min_resources,
            reserved=self._inqueue,
            free_to_reserve=self._idle,
        )
        self._session.refuse(job, refusal)
        return Vote.REJECT

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            self._inqueue = self._inqueue + reservation(self._session, job, job.min_resources)


@remedies(Overcommit, ChangeKind.OVERCOMMIT)
def raise_overcommit(evidence: Evidence, plugin: Overcommit) -> Iterator[Plan]:
    """Raises the factor up to which the resources of the cluster may be reserved, to at most twice its value."""
    shortages = [s for gate in evidence.gates if gate.plugin == "overcommit" for s in gate.shortages]
    if not shortages:
        return
    session = evidence.session
    factor = plugin.factor
    total = {name: float(session.total[d]) for d, name in enumerate(session.dimensions.names)}
    parts = [s.missing / total[s.resource] for s in shortages if total.get(s.resource)]
    estimate = max([1, *(ceil(part * _HUNDREDTHS) for part in parts)])
    most = int(factor * (_MAX_RAISE - 1) * _HUNDREDTHS)
    if estimate > most:
        return

    def at(amount: int) -> Step:
        then = round(factor + amount / _HUNDREDTHS, 2)
        text = f"raise overcommit's argument overcommit-factor from {factor:g} to {then:g}"
        return Step(text, arguments={"overcommit": {"overcommit-factor": then}})

    yield (Adjustment(ChangeKind.OVERCOMMIT, estimate, most, at),)
