"""The aggregated API as a part of the scheduler's process: certificate, trust of API servers, and server.

Every replica answers, whether or not it leads: an answer is made from a copy of the cluster, not from a session.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.cluster.kube.scheduler.visibility.answers import Worker, WorkerAnswers
from scheduler.cluster.kube.scheduler.visibility.overviews import Overviews
from scheduler.cluster.kube.scheduler.visibility.page import WebPage
from scheduler.cluster.kube.scheduler.visibility.server import VisibilityServer
from scheduler.cluster.kube.scheduler.visibility.user import FrontProxyError, read_front_proxy
from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles, CertificateSecret, certificate_source
from scheduler.cluster.kube.serving.tls import CertificateReloader, ServingContext
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, RequestError
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.framework.cycle import Outcome, SessionDemand, SessionObserver
from scheduler.framework.session import Session
from scheduler.observability.overview import Overview
from scheduler.observability.role_metrics import RoleMetrics, VisibilityMetrics

CHECK: Final = 60.0
"""Seconds between two checks of the certificate, the APIService and the front proxy."""
_GROUP, _, _VERSION = VISIBILITY_API_VERSION.partition("/")
API_SERVICE: Final = f"/apis/apiregistration.k8s.io/v1/apiservices/{_VERSION}.{_GROUP}"
log = structlog.get_logger(__name__)


class VisibilitySettings(msgspec.Struct, frozen=True):
    """The settings of the aggregated API."""

    host: str | None
    """The address to listen on; None: all."""
    port: int
    namespace: str
    """The namespace of the Secret of the certificate."""
    certificates: CertificateFiles | CertificateSecret
    worker: Worker
    take_overview: Callable[[Session], Overview] | None = None
    """Takes the overview of a session for the web page; None: the page is not served."""


class _Spec(msgspec.Struct):
    ca_bundle: str = msgspec.field(default="", name="caBundle")


class _ApiService(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class ApiServiceBundle:
    """Writes the CA bundle of the server into its APIService."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._problem = ""

    async def ensure(self, bundle: bytes) -> bool:
        """Checks and corrects the CA bundle (PEM). Returns whether it is correct."""
        problem, wanted = "", base64.b64encode(bundle).decode()
        try:
            body = await self._client.request("GET", API_SERVICE, priority=CallPriority.CONTROL)
            if msgspec.json.decode(body, type=_ApiService).spec.ca_bundle != wanted:
                patch = msgspec.json.encode({"spec": {"caBundle": wanted}})
                await self._client.request(
                    "PATCH", API_SERVICE, body=patch, content_type=MERGE_PATCH, priority=CallPriority.CONTROL
                )
                log.info("CA bundle written", path=API_SERVICE)
        except REQUEST_ERRORS as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("the API server may not trust this server", path=API_SERVICE, problem=problem)
        self._problem = problem
        return not problem


class Visibility(SessionObserver):
    """Belongs to one event loop. Call ``start``, then ``close``."""

    def __init__(
        self,
        settings: VisibilitySettings,
        client: ApiClient,
        metrics: RoleMetrics,
        standing_by: Callable[[], bool] = lambda: False,
    ) -> None:
        """``standing_by``: whether this process runs no sessions, because another one leads."""
        self._settings = settings
        self._client = client
        own = VisibilityMetrics(metrics.registry)
        self._answers = WorkerAnswers(settings.worker)
        self._overviews, page = None, None
        if settings.take_overview is not None:
            self._overviews = Overviews(settings.take_overview, self._list_cluster, standing_by)
            page = WebPage(client, self._overviews, own)
        self._server = VisibilityServer(client, self._answers, own, page=page)
        self._tls = ServingContext(client_certificates=True)
        source = certificate_source(settings.certificates, client, settings.namespace)
        self._certificates = CertificateReloader(source, ApiServiceBundle(client), self._tls, own.certificate_end)
        self._maintaining: asyncio.Task[None] | None = None
        self._problem = ""

    async def start(self) -> None:
        """Starts to listen; without a certificate, connections fail until there is one. Raises OSError."""
        await self._server.start(self._settings.host, self._settings.port, self._tls)
        self._answers.start()
        self._maintaining = asyncio.create_task(self._maintain())

    async def demand(self) -> SessionDemand:
        """A session is needed once a web page is opened that shows nothing yet."""
        return SessionDemand.NOW if self._overviews is not None and self._overviews.awaited else SessionDemand.LATER

    async def ended(self, outcome: Outcome) -> None:
        if self._overviews is not None:
            await self._overviews.session_ended(outcome.session)

    async def _list_cluster(self) -> Overview | None:
        answer = await self._answers.overview()
        return msgspec.json.decode(answer.body, type=Overview) if answer.status == 200 else None

    @property
    def port(self) -> int:
        """The port in use; 0 before ``start``."""
        return self._server.port

    async def close(self) -> None:
        if self._maintaining is not None:
            self._maintaining.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintaining
        await self._server.stop()
        await self._answers.close()

    async def _maintain(self) -> None:
        backoff = Backoff(0.5, CHECK)
        while True:
            try:
                ready = await self._certificates.load()
                ready &= await self._read_front_proxy()
                ready &= await self._certificates.ensure_trust()
            except Exception:  # scheduling does not depend on this, and the next attempt may succeed
                log.exception("maintaining the API for tenants failed")
                ready = False
            if ready:
                backoff.reset()
            await asyncio.sleep(CHECK if ready else backoff.next())

    async def _read_front_proxy(self) -> bool:
        """Learns how API servers authenticate. After an error, what was last learned stays in force."""
        problem = ""
        try:
            found = await read_front_proxy(self._client)
            if found != self._server.front_proxy:
                self._tls.trust_clients(found.authority)
                self._server.front_proxy = found
        except (FrontProxyError, RequestError, ssl.SSLError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("it is not known how API servers authenticate", problem=problem)
        self._problem = problem
        return not problem
