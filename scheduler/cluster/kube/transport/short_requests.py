"""Requests with short answers, and watches, sent to the API server over connections of our own (``http1``)."""

import re
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from yarl import URL

from scheduler import __version__
from scheduler.cluster.kube.transport.credentials import Access
from scheduler.cluster.kube.transport.http1.connections import Pool

AGENT: Final = f"volcano-py/{__version__}"
_TARGET: Final = re.compile(r"[!-~]+")
_FIELD_VALUE: Final = re.compile(r"[ -~]*")
_SAFE: Final = "/?:@!$&'()*+,;=~%[]"
"""Characters that are not quoted in a target, beside letters, digits and "_.-"."""
_HEADS: Final = 64
"""Heads that are kept."""


class Head(NamedTuple):
    """The header fields that differ between requests; "": left out."""

    authorization: str
    accept: str
    content_type: str


class Answer(NamedTuple):
    """The parts of a response that matter."""

    status: int
    retry_after: str | None
    """The header of that name."""
    body: bytes


class ShortRequests:
    """One API server, reached with one set of certificates. Belongs to one event loop."""

    def __init__(self, address: URL, access: Access) -> None:
        """``address``: that of the server, parsed."""
        tls = access.tls
        if address.scheme == "https" and tls is None:
            tls = ssl.create_default_context()
        host = address.raw_host or ""
        server_name = access.server_name or host.rstrip(".")
        self._pool = Pool(host, address.port or 443, tls if address.scheme == "https" else None, server_name)
        self._prefix = address.raw_path.rstrip("/")
        self._host = address.host_port_subcomponent or host
        self._heads: dict[Head, str] = {}
        """Head -> all header fields as they are sent. Most requests have one of a few heads."""

    @classmethod
    def to(cls, access: Access) -> Self | None:
        """None if the server can be reached only by a client that knows proxies or Basic authentication, or if its
        address is invalid."""
        try:
            address = URL(access.host)
        except ValueError:
            return None
        if access.proxy or address.user or address.scheme not in ("http", "https") or not address.raw_host:
            return None
        return cls(address, access)

    async def send(
        self,
        method: str,
        target: str,
        head: Head,
        body: bytes | None,
        seconds: float,
        receive: Callable[[bytes], object] | None = None,
    ) -> Answer:
        """``target``: path and query; ``receive``: see ResponseParser. Raises ConnectError, ExchangeError, ValueError
        for a value that cannot be sent in a header, and what ``receive`` raises."""
        fields = self._heads.get(head)
        if fields is None:
            fields = self._fields(head)
            if len(self._heads) >= _HEADS:  # tokens change
                self._heads.clear()
            self._heads[head] = fields
        target = self._prefix + target
        if not _TARGET.fullmatch(target):
            target = quote(target, safe=_SAFE)
        if body is None:
            request = f"{method} {target} HTTP/1.1\r\n{fields}\r\n".encode()
        else:
            request = f"{method} {target} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body
        response = await self._pool.request(method, request, seconds, receive)
        retry_after = response.headers.get(b"retry-after")
        return Answer(response.status, None if retry_after is None else retry_after.decode("latin-1"), response.body)

    def close(self) -> None:
        """Closes the connections once they have carried their requests."""
        self._pool.close()

    def abort(self) -> None:
        """Closes the connections at once."""
        self._pool.abort()

    def _fields(self, head: Head) -> str:
        """All header fields except Content-Length. Raises ValueError."""
        fields = {
            "Host": self._host,
            "User-Agent": AGENT,
            "Accept": head.accept,
            "Accept-Encoding": "identity",
            "Authorization": head.authorization,
            "Content-Type": head.content_type,
        }
        for name, value in fields.items():
            if not _FIELD_VALUE.fullmatch(value):
                raise ValueError(f"the value of the header {name} has characters that cannot be sent")
        return "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
