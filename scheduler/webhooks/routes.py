"""The routes of the webhook server: the function of each path, with its kind and operations.

Paths, names of webhooks and operations are Volcano's, since the webhook configurations of a cluster contain them.
"""

from collections.abc import Collection
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.kinds import ACJOB, CRON_JOB, HYPER_NODE, JOB_FLOW, JOB_TEMPLATE, POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.webhooks import ascendjob, cronjob, hypernode, job, jobflow, jobtemplate, pod, podgroup, queue
from scheduler.webhooks.contract import (
    AdmissionRequest,
    ClusterView,
    Json,
    Mutator,
    Operation,
    Validator,
    WebhookSettings,
)
from scheduler.webhooks.validation_result import ValidationResult

_CREATE: Final = (Operation.CREATE,)
_WRITE: Final = (Operation.CREATE, Operation.UPDATE)


class Route(msgspec.Struct, frozen=True):
    """One webhook, either mutating or validating."""

    path: str
    kind: Kind
    operations: tuple[Operation, ...]
    mutate: Mutator | None = None
    validate: Validator | None = None

    @property
    def webhook(self) -> str:
        """The name of the webhook, which the API server puts into refusals."""
        verb = "mutate" if self.mutate else "validate"
        return f"{verb}{self.kind.name.lower()}.volcano.sh"


BINARY_DEFAULT: Final = (
    "/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/pods/validate", "/pods/mutate", "/queues/mutate",
    "/queues/validate", "/jobflows/validate", "/jobtemplates/validate", "/ascendjobs/validate",
)  # fmt: skip
"""The paths that the program serves by default: Volcano's, and those for JobFlows, JobTemplates and AscendJobs."""


@cache
def routes() -> dict[str, Route]:
    """All routes by path."""
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
        Route("/jobtemplates/validate", JOB_TEMPLATE, _WRITE, validate=jobtemplate.validate),
        Route("/hypernodes/validate", HYPER_NODE, _WRITE, validate=hypernode.validate),
        Route("/cronjobs/validate", CRON_JOB, _WRITE, validate=cronjob.validate),
        Route("/ascendjobs/validate", ACJOB, _WRITE, validate=ascendjob.validate),
    )
    return {route.path: route for route in table}


class Decision(msgspec.Struct, frozen=True):
    """The result of admission."""

    object: Json
    """The object to store."""
    refusal: str = ""
    webhook: str = ""
    """The webhook that refuses the write."""


def admit(
    request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings, enabled: Collection[str]
) -> Decision:
    """Calls the enabled webhooks of the request's kind as the API server does.

    The mutating webhooks run first, then the validating ones until one refuses. Pod templates are not validated.
    """
    selected = [
        route
        for route in routes().values()
        if route.kind is request.kind and request.operation in route.operations and route.path in enabled
    ]
    for route in selected:
        if route.mutate:
            request = replace(request, object=route.mutate(request, cluster, settings))
    for route in selected:
        result = route.validate(request, cluster, settings) if route.validate else ""
        refusal = result.text() if isinstance(result, ValidationResult) else result
        if refusal:
            return Decision(request.object, refusal, route.webhook)
    return Decision(request.object)
