"""Requests to the API server over connections of our own (``http1``).

``aiohttp_transport`` has the same interface, ``HttpTransport``. It is imported only where our connections do not do,
since that takes a twentieth of a start.
"""

import re
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import quote

import msgspec
from yarl import URL

from scheduler import __version__
from scheduler.cluster.kube.transport.credentials import Access
from scheduler.cluster.kube.transport.http1.connections import ExchangeError, Pool
from scheduler.cluster.kube.transport.http1.response import Response

AGENT: Final = f"volcano-py/{__version__}"
_TARGET: Final = re.compile(r"[!-~]+")
_FIELD_VALUE: Final = re.compile(r"[ -~]*")
_SAFE: Final = "/?:@!$&'()*+,;=~%[]"
"""Characters that are not quoted in a target, beside letters, digits and "_.-"."""
_HEADS: Final = 64
"""Heads that are kept."""


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """The header fields that differ between requests; "": left out."""

    authorization: str
    accept: str
    content_type: str = ""
    gzip: bool = False
    """Whether the body of the answer may be compressed. It is handed out as it was sent."""

    @property
    def fields(self) -> dict[str, str]:
        """The header fields by name, with the fields that every request has."""
        fields = {
            "User-Agent": AGENT,
            "Accept": self.accept,
            "Accept-Encoding": "gzip" if self.gzip else "identity",
            "Authorization": self.authorization,
            "Content-Type": self.content_type,
        }
        return {name: value for name, value in fields.items() if value}

    def __repr__(self) -> str:
        """Leaves out the token, which must not be in a log."""
        return f"Head(accept={self.accept!r}, content_type={self.content_type!r}, gzip={self.gzip})"


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to the API server."""

    method: str
    target: str
    """Path and query."""
    head: RequestHead
    body: bytes | None = None

    def __repr__(self) -> str:
        """Names the request in messages, without query, token and body."""
        return f"{self.method} {self.target.partition('?')[0]}"


class HttpAnswer(NamedTuple):
    """The parts of a response that matter."""

    status: int
    retry_after: str | None
    """The header of that name."""
    body: bytes
    warning: str | None = None
    """The header of that name, with the values of all fields, separated by commas."""


class HttpTransport(Protocol):
    """One API server, reached with one set of certificates. Belongs to one event loop.

    Requests raise ``ConnectError`` and ``ExchangeError`` of ``http1.connections``.
    """

    async def send(
        self, request: HttpRequest, seconds: float, receive: Callable[[bytes], object] | None = None
    ) -> HttpAnswer:
        """Returns the answer, which has to arrive within ``seconds``. ``receive``: is called with each part of the body
        of a successful answer as it arrives; the body is then empty. Raises what it raises, too."""

    async def close(self) -> None:
        """Closes the connections once they have carried their requests."""

    async def abort(self) -> None:
        """Closes the connections at once."""


class Http1Transport:
    """An ``HttpTransport``."""

    def __init__(self, address: URL, access: Access) -> None:
        """``address``: the parsed address of the server."""
        tls = access.tls
        if address.scheme == "https" and tls is None:
            tls = ssl.create_default_context()
        host = address.raw_host or ""
        server_name = access.server_name or host.rstrip(".")
        self._pool = Pool(host, address.port or 443, tls if address.scheme == "https" else None, server_name)
        self._prefix = address.raw_path.rstrip("/")
        self._host = address.host_port_subcomponent or host
        self._heads: dict[RequestHead, str] = {}
        """Head -> all header fields as they are sent. Most requests have one of a few heads."""

    @classmethod
    def to(cls, access: Access) -> Self | None:
        """The transport to a server; None if only a client that knows proxies or Basic authentication reaches it, or if
        its address is invalid."""
        try:
            address = URL(access.host)
        except ValueError:
            return None
        if access.proxy or address.user or address.scheme not in ("http", "https") or not address.raw_host:
            return None
        return cls(address, access)

    async def send(
        self, request: HttpRequest, seconds: float, receive: Callable[[bytes], object] | None = None
    ) -> HttpAnswer:
        encoded = self._encoded(request)
        return _answer(await self._pool.request(request.method, encoded, seconds, receive, gzip=request.head.gzip))

    async def close(self) -> None:
        self._pool.close()

    async def abort(self) -> None:
        self._pool.abort()

    def _encoded(self, request: HttpRequest) -> bytes:
        """A request as it is sent. Raises ExchangeError for a value that cannot be sent in a header."""
        head, body = request.head, request.body
        fields = self._heads.get(head)
        if fields is None:
            fields = self._fields(head)
            if len(self._heads) >= _HEADS:  # tokens change
                self._heads.clear()
            self._heads[head] = fields
        target = self._prefix + request.target
        if not _TARGET.fullmatch(target):
            target = quote(target, safe=_SAFE)
        if body is None:
            return f"{request.method} {target} HTTP/1.1\r\n{fields}\r\n".encode()
        return f"{request.method} {target} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _fields(self, head: RequestHead) -> str:
        """All header fields except Content-Length. Raises ExchangeError."""
        fields = {"Host": self._host, **head.fields}
        for name, value in fields.items():
            if not _FIELD_VALUE.fullmatch(value):
                problem = f"the value of the header {name} has characters that cannot be sent"
                raise ExchangeError(problem, sent=False)
        return "".join(f"{name}: {value}\r\n" for name, value in fields.items())


def _answer(response: Response) -> HttpAnswer:
    retry_after, warning = _field(response, b"retry-after"), _field(response, b"warning")
    return HttpAnswer(response.status, retry_after, response.body, warning)


def _field(response: Response, name: bytes) -> str | None:
    value = response.headers.get(name)
    return None if value is None else value.decode("utf-8", "replace")
