"""The admission server as a long-running process: watches, certificates and the webhook server."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import NAMESPACE, QUEUE
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.admission.bundle_injector import BundleInjector
from scheduler.cluster.kube.admission.cluster_reader import ClusterReader
from scheduler.cluster.kube.admission.decision import WatchedView
from scheduler.cluster.kube.admission.review_handler import ReviewHandler
from scheduler.cluster.kube.admission.review_queue import ReviewQueue
from scheduler.cluster.kube.admission.server import AdmissionServer
from scheduler.cluster.kube.admission.templates import TemplateValidator
from scheduler.cluster.kube.process.liveness import STOPPING, Phase
from scheduler.cluster.kube.process.process import Process
from scheduler.cluster.kube.process.reload import ReloadedFile
from scheduler.cluster.kube.process.settings import ProcessSettings
from scheduler.cluster.kube.process.waiting import cancel, unless_stopped
from scheduler.cluster.kube.serving.certificate_sources import (
    CertificateFiles,
    CertificateSecret,
    certificate_source,
)
from scheduler.cluster.kube.serving.tls import CertificateReloader, ServingContext
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.transport.ratelimit import Backoff
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.contract import ResourceGroup, WebhookSettings
from scheduler.webhooks.routes import Route

CHECK_SECONDS: Final = 15.0
"""Seconds between two checks of certificates, webhook configurations and the configuration file."""
RETRY_SECONDS: Final = 5.0
"""The most seconds between two checks while one fails."""
DRAIN_SECONDS: Final = 5.0
"""Maximum seconds for which a stopping process keeps serving, since API servers notice late that it is stopping."""
_NEED_NAMESPACES: Final = frozenset({"/podgroups/mutate"})
log = structlog.get_logger(__name__)


class RoleSettings(msgspec.Struct, frozen=True):
    """The settings of the role; times in seconds."""

    routes: Sequence[Route]
    certificates: CertificateFiles | CertificateSecret
    namespace: str
    """The namespace of the program, in which Pod templates are validated."""
    url: str = ""
    """The URL where API servers reach the server; "" if they use a Service."""
    host: str = ""
    """The address to listen on; "" for all."""
    port: int = 8443
    health_address: str = ""
    qps: float = 50
    burst: int = 100
    graceful_shutdown: float = 30.0


class AdmissionProcess:
    """The process of the admission server. Call ``run`` once."""

    def __init__(
        self,
        settings: RoleSettings,
        webhook_settings: WebhookSettings,
        groups: ReloadedFile[tuple[ResourceGroup, ...]],
        credentials: Credentials,
    ) -> None:
        """``webhook_settings``: the settings of the admission functions; their resource groups come from ``groups``."""
        self._settings = settings
        self._groups = groups
        self._webhook_settings = replace(webhook_settings, resource_groups=groups.current)
        self._metrics = metrics = AdmissionMetrics()
        process = ProcessSettings(
            qps=settings.qps,
            burst=settings.burst,
            metrics_address=settings.health_address,
            health_address=settings.health_address,
            stopping=settings.graceful_shutdown + STOPPING,
        )
        self.process = Process(process, credentials, metrics, self._unready)
        self._client = client = self.process.client
        self._stop, self._liveness = self.process.stopping, self.process.liveness
        view = WatchedView()
        kinds = [QUEUE, NAMESPACE] if _NEED_NAMESPACES & {route.path for route in settings.routes} else [QUEUE]
        self._informers = InformerSet(
            [Informer(client, WatchSource(kind), view, self._report, metrics) for kind in kinds]
        )
        self._review_queue = ReviewQueue(view)
        review_handler = ReviewHandler(
            view,
            ClusterReader(client, metrics),
            lambda: self._webhook_settings,
            metrics,
            self._review_queue,
            TemplateValidator(client, settings.namespace),
        )
        self._tls = ServingContext()
        self._server = AdmissionServer(
            review_handler, settings.routes, settings.host, settings.port, shutdown_timeout=settings.graceful_shutdown
        )
        bundles = BundleInjector(client, settings.routes, settings.url, settings.namespace, metrics)
        source = certificate_source(settings.certificates, client, settings.namespace)
        self._certificates = CertificateReloader(source, bundles, self._tls, metrics.certificate_end)

    def _report(self, malformed: Malformed, ref: ObjectRef) -> None:
        """Logs a malformed object; the scheduler records the Event."""
        self._metrics.malformed.labels(malformed.kind).inc()
        log.warning("malformed object ignored", kind=ref.kind, name=ref.name, problem=str(malformed))

    def _unready(self) -> str:
        if self._stop.is_set():
            return "stopping"
        unready = self._informers.unready()
        if unready:
            return unready
        if not self._tls.ready:
            return f"no certificate: {self._certificates.problem or 'not read yet'}"
        return "" if self._server.port else "not listening yet"

    # --- running ------------------------------------------------------------------------------------------------------
    async def run(self) -> int:
        """Answers reviews until stopped. Returns the exit code 0. Raises CredentialsError, and OSError when it cannot
        listen."""
        async with self.process.running():
            maintaining: asyncio.Task[None] | None = None
            try:
                self._informers.start()
                synced = await self._informers.synced(self._stop, self._liveness.progress)
                if synced and await unless_stopped(self._stop, self._wait_for_certificate()):
                    await self._server.start(self._tls.tls)
                    self._liveness.enter(Phase.SERVING)
                    maintaining = asyncio.create_task(self._maintain())
                    await self._stop.wait()
                    log.info("stopping")
                    await asyncio.sleep(min(DRAIN_SECONDS, self._settings.graceful_shutdown / 2))
            finally:
                if maintaining is not None:
                    await cancel(maintaining)
                await self._server.stop()
                await self._review_queue.close()
                await self._informers.close()
        return 0

    async def _wait_for_certificate(self) -> bool:
        """Waits for the first certificate."""
        backoff = Backoff(0.5, RETRY_SECONDS)
        while not await self._certificates.load():
            self._liveness.progress()
            await asyncio.sleep(backoff.next())
        return True

    async def _maintain(self) -> None:
        """Reloads the configuration and the certificate, and restores the webhook configurations, periodically."""
        backoff = Backoff(0.5, RETRY_SECONDS)
        while True:
            self._liveness.progress()
            try:
                if self._groups.poll(self._metrics):
                    self._webhook_settings = replace(self._webhook_settings, resource_groups=self._groups.current)
                await self._certificates.load()
                trusted = await self._certificates.ensure_trust()
            except Exception:  # certificates must not expire because of any error
                log.exception("maintaining the certificates failed")
                trusted = False
            if trusted:
                backoff.reset()
            await asyncio.sleep(CHECK_SECONDS if trusted else backoff.next())
