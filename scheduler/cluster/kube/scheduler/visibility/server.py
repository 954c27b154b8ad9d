"""The aggregated API over HTTPS: authenticates, authorizes, limits, and passes questions on.

Refusals are ``Status`` objects, whose message kubectl prints.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec
import structlog
from aiohttp import web

from scheduler.api import explained_kinds, kinds
from scheduler.api.kinds import VCJOB, Kind
from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import no_such_object
from scheduler.cluster.kube.scheduler.visibility.answers import WorkerAnswer
from scheduler.cluster.kube.scheduler.visibility.limits import Allowance, QuestionRates, RateLimit
from scheduler.cluster.kube.scheduler.visibility.page import PAGES, WebPage
from scheduler.cluster.kube.scheduler.visibility.reviews import MAX_BYTES, AskedObject, asked_objects
from scheduler.cluster.kube.scheduler.visibility.user import (
    FrontProxy,
    RefusedError,
    ResourceAccess,
    User,
    answer_or_refusal,
    authorize,
    name_in,
    status_response,
    user_of_token,
)
from scheduler.cluster.kube.serving.tls import ServingContext
from scheduler.cluster.kube.transport.client import METADATA_LIST, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.observability.connections import BODY, Connections, Limits
from scheduler.observability.role_metrics import VisibilityMetrics

PREFIX: Final = f"/apis/{VISIBILITY_API_VERSION}"
EXPLAINED: Final = {entry.resource: kind for kind, entry in explained_kinds.EXPLAINED.items()}
"""Resource -> the kind that is explained."""
EXPLAIN: Final = "explain"
QUOTAS: Final = "queuequotas"
REVIEWS: Final = "runreviews"
LIMITS: Final = Limits(connections=128, largest=MAX_BYTES, held=16 * MAX_BYTES)
IN_FLIGHT: Final = 2
"""Questions of one user that are answered at a time, so that a user leaves places in the queue to others."""
IN_FLIGHT_OF_NAMESPACE: Final = 4
"""Questions about a namespace, and questions of its ServiceAccounts, that are answered at a time."""
MAX_TOKEN: Final = 16 * 1024
"""Characters of a bearer token."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = structlog.get_logger(__name__)


class AnswerSource(Protocol):
    """Answers questions; see ``Answers``."""

    async def explain(self, kind: str, namespace: str, name: str) -> WorkerAnswer: ...

    async def queues(self, namespace: str, nothing: bytes) -> WorkerAnswer: ...

    async def review(self, namespace: str, objects: str) -> WorkerAnswer: ...


class VisibilityServer:
    """Belongs to one event loop. Call ``start``, then ``stop``."""

    def __init__(
        self,
        client: ApiClient,
        source: AnswerSource,
        metrics: VisibilityMetrics,
        *,
        page: WebPage | None = None,
        limits: Limits = LIMITS,
        rates: QuestionRates | None = None,
        reviews: RateLimit | None = None,
    ) -> None:
        """``page``: the web page; None: it is not served. ``rates``: limits the questions of users and about
        namespaces; ``reviews``: limits the questions of clients that are not yet known."""
        self._client = client
        self._source = source
        self._metrics = metrics
        self._page = page
        self._connections = Connections(limits)
        self._rates = rates or QuestionRates()
        self._reviews = reviews or RateLimit(burst=40, per_second=20)
        self._in_flight = Allowance("questions {} wait for an answer", IN_FLIGHT, IN_FLIGHT_OF_NAMESPACE, 1.0)
        self.front_proxy = FrontProxy()
        """How API servers authenticate."""
        self.port = 0
        """The port in use; 0 before ``start``."""

    async def start(self, host: str | None, port: int, tls: ServingContext) -> None:
        """Starts to listen. Raises OSError when the address cannot be used."""
        app = web.Application()
        app.router.add_get(PREFIX, self._discovery)
        resources = "|".join(EXPLAINED)
        explain = f"{PREFIX}/namespaces/{{namespace}}/{{resource:{resources}}}/{{name}}/{EXPLAIN}"
        app.router.add_get(explain, self._answering(EXPLAIN, self._explain))
        app.router.add_get(f"{PREFIX}/namespaces/{{namespace}}/{QUOTAS}", self._answering(QUOTAS, self._quotas))
        app.router.add_post(f"{PREFIX}/namespaces/{{namespace}}/{REVIEWS}", self._answering(REVIEWS, self._review))
        if self._page is not None:
            self._page.add_routes(app, PREFIX, self._viewer, self._rates.asked_about)
        self.port = await self._connections.serve(app, host, port, tls.tls, shutdown_timeout=1.0)
        log.info("answering tenants", host=host or "*", port=self.port, api=VISIBILITY_API_VERSION)

    async def stop(self) -> None:
        await self._connections.close()

    async def _discovery(self, request: web.Request) -> web.Response:
        """What API servers and kubectl ask to learn the resources. It says nothing about the cluster."""
        return web.Response(body=_resources(page=self._page is not None), content_type="application/json")

    # --- questions ----------------------------------------------------------------------------------------------------
    async def _explain(self, request: web.Request) -> WorkerAnswer:
        namespace, name = name_in(request, "namespace"), name_in(request, "name")
        resource = request.match_info["resource"]
        async with self._authorized(request, ResourceAccess("get", namespace, resource, EXPLAIN, name)):
            problem = await problem_if_missing(self._client, EXPLAINED[resource], namespace, name)
            if problem:
                return WorkerAnswer(404, problem)
            return await self._source.explain(EXPLAINED[resource], namespace, name)

    async def _quotas(self, request: web.Request) -> WorkerAnswer:
        namespace = name_in(request, "namespace")
        head = {"apiVersion": VISIBILITY_API_VERSION, "kind": "QueueQuotaList", "namespace": namespace}
        nothing = {**head, "metadata": {}, "items": [], "waiting": []}
        async with self._authorized(request, ResourceAccess("list", namespace, QUOTAS)):
            return await self._source.queues(namespace, msgspec.json.encode(nothing))

    async def _review(self, request: web.Request) -> WorkerAnswer:
        namespace, body = name_in(request, "namespace"), request[BODY]
        async with self._authorized(request, ResourceAccess("create", namespace, REVIEWS)) as user:
            objects = asked_objects(body, namespace)
            for access in dict.fromkeys([await self._write_access(namespace, each) for each in objects]):
                await authorize(self._client, user, access)
            return await self._source.review(namespace, body.decode())

    async def _write_access(self, namespace: str, asked: AskedObject) -> ResourceAccess:
        """The right that the submission of an object takes. Raises RequestError, and msgspec's errors."""
        kind = asked.kind
        selection = {"fieldSelector": f"metadata.name={asked.name}"}
        exists = asked.name != "" and asked.name in await _names(self._client, kind, namespace, selection)
        verb, name = ("update", asked.name) if exists else ("create", "")
        return ResourceAccess(verb, namespace, kind.plural, name=name, api_version=kind.api_version)

    @asynccontextmanager
    async def _authorized(self, request: web.Request, access: ResourceAccess) -> AsyncIterator[User]:
        """Yields the user. Raises RefusedError unless the user may ask this, and may ask now."""
        user = await self._user(request)
        self._rates.asked_by(user)
        with self._in_flight.of(user):
            await authorize(self._client, user, access)
            self._rates.asked_about(access.namespace)
            with self._in_flight.about(access.namespace):
                yield user

    async def _user(self, request: web.Request) -> User:
        """The user that an API server names, or whose bearer token it is. Raises RefusedError."""
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        if self.front_proxy.trusts(certificate):
            user = self.front_proxy.user(request.headers)
            if user is not None:
                return user
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            raise RefusedError(401, "neither an API server nor a bearer token names a user")
        self._reviews.take(request.remote or "")
        return await user_of_token(self._client, token)

    async def _viewer(self, request: web.Request) -> User:
        """The user who opens a page. Raises RefusedError."""
        user = await self._user(request)
        self._rates.asked_by(user)
        return user

    def _answering(self, resource: str, question: Callable[[web.Request], Awaitable[WorkerAnswer]]) -> Handler:
        async def respond(request: web.Request) -> web.Response:
            answer = await question(request)
            if answer.status == 200:
                return web.Response(body=bytes(answer.body), content_type="application/json")
            return status_response(answer.status, answer.message)

        async def handle(request: web.Request) -> web.StreamResponse:
            began = time.monotonic()
            response = await answer_or_refusal(respond(request), "a question")
            self._metrics.requests.labels(resource, str(response.status)).inc()
            self._metrics.seconds.labels(resource).observe(time.monotonic() - began)
            return response

        return handle


def _resources(*, page: bool) -> bytes:
    explained = [
        {
            "name": f"{resource}/{EXPLAIN}",
            "singularName": "",
            "namespaced": True,
            "kind": "Explanation",
            "verbs": ["get"],
        }
        for resource in EXPLAINED
    ]
    quotas = {"name": QUOTAS, "singularName": "", "namespaced": True, "kind": "QueueQuota", "verbs": ["list"]}
    reviews = {"name": REVIEWS, "singularName": "", "namespaced": True, "kind": "RunReview", "verbs": ["create"]}
    # Without `list` and `watch`: programs that watch all resources would take the events of the page for objects.
    pages = {"name": PAGES, "singularName": "", "namespaced": True, "kind": "Page", "verbs": ["get"]}
    document = {
        "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": VISIBILITY_API_VERSION,
        "resources": [*explained, quotas, reviews, *([pages] if page else [])],
    }  # fmt: skip
    return msgspec.json.encode(document)


_MOST_JOBS: Final = 500
"""Jobs of a namespace among which the creator of a missing Pod is searched for."""


class _List(msgspec.Struct):
    items: list[KubeObject] | None = None
    """None instead of an empty list."""


async def problem_if_missing(client: ApiClient, kind: str, namespace: str, name: str) -> str:
    """Why a question about an object cannot be answered: it does not exist. "": it exists.

    Raises RequestError, and msgspec's errors.
    """
    for wanted in (getattr(kinds, constant) for constant in explained_kinds.EXPLAINED[kind].constants):
        if await _names(client, wanted, namespace, {"fieldSelector": f"metadata.name={name}"}):
            return ""
    creator = await _creator_of(client, namespace, name) if kind == "pod" else ""
    return no_such_object(kind, namespace, name, creator)


async def _creator_of(client: ApiClient, namespace: str, pod: str) -> str:
    """The vcjob whose Pods have such names, or ""."""
    start, _, number = pod.rpartition("-")
    if not number.isdecimal():
        return ""
    jobs = await _names(client, VCJOB, namespace, {"limit": str(_MOST_JOBS)})
    return max((job for job in jobs if start.startswith(f"{job}-")), key=len, default="")


async def _names(client: ApiClient, kind: Kind, namespace: str, selection: dict[str, str]) -> list[str]:
    """The names of the selected objects; none of a kind that the cluster does not have or the scheduler may not list,
    because explanations do not see those either."""
    try:
        body = await client.request(
            "GET", kind.path_in(namespace), params=selection, accept=METADATA_LIST, priority=CallPriority.READ
        )
    except ApiError as error:
        if error.status in (403, 404):
            return []
        raise
    return [each.metadata.name for each in msgspec.json.decode(body, type=_List).items or ()]
