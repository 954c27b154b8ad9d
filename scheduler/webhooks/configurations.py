"""The objects that tell an API server to ask us: one Mutating- or ValidatingWebhookConfiguration for each path.

The chart has the same ones; a test holds them together.
"""

from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.names import KUBE_SYSTEM, NAMESPACE_NAME_LABEL
from scheduler.webhooks.contract import Json
from scheduler.webhooks.routes import Route

API_VERSION: Final = "admissionregistration.k8s.io/v1"
PREFIX: Final = "volcano-admission-service"
TIMEOUT: Final = 10
"""Seconds that an API server waits for an answer."""
_EVERYWHERE: Final = frozenset({"/hypernodes/validate"})
"""Paths without a selector of namespaces, as in Volcano's chart."""


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """A Service in front of the server."""

    namespace: str
    name: str
    port: int = 443


def name_of(route: Route) -> str:
    return PREFIX + route.path.replace("/", "-")


def kind_of(route: Route) -> str:
    return "MutatingWebhookConfiguration" if route.mutate else "ValidatingWebhookConfiguration"


def collection_of(route: Route) -> str:
    """The API path of the configurations of its kind."""
    return f"/apis/{API_VERSION}/{kind_of(route).lower()}s"


def configuration(route: Route, at: ServiceReference | str, ca_bundle: str, release_namespace: str) -> Json:
    """``at``: the Service, or the URL that paths are appended to; ``ca_bundle``: base64 of the PEM certificates to
    trust; ``release_namespace``: where this program runs, whose objects are never asked about."""
    webhook: dict[str, Any] = {
        "name": route.webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**_address(route, at), "caBundle": ca_bundle},
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
    if route.path not in _EVERYWHERE:
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


def _address(route: Route, at: ServiceReference | str) -> Json:
    if isinstance(at, str):
        return {"url": f"{at.rstrip('/')}{route.path}"}
    return {"service": {"namespace": at.namespace, "name": at.name, "path": route.path, "port": at.port}}
