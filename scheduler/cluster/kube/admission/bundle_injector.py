"""Writes the CA bundle of the webhook server into the webhook configurations, and restores it when it is removed.

Configurations with a Service belong to the chart, and only the CA bundle is added to them. With a URL there is no
chart: missing configurations are created, and a different URL is replaced.
"""

import base64
from collections.abc import Iterable
from typing import Any

import msgspec
import structlog

from scheduler.cluster.kube.transport.client import JSON, JSON_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, ApiError, RequestError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.contract import Json
from scheduler.webhooks.routes import Route, collection_of, configuration, kind_of, name_of

_encode = msgspec.json.Encoder().encode
log = structlog.get_logger(__name__)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Configuration(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[dict[str, Any]] = []


class BundleInjector:
    """Belongs to one event loop."""

    def __init__(
        self, client: ApiClient, routes: Iterable[Route], url: str, release_namespace: str, metrics: AdmissionMetrics
    ) -> None:
        """``url``: the URL of the server; "" when the configurations have a Service."""
        self._client = client
        self._routes = list(routes)
        self._url = url
        self._namespace = release_namespace
        self._metrics = metrics
        self._problems: dict[str, str] = {}

    async def ensure(self, bundle: bytes) -> bool:
        """Checks and corrects all configurations. Returns whether all are correct. ``bundle``: PEM."""
        encoded = base64.b64encode(bundle).decode()
        for route in self._routes:
            try:
                problem = await self._ensure_one(route, encoded)
            except REQUEST_ERRORS as error:
                problem = str(error)
            self._report(route, problem)
        return not any(self._problems.values())

    async def _ensure_one(self, route: Route, bundle: str) -> str:
        path = f"{collection_of(route)}/{name_of(route)}"
        try:
            body = await self._client.request("GET", path, priority=CallPriority.CONTROL)
        except ApiError as error:
            if error.status != 404:
                raise
            if not self._url:
                return f"there is no {kind_of(route)} {name_of(route)}"
            manifest = configuration(route, self._url, bundle, self._namespace)
            await self._write("POST", collection_of(route), manifest)
            return ""
        found = msgspec.json.decode(body, type=_Configuration)
        changes = list(self._changes(route, found.webhooks, bundle))
        if changes:
            unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}
            await self._write("PATCH", path, [unchanged, *changes])
        return ""

    def _changes(self, route: Route, webhooks: list[dict[str, Any]], bundle: str) -> Iterable[Json]:
        for index, webhook in enumerate(webhooks):
            client = webhook.get("clientConfig") or {}
            desired = {"caBundle": bundle}
            if self._url and "url" in client:
                desired["url"] = f"{self._url}{route.path}"
            for key, value in desired.items():
                if client.get(key) != value:
                    yield {"op": "add", "path": f"/webhooks/{index}/clientConfig/{key}", "value": value}

    async def _write(self, method: str, path: str, body: Any) -> None:
        content_type = JSON_PATCH if method == "PATCH" else JSON
        try:
            await self._client.request(
                method, path, body=_encode(body), content_type=content_type, priority=CallPriority.CONTROL
            )
        except RequestError:
            self._metrics.bundle_writes.labels("error").inc()
            raise
        self._metrics.bundle_writes.labels("success").inc()
        log.info("CA bundle written", path=path)

    def _report(self, route: Route, problem: str) -> None:
        """Logs a problem when it is new."""
        if problem and problem != self._problems.get(route.path):
            log.warning("the API server may not trust the webhook server", path=route.path, problem=problem)
        self._problems[route.path] = problem
