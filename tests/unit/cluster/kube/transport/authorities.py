"""An API server whose certificate is of another authority than the one that its clients know."""

import ssl
from datetime import UTC, datetime

from scheduler.cluster.kube.serving.certificates import (
    AUTHORITY_CERTIFICATES,
    SERVING_CERTIFICATE,
    SERVING_KEY,
    renewed,
    to_pem,
)
from scheduler.cluster.kube.serving.tls import serving_context
from scheduler.cluster.kube.transport.credentials import Access


class RotatedAuthority:
    """Credentials that name the authority of the server from their second load on."""

    def __init__(self) -> None:
        self.url = ""
        self.loads = 0
        self._old, self._new = (to_pem(renewed(None, ["127.0.0.1"], datetime.now(UTC))) for _ in range(2))

    def serving_tls(self) -> ssl.SSLContext:
        """The TLS context of the server."""
        return serving_context(self._new[SERVING_CERTIFICATE], self._new[SERVING_KEY])

    def load(self) -> Access:
        self.loads += 1
        authority = (self._old if self.loads == 1 else self._new)[AUTHORITY_CERTIFICATES]
        return Access(self.url, ssl.create_default_context(cadata=authority.decode()), None, None)

    def authorization(self) -> str:
        return ""
