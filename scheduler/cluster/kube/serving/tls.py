"""TLS 1.2 or newer with a certificate that is loaded from a source, and replaced while connections are open."""

import os
import ssl
from typing import Protocol

import structlog
from cryptography import x509
from prometheus_client import Gauge

from scheduler.cluster.kube.serving.certificate_sources import CertificateSource, ServingCertificate
from scheduler.cluster.kube.serving.certificates import CertificateError
from scheduler.cluster.kube.transport.errors import RequestError

log = structlog.get_logger(__name__)


class ServingContext:
    """The TLS context of a listening server, with a replaceable certificate."""

    def __init__(self, *, client_certificates: bool = False) -> None:
        """``client_certificates``: whether clients may authenticate with a certificate. One that is presented must be
        signed by the authority of ``trust_clients``."""
        self.tls = _context()
        self.tls.sni_callback = self._select_context
        if client_certificates:  # OpenSSL reads the mode from this context, the authority from the selected one
            self.tls.verify_mode = ssl.CERT_OPTIONAL
        self._client_authority = ""
        self._pair: tuple[bytes, bytes] | None = None
        self._current: ssl.SSLContext | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a certificate."""
        return self._current is not None

    def load(self, certificate: bytes, key: bytes) -> None:
        """Uses a certificate chain and its key, both PEM, for new connections. Raises ssl.SSLError."""
        self.use(serving_context(certificate, key, self._client_authority))
        self._pair = certificate, key

    def use(self, context: ssl.SSLContext) -> None:
        """Uses the certificate of a ``serving_context`` for new connections."""
        self._current = context

    def trust_clients(self, authority: str) -> None:
        """Accepts certificates of clients that these authorities (PEM) have signed, and no others. Raises
        ssl.SSLError."""
        if self._pair is not None:
            self.use(serving_context(*self._pair, authority))
        self._client_authority = authority

    def _select_context(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext
    ) -> int | None:
        """Sets the context of a handshake; OpenSSL calls it whether or not the client sends a server name."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def serving_context(certificate: bytes, key: bytes, client_authority: str = "") -> ssl.SSLContext:
    """A context with a certificate chain and its key, both PEM; with ``client_authority`` (PEM), clients may present a
    certificate. Raises ssl.SSLError."""
    context = _context()
    if client_authority:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_authority)
    # OpenSSL loads a chain from files only; this file exists in memory only.
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: b"")
    finally:
        os.close(descriptor)
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


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
