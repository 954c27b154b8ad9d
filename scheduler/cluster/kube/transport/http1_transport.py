"""Requests to the API server over connections of our own (``http1``)."""

import re
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Self
from urllib.parse import quote

from yarl import URL

from scheduler.cluster.kube.transport.credentials import Access
from scheduler.cluster.kube.transport.http1.connections import ExchangeError, Pool
from scheduler.cluster.kube.transport.http1.response import Response
from scheduler.cluster.kube.transport.http_transport import HttpAnswer, HttpRequest, RequestHead

_TARGET: Final = re.compile(r"[!-~]+")
_FIELD_VALUE: Final = re.compile(r"[ -~]*")
_SAFE: Final = "/?:@!$&'()*+,;=~%[]"
"""Characters that are not quoted in a target, beside letters, digits and "_.-"."""
_HEADS: Final = 64
"""Heads that are kept."""


class Http1Transport:
    """An ``HttpTransport``."""

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
        self._heads: dict[RequestHead, str] = {}
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
        self, request: HttpRequest, seconds: float, receive: Callable[[bytes], object] | None = None
    ) -> HttpAnswer:
        encoded = self._encoded(request)
        return _answer(await self._pool.request(request.method, encoded, seconds, receive, gzip=request.head.gzip))

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, seconds: float | None
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterable[bytes]]]:
        async with self._pool.stream(request.method, self._encoded(request), seconds) as stream:
            yield _answer(stream.response), stream

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
