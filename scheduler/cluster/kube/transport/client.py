"""Calls to the API server: authenticated, rate-limited by class, fenced by the lease, counted.

Bodies are bytes; callers encode and decode them. Callers also retry, because only they know what a lost answer means.
Short requests and watches take connections of our own (``http1``), lists those of aiohttp, which also knows proxies.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlencode

import aiohttp
import msgspec
import structlog
from yarl import URL

from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.credentials import Access, CredentialsError
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.transport.http1.connections import ConnectError, ExchangeError
from scheduler.cluster.kube.transport.ratelimit import Priority, RateLimiter
from scheduler.cluster.kube.transport.short_requests import AGENT, Answer, Head, ShortRequests
from scheduler.observability.role_metrics import RoleMetrics

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_TOKEN_SECONDS: Final = 30.0
_RELOAD_SECONDS: Final = 5.0
log = structlog.get_logger(__name__)


class Cause(msgspec.Struct, frozen=True):
    """The problem of one field of an object that was sent."""

    field: str = ""
    message: str = ""


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        """CamelCase word of the answer (``NotFound``), or ""."""
        self.message = message
        self.retry_after = retry_after
        """Seconds to wait, as the server requested, or None."""
        self.causes = causes
        """What the message is made of, where it is about fields."""

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TRANSIENT

    @property
    def uncertain(self) -> bool:
        """Whether a write may have taken effect all the same (the server gave up waiting for its own store)."""
        return self.status in (408, 500, 502, 504)


class TransportError(Exception):
    """The server did not answer."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the request may have reached the server."""


class CredentialSource(Protocol):
    """The interface of ``Credentials``; both methods may block and run on another thread."""

    def load(self) -> Access: ...

    def authorization(self) -> str: ...


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class ApiClient:
    """One API server. Belongs to one event loop; ``start`` first, ``close`` last."""

    def __init__(
        self,
        credentials: CredentialSource,
        metrics: RoleMetrics,
        *,
        qps: float = 2000,
        burst: int = 2000,
        timeout: float = 30.0,
    ) -> None:
        """``timeout``: seconds for a request from its sending to its whole answer."""
        self._credentials = credentials
        self._metrics = metrics
        self._recorders: dict[tuple[str, Priority, str], tuple[Callable[[], None], Callable[[float], None]]] = {}
        """The two metrics of a request, by verb, class and status."""
        self._limiter = RateLimiter(qps, burst)
        self._timeout = timeout
        self._access = Access("", None, None, None)
        self._session: aiohttp.ClientSession | None = None
        self._short: ShortRequests | None = None
        """None: all requests take aiohttp's connections."""
        self._authorization = ""
        self._authorized = -_TOKEN_SECONDS
        self._loaded = 0.0
        self._lock = asyncio.Lock()

    def count_in(self, metrics: RoleMetrics) -> None:
        """Counts further requests in other metrics."""
        self._metrics = metrics
        self._recorders.clear()

    async def start(self) -> None:
        """Loads the credentials, unless they are loaded. Raises CredentialsError."""
        if self._session is not None:
            return
        self._access = await asyncio.to_thread(self._credentials.load)
        self._loaded = time.monotonic()
        # One connection per request in flight; callers limit their number.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            headers={
                "Accept": JSON,
                "Accept-Encoding": "identity",
                "User-Agent": AGENT,
            },
        )
        self._use_access()

    def _use_access(self) -> None:
        """Opens new connections from now on: the address or the certificates may have changed."""
        if self._short is not None:
            self._short.close()
        self._short = ShortRequests.to(self._access)

    async def close(self) -> None:
        if self._short is not None:
            self._short.abort()
            self._short = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def host(self) -> str:
        return self._access.host

    # --- requests -----------------------------------------------------------------------------------------------------
    async def request(
        self,
        method: str,
        path: str,
        *,
        priority: Priority,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        compressed: bool = False,
        timeout: float | None = None,
        fence: Fence | None = None,
        receive: Callable[[bytes], object] | None = None,
        inflate: bool = True,
    ) -> bytes:
        """Sends a request and returns the body of a successful answer. Raises ApiError, TransportError, and Fenced
        before anything is sent.

        ``compressed``: whether the API server may compress the answer. It costs the server time, but a list of many
        objects shrinks to a tenth. ``receive``: is called with each part of the body of a successful answer as it
        arrives; the body returned is then empty. ``inflate``: whether the client decompresses a compressed answer, on
        the event loop; otherwise ``receive`` gets it as it was sent.
        """
        await self._limiter.acquire(priority)
        target = _with_query(path, params)
        for again in (False, True):
            authorization = await self._current_authorization()
            seconds = self._timeout if timeout is None else timeout
            if fence is not None:
                seconds = min(seconds, fence.check())
            code, began = "error", time.perf_counter()
            try:
                if self._short is not None and priority is not Priority.READ and not compressed and receive is None:
                    head = Head(authorization, accept, "" if body is None else content_type)
                    answer = await self._send_short(self._short, method, target, head, body, seconds)
                else:
                    headers = _headers(authorization, accept, "" if body is None else content_type, compressed)
                    answer = await self._send_any(method, target, headers, body, seconds, receive, inflate)
                code = str(answer.status)
            finally:
                self._record(method, priority, code, time.perf_counter() - began)
            if answer.status == 401 and not again:
                await self._renew_credentials()
                continue
            if answer.status >= 400:
                raise _error(answer.status, answer.retry_after, answer.body)
            return answer.body
        raise AssertionError("unreachable")

    async def _send_short(
        self,
        short: ShortRequests,
        method: str,
        target: str,
        head: Head,
        body: bytes | None,
        seconds: float,
        receive: Callable[[bytes], object] | None = None,
    ) -> Answer:
        """Sends a request over a connection of our own. Raises TransportError, and what ``receive`` raises."""
        try:
            return await short.send(method, target, head, body, seconds, receive)
        except ConnectError as error:
            if error.tls:  # the server may have a certificate of another authority now
                await self._renew_credentials()
            raise TransportError(f"{method} {_path(target)}: {error}", sent=False) from None
        except ExchangeError as error:
            raise TransportError(f"{method} {_path(target)}: {error}", sent=error.sent) from None
        except ValueError as error:
            raise TransportError(f"{method} {_path(target)}: {error}", sent=False) from None

    async def _send_any(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
        receive: Callable[[bytes], object] | None,
        inflate: bool,
    ) -> Answer:
        """Sends a request over a connection of aiohttp. Raises TransportError."""
        try:
            timeout = aiohttp.ClientTimeout(total=seconds, ceil_threshold=1e9)
            async with self._open(method, target, headers, timeout, body, inflate) as response:
                content = b""
                if receive is None or response.status >= 400:
                    content = await response.read()
                else:
                    async for part in response.content.iter_any():
                        receive(part)
                return Answer(response.status, response.headers.get("Retry-After"), content)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error, aiohttp.ClientSSLError):  # as above
                await self._renew_credentials()
            raise TransportError(f"{method} {_path(target)}: {error}", sent=False) from None
        except TimeoutError:
            raise TransportError(f"{method} {_path(target)}: no answer within {seconds:.1f} s", sent=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{method} {_path(target)}: {str(error) or type(error).__name__}", sent=True) from None

    def _record(self, method: str, priority: Priority, code: str, seconds: float) -> None:
        key = (method, priority, code)
        recorders = self._recorders.get(key)
        if recorders is None:  # to look up the series of labels costs more than to count
            requests, durations = self._metrics.api_requests, self._metrics.api_seconds
            recorders = (requests.labels(priority.label, code).inc, durations.labels(method, code).observe)
            self._recorders[key] = recorders
        increment, observe = recorders
        increment()
        observe(seconds)

    async def follow(
        self, path: str, params: Mapping[str, str], receive: Callable[[list[bytes]], object], *, longest: float
    ) -> None:
        """Calls ``receive`` with the lines of a streamed answer, as many at a time as have arrived, until the server
        ends it. What follows the last newline is torn, and left out. ``longest``: see ``lines``, which takes more
        than twice the processor time. Raises ApiError, TransportError, and what ``receive`` raises: the stream is
        broken off then."""
        if self._short is None:
            async with aclosing(self.lines(path, params, longest=longest)) as stream:
                async for found in stream:
                    receive(found)
            return
        rest = b""

        def take(part: bytes) -> None:
            nonlocal rest
            found = (rest + part).split(b"\n")
            rest = found.pop()
            if found:
                receive(found)

        code = "error"
        try:
            head = Head(await self._current_authorization(), JSON, "")
            answer = await self._send_short(self._short, "GET", _with_query(path, params), head, None, longest, take)
            code = str(answer.status)
            if answer.status >= 300:
                if answer.status == 401:
                    await self._renew_credentials()
                raise _error(answer.status, answer.retry_after, answer.body)
        finally:
            self._metrics.api_requests.labels("watch", code).inc()

    async def lines(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        longest: float | None = None,
        unfinished: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """The lines of a streamed answer, as many at a time as have arrived.

        Streams are few and are not rate-limited: a watch must not wait behind bindings to be resumed.
        ``longest``: seconds after which the stream is broken off; None: never. ``unfinished``: whether a last line that
        no newline ends is handed out as well; of a watch, it is a torn one. Ends when the server ends it. Raises
        ApiError, TransportError. To be closed by the caller (``aclosing``).
        """
        code = "error"
        try:
            timeout = aiohttp.ClientTimeout(total=longest, sock_connect=10)
            headers = _headers(await self._current_authorization(), JSON)
            async with self._open("GET", _with_query(path, params), headers, timeout) as response:
                code = str(response.status)
                if response.status >= 400:
                    if response.status == 401:
                        await self._renew_credentials()
                    raise _error(response.status, response.headers.get("Retry-After"), await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    found = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                    rest = found.pop()
                    if found:
                        yield found
                if rest and unfinished:
                    yield [rest]
        except aiohttp.ClientSSLError as error:
            await self._renew_credentials()
            raise TransportError(f"watch {path}: {error}", sent=False) from None
        except aiohttp.ConnectionTimeoutError as error:
            raise TransportError(f"watch {path}: {error}", sent=False) from None
        except TimeoutError:
            raise TransportError(f"watch {path}: the server did not end it within {longest:.0f} s", sent=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"watch {path}: {str(error) or type(error).__name__}", sent=True) from None
        finally:
            self._metrics.api_requests.labels("watch", code).inc()

    def _open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        body: bytes | None = None,
        inflate: bool = True,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Sends a request with the current access to the server; the answer is open within the context. Raises
        TransportError if the client is closed."""
        if self._session is None:
            raise TransportError("the client is closed", sent=False)
        access = self._access
        return self._session.request(
            method,
            _parsed(f"{access.host}{target}"),
            data=body,
            headers=headers,
            timeout=timeout,
            ssl=access.tls or True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            allow_redirects=False,
            auto_decompress=inflate,
        )

    # --- credentials --------------------------------------------------------------------------------------------------
    async def _current_authorization(self) -> str:
        if time.monotonic() - self._authorized >= _TOKEN_SECONDS:
            async with self._lock:
                if time.monotonic() - self._authorized >= _TOKEN_SECONDS:
                    await self._refresh()
        return self._authorization

    async def _refresh(self) -> None:
        try:
            self._authorization = await asyncio.to_thread(self._credentials.authorization)
        except Exception as error:  # a token file in the midst of a swap, a plugin that failed: the old one may do
            log.warning("the token could not be refreshed", error=str(error))
        self._authorized = time.monotonic()

    async def _renew_credentials(self) -> None:
        """Reloads the credentials after the server or its certificate was rejected, at most every few seconds."""
        async with self._lock:
            if time.monotonic() - self._loaded < _RELOAD_SECONDS:
                return
            self._loaded = time.monotonic()
            try:
                self._access = await asyncio.to_thread(self._credentials.load)
                self._use_access()
            except CredentialsError as error:
                log.warning("credentials could not be read again", error=str(error))
            await self._refresh()


def _with_query(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _path(target: str) -> str:
    """A target without its query, for messages."""
    return target.partition("?")[0]


def _headers(authorization: str, accept: str, content_type: str = "", compressed: bool = False) -> dict[str, str]:
    headers = {"Accept": accept}
    if authorization:
        headers["Authorization"] = authorization
    if content_type:
        headers["Content-Type"] = content_type
    if compressed:
        headers["Accept-Encoding"] = "gzip"
    return headers


@lru_cache(256)
def _parsed(text: str) -> URL:
    """Parses a URL once: parsing costs as much as sending, and many requests go to one URL."""
    return URL(text, encoded=True)


def _error(status: int, retry_after: str | None, body: bytes) -> ApiError:
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except DECODE_ERRORS:
        answer = _Status("", body[:300].decode("utf-8", "replace").strip())
    causes = (answer.details.causes if answer.details else None) or ()
    return ApiError(status, answer.reason, answer.message, _seconds(retry_after), causes)


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header in seconds: a number or a date."""
    if not retry_after:
        return None
    try:
        return min(max(0.0, float(retry_after)), 300.0)
    except ValueError:
        pass
    try:
        return min(max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time()), 300.0)
    except (TypeError, ValueError):
        return None
