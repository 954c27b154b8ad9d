"""Serves the current certificate of a source, and makes API servers trust it."""

import ssl

import structlog
from cryptography import x509

from scheduler.cluster.kube.admission.bundle_injector import BundleInjector
from scheduler.cluster.kube.admission.certificate_sources import CertificateSource, Pair
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
        self._pair: Pair | None = None
        self.problem = ""
        """Why there is no certificate, or only the last good one; "" if all is well."""

    async def load(self) -> bool:
        """Loads the certificate and serves it. Returns whether there is one; the last good one stays in use."""
        try:
            pair = await self._source.read()
            if pair != self._pair:
                self._use(pair)
            self.problem = ""
        except (CertificateError, ApiError, TransportError) as error:
            if str(error) != self.problem:
                log.warning("no certificate could be had", error=str(error), serving=self._pair is not None)
            self.problem = str(error)
        return self._pair is not None

    async def ensure_trust(self) -> bool:
        """Adds the authorities to the webhook configurations. Returns whether all contain them. Does nothing where
        another program maintains them."""
        if self._pair is None or not self._pair.bundle:
            return True
        return await self._bundles.ensure(self._pair.bundle)

    def _use(self, pair: Pair) -> None:
        """Raises CertificateError."""
        try:
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            self._tls.use(serving_context(pair.certificate, pair.key))
        except (ValueError, OSError) as error:  # ssl.SSLError is an OSError
            reason = error.reason if isinstance(error, ssl.SSLError) else error
            raise CertificateError(f"the certificate cannot be served: {reason}") from None
        self._pair = pair
        end = certificate.not_valid_after_utc
        self._metrics.certificate_end.set(end.timestamp())
        log.info("serving with a certificate", serial=f"{certificate.serial_number:x}", until=end.isoformat())
