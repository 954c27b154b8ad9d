"""The MutatingWebhookConfigurations and ValidatingWebhookConfigurations of the webhook server, one for each path.

The chart renders the same objects; a test compares the two.
"""

from typing import Any, Final

import msgspec

from scheduler.api.names import KUBE_SYSTEM, NAMESPACE_NAME_LABEL
from scheduler.webhooks.contract import Json
from scheduler.webhooks.routes import Route

API_VERSION: Final = "admissionregistration.k8s.io/v1"
PREFIX: Final = "volcano-admission-service"
TIMEOUT: Final = 10
"""Seconds that the API server waits for an answer."""
_ALL_NAMESPACES: Final = frozenset({"/hypernodes/validate"})
"""Paths without a namespaceSelector, as in Volcano's chart."""


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
