"""Loads the certificate of a source into the server, and its CA bundle into the objects that name the server."""

import ssl
from typing import Protocol

import structlog
from cryptography import x509
from prometheus_client import Gauge

from scheduler.cluster.kube.serving.certificate_sources import CertificateSource, ServingCertificate
from scheduler.cluster.kube.serving.certificates import CertificateError
from scheduler.cluster.kube.serving.tls import ServingContext
from scheduler.cluster.kube.transport.errors import RequestError

log = structlog.get_logger(__name__)


class TrustBundles(Protocol):
    """The objects that make API servers trust the server."""

    async def ensure(self, bundle: bytes) -> bool:
        """Checks and corrects the CA bundle (PEM) of all objects. Returns whether all are correct."""


class CertificateReloader:
    """Belongs to one event loop."""

    def __init__(
        self, source: CertificateSource, bundles: TrustBundles, tls: ServingContext, certificate_end: Gauge
    ) -> None:
        """``certificate_end``: the metric with the end of the certificate in use, in seconds since the epoch."""
        self._source = source
        self._bundles = bundles
        self._tls = tls
        self._certificate_end = certificate_end
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
        except (CertificateError, RequestError) as error:
            if str(error) != self.problem:
                log.warning("loading the certificate failed", error=str(error), serving=self._serving is not None)
            self.problem = str(error)
        return self._serving is not None

    async def ensure_trust(self) -> bool:
        """Writes the CA bundle into the objects. Returns whether all have it.

        Does nothing where another program maintains them.
        """
        if self._serving is None or not self._serving.bundle:
            return True
        return await self._bundles.ensure(self._serving.bundle)

    def _use(self, serving: ServingCertificate) -> None:
        """Serves new connections with the certificate. Raises CertificateError."""
        try:
            certificate = x509.load_pem_x509_certificate(serving.certificate)
            self._tls.load(serving.certificate, serving.key)
        except (ValueError, OSError) as error:  # ssl.SSLError is an OSError
            reason = error.reason if isinstance(error, ssl.SSLError) else error
            raise CertificateError(f"the certificate cannot be served: {reason}") from None
        self._serving = serving
        end = certificate.not_valid_after_utc
        self._certificate_end.set(end.timestamp())
        log.info("serving with a certificate", serial=f"{certificate.serial_number:x}", until=end.isoformat())
