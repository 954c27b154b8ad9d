"""The routes of the webhook server: the function of each path, with its kind and operations, and the
MutatingWebhookConfiguration or ValidatingWebhookConfiguration of each route.

Paths, names of webhooks and operations are Volcano's, since the webhook configurations of a cluster contain them. The
chart renders the same configurations; a test compares the two.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.kinds import ACJOB, CRON_JOB, HYPER_NODE, JOB_FLOW, JOB_TEMPLATE, POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.api.names import KUBE_SYSTEM, NAMESPACE_NAME_LABEL
from scheduler.webhooks import ascendjob, cronjob, hypernode, job, jobflow, pod, podgroup, queue
from scheduler.webhooks.contract import (
    AdmissionRequest,
    ClusterView,
    Json,
    Mutator,
    Operation,
    ValidationResult,
    Validator,
    WebhookSettings,
)

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
        Route("/jobtemplates/validate", JOB_TEMPLATE, _WRITE, validate=job.validate_template),
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


API_VERSION: Final = "admissionregistration.k8s.io/v1"
PREFIX: Final = "volcano-admission-service"
TIMEOUT: Final = 10
"""Seconds that the API server waits for an answer."""
_ALL_NAMESPACES: Final = frozenset({"/hypernodes/validate"})
"""Paths without a namespaceSelector, as in Volcano's chart."""


# --- webhook configurations -------------------------------------------------------------------------------------------
class ServiceReference(msgspec.Struct, frozen=True):
    """The Service of the webhook server."""

    namespace: str
    name: str
    port: int = 443


def name_of(route: Route) -> str:
    return PREFIX + route.path.replace("/", "-")


def kind_of(route: Route) -> str:
    return "MutatingWebhookConfiguration" if route.mutate else "ValidatingWebhookConfiguration"


def collection_of(route: Route) -> str:
    """The API path of the collection that holds the route's configuration."""
    return f"/apis/{API_VERSION}/{kind_of(route).lower()}s"


def configuration(route: Route, server: ServiceReference | str, ca_bundle: str, release_namespace: str) -> Json:
    """The webhook configuration of a route.

    ``server``: the Service, or a URL that the path is appended to. ``ca_bundle``: the trusted PEM certificates in
    base64. ``release_namespace``: the namespace of the webhook server; the API server does not send its objects.
    """
    webhook: dict[str, Any] = {
        "name": route.webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**_client_config(route, server), "caBundle": ca_bundle},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": [route.kind.group],
                "apiVersions": [route.kind.api_version.rpartition("/")[2]],
                "operations": [str(operation) for operation in route.operations],
                "resources": [route.kind.plural],
                "scope": "*",
            }
        ],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT,
    }
    if route.mutate:
        webhook["reinvocationPolicy"] = "Never"
    if route.path not in _ALL_NAMESPACES:
        webhook["namespaceSelector"] = {
            "matchExpressions": [
                {
                    "key": NAMESPACE_NAME_LABEL,
                    "operator": "NotIn",
                    "values": [release_namespace, KUBE_SYSTEM],
                }
            ]
        }
    return {
        "apiVersion": API_VERSION,
        "kind": kind_of(route),
        "metadata": {"name": name_of(route)},
        "webhooks": [webhook],
    }


def _client_config(route: Route, server: ServiceReference | str) -> Json:
    if isinstance(server, str):
        return {"url": f"{server.rstrip('/')}{route.path}"}
    service = {"namespace": server.namespace, "name": server.name, "path": route.path, "port": server.port}
    return {"service": service}
