"""Requests to the API server over connections of aiohttp, which knows proxies and Basic authentication."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Final

import aiohttp
from yarl import URL

from scheduler.cluster.kube.transport.credentials import Access
from scheduler.cluster.kube.transport.http1.connections import ConnectError, ExchangeError
from scheduler.cluster.kube.transport.http_transport import HttpAnswer, HttpRequest

_CONNECT: Final = 10.0
"""Seconds until there must be a connection for a body that is handed out as it arrives, which may take long."""


class AiohttpTransport:
    """An ``HttpTransport``."""

    def __init__(self, access: Access) -> None:
        self._access = access
        # One connection per request in flight; callers limit their number.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60))
        self._under_way = 0
        self._closing = False

    async def send(
        self, request: HttpRequest, seconds: float, receive: Callable[[bytes], object] | None = None
    ) -> HttpAnswer:
        async with self._response(request, seconds, None if receive is None else _CONNECT) as response:
            if receive is None or response.status >= 300:
                return await _whole(response, seconds)
            async for part in _parts(response, seconds):
                receive(part)
            return _answer(response, b"")

    async def close(self) -> None:
        self._closing = True
        if not self._under_way:
            await self._session.close()

    async def abort(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def _response(
        self, request: HttpRequest, seconds: float, connect: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request; the response is open within the context. ``connect``: seconds, or None."""
        self._under_way += 1
        try:
            with _translated(seconds):
                response = await self._session.request(
                    request.method,
                    _parsed(f"{self._access.host}{request.target}"),
                    data=request.body,
                    headers=request.head.fields,
                    timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=connect, ceil_threshold=1e9),
                    ssl=self._access.tls or True,
                    server_hostname=self._access.server_name,
                    proxy=self._access.proxy,
                    allow_redirects=False,
                    auto_decompress=not request.head.gzip,
                )
            try:
                yield response
            finally:
                response.release()  # before the end of the body, this closes the connection
        finally:
            self._under_way -= 1
            if self._closing and not self._under_way:
                await self._session.close()


async def _parts(response: aiohttp.ClientResponse, seconds: float) -> AsyncIterator[bytes]:
    with _translated(seconds):
        async for part in response.content.iter_any():
            yield part


@contextmanager
def _translated(seconds: float) -> Iterator[None]:
    """Raises the errors of an ``HttpTransport`` instead of aiohttp's. ``seconds``: the time that the request has."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise ConnectError(str(error), tls=isinstance(error, aiohttp.ClientSSLError)) from None
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectError(str(error), tls=False) from None
    except TimeoutError:
        raise ExchangeError(f"no answer within {seconds:.1f} s", late=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise ExchangeError(str(error) or type(error).__name__, sent=not isinstance(error, ValueError)) from None
    except ValueError as error:  # of a URL or a header that cannot be sent
        raise ExchangeError(str(error), sent=False) from None


async def _whole(response: aiohttp.ClientResponse, seconds: float) -> HttpAnswer:
    with _translated(seconds):
        return _answer(response, await response.read())


def _answer(response: aiohttp.ClientResponse, body: bytes) -> HttpAnswer:
    warning = ", ".join(response.headers.getall("Warning", ())) or None
    return HttpAnswer(response.status, response.headers.get("Retry-After"), body, warning)


@lru_cache(256)
def _parsed(text: str) -> URL:
    """Parses a URL once: parsing costs as much as sending, and many requests go to one URL."""
    return URL(text, encoded=True)
