"""Loads the certificate of a source into the server, and its CA bundle into the webhook configurations."""

import ssl

import structlog
from cryptography import x509

from scheduler.cluster.kube.admission.bundle_injector import BundleInjector
from scheduler.cluster.kube.admission.certificate_sources import CertificateSource, ServingCertificate
from scheduler.cluster.kube.admission.certificates import CertificateError
from scheduler.cluster.kube.admission.tls import ServingContext, serving_context
from scheduler.cluster.kube.transport.client import ApiError, TransportError
from scheduler.observability.admission_metrics import AdmissionMetrics

log = structlog.get_logger(__name__)


class CertificateReloader:
    """Belongs to one event loop."""

    def __init__(
        self, source: CertificateSource, bundles: BundleInjector, tls: ServingContext, metrics: AdmissionMetrics
    ) -> None:
        self._source = source
        self._bundles = bundles
        self._tls = tls
        self._metrics = metrics
        self._serving: ServingCertificate | None = None
        self.problem = ""
        """Why the last load failed; "" if it succeeded."""

    async def load(self) -> bool:
        """Loads the certificate. Returns whether the server has one; after an error the last valid one stays in use."""
        try:
            serving = await self._source.read()
            if serving != self._serving:
                self._use(serving)
            self.problem = ""
        except (CertificateError, ApiError, TransportError) as error:
            if str(error) != self.problem:
                log.warning("loading the certificate failed", error=str(error), serving=self._serving is not None)
            self.problem = str(error)
        return self._serving is not None

    async def ensure_trust(self) -> bool:
        """Writes the CA bundle into the webhook configurations. Returns whether all have it.

        Does nothing where another program maintains the configurations.
        """
        if self._serving is None or not self._serving.bundle:
            return True
        return await self._bundles.ensure(self._serving.bundle)

    def _use(self, serving: ServingCertificate) -> None:
        """Serves new connections with the certificate. Raises CertificateError."""
        try:
            certificate = x509.load_pem_x509_certificate(serving.certificate)
            self._tls.use(serving_context(serving.certificate, serving.key))
        except (ValueError, OSError) as error:  # ssl.SSLError is an OSError
            reason = error.reason if isinstance(error, ssl.SSLError) else error
            raise CertificateError(f"the certificate cannot be served: {reason}") from None
        self._serving = serving
        end = certificate.not_valid_after_utc
        self._metrics.certificate_end.set(end.timestamp())
        log.info("serving with a certificate", serial=f"{certificate.serial_number:x}", until=end.isoformat())
