"""Which function answers which path, and for which writes.

Paths, names of webhooks and operations are Volcano's: the webhook configurations of a cluster name them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from scheduler.api.kinds import CRON_JOB, HYPER_NODE, JOB_FLOW, POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.webhooks import cronjob, hypernode, job, jobflow, pod, podgroup, queue
from scheduler.webhooks.contract import ClusterView, Json, Mutator, Operation, Request, Settings, Validator
from scheduler.webhooks.verdict import Verdict

_CREATE: Final = (Operation.CREATE,)
_WRITE: Final = (Operation.CREATE, Operation.UPDATE)


@dataclass(frozen=True, slots=True)
class Route:
    """One webhook; it either mutates or validates."""

    path: str
    kind: Kind
    operations: tuple[Operation, ...]
    mutate: Mutator | None = None
    validate: Validator | None = None

    @property
    def webhook(self) -> str:
        """The name that refusals are told under."""
        verb = "mutate" if self.mutate else "validate"
        return f"{verb}{self.kind.name.lower()}.volcano.sh"


BINARY_DEFAULT: Final = (
    "/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/pods/validate", "/pods/mutate", "/queues/mutate",
    "/queues/validate",
)  # fmt: skip
"""What is served unless told otherwise, as by Volcano's program."""
CHART_DEFAULT: Final = (
    "/jobs/mutate", "/jobs/validate", "/podgroups/validate", "/queues/mutate", "/queues/validate",
    "/hypernodes/validate", "/cronjobs/validate",
)  # fmt: skip
"""What the chart serves, as Volcano's does."""


@cache
def routes() -> dict[str, Route]:
    """All there are, by path."""
    table = (
        Route("/jobs/mutate", VCJOB, _WRITE, mutate=job.mutate),
        Route("/jobs/validate", VCJOB, _WRITE, validate=job.validate),
        Route("/queues/mutate", QUEUE, _CREATE, mutate=queue.mutate),
        Route("/queues/validate", QUEUE, (*_WRITE, Operation.DELETE), validate=queue.validate),
        Route("/podgroups/mutate", POD_GROUP, _CREATE, mutate=podgroup.mutate),
        Route("/podgroups/validate", POD_GROUP, _CREATE, validate=podgroup.validate),
        Route("/pods/mutate", POD, _CREATE, mutate=pod.mutate),
        Route("/pods/validate", POD, _CREATE, validate=pod.validate),
        Route("/jobflows/validate", JOB_FLOW, _WRITE, validate=jobflow.validate),
        Route("/hypernodes/validate", HYPER_NODE, _WRITE, validate=hypernode.validate),
        Route("/cronjobs/validate", CRON_JOB, _WRITE, validate=cronjob.validate),
    )
    return {route.path: route for route in table}


@dataclass(frozen=True, slots=True)
class Decision:
    """What comes of a request."""

    object: Json
    """As it should be stored."""
    refusal: str = ""
    webhook: str = ""
    """The one that refuses."""


def admit(request: Request, cluster: ClusterView, settings: Settings, enabled: Collection[str]) -> Decision:
    """Ask the webhooks of the request's kind whose paths are enabled, as an API server does: those that mutate first,
    then those that validate, until one refuses. Pod templates are not validated."""
    asked = [
        route
        for route in routes().values()
        if route.kind is request.kind and request.operation in route.operations and route.path in enabled
    ]
    for route in asked:
        if route.mutate:
            request = replace(request, object=route.mutate(request, cluster, settings))
    for route in asked:
        found = route.validate(request, cluster, settings) if route.validate else ""
        refusal = found.text() if isinstance(found, Verdict) else found
        if refusal:
            return Decision(request.object, refusal, route.webhook)
    return Decision(request.object)
