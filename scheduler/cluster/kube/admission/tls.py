"""TLS of at least 1.2 with a certificate that can be exchanged while connections are open."""

import os
import ssl


class ServingContext:
    """What a server listens with."""

    def __init__(self) -> None:
        self.tls = _context()
        self.tls.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a certificate."""
        return self._current is not None

    def use(self, context: ssl.SSLContext) -> None:
        """Have new connections served with the certificate of this context (``serving_context``)."""
        self._current = context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        """Called in every handshake, whether or not the client names a server."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def serving_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A context of a chain and its key, both PEM. Raises ssl.SSLError."""
    context = _context()
    # OpenSSL reads files only; this one is nowhere but in memory.
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
