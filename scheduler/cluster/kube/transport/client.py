"""Calls to the API server: authenticated, rate-limited by class, fenced by the lease, counted.

Bodies are bytes; callers encode and decode them. Callers also retry, because only they know what a lost answer means.
An ``HttpTransport`` carries the requests.
"""

import asyncio
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol
from urllib.parse import urlencode

import structlog

from scheduler.cluster.kube.transport.answers import Inflater, LineError, LineSplitter, inflated, warning_texts
from scheduler.cluster.kube.transport.credentials import Access, CredentialsError
from scheduler.cluster.kube.transport.errors import TransportError, error_of
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.transport.http1.connections import ConnectError, ExchangeError
from scheduler.cluster.kube.transport.http_transport import (
    Http1Transport,
    HttpAnswer,
    HttpRequest,
    HttpTransport,
    RequestHead,
)
from scheduler.cluster.kube.transport.ratelimit import CallPriority, RateLimiter
from scheduler.observability.role_metrics import RoleMetrics

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
METADATA_LIST: Final = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""Requests the metadata of a list only, from a server that can leave out the rest."""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_TOKEN_SECONDS: Final = 30.0
_RELOAD_SECONDS: Final = 5.0
_UNLIMITED: Final = 1e9
"""Seconds for a stream without a limit."""
log = structlog.get_logger(__name__)


class CredentialSource(Protocol):
    """The interface of ``Credentials``; both methods may block and run on another thread."""

    def load(self) -> Access: ...

    def authorization(self) -> str: ...


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
        warn: Callable[[str], object] | None = None,
    ) -> None:
        """``timeout``: seconds for a request from its sending to its whole answer. ``warn`` is called with the warnings
        in answers."""
        self._credentials = credentials
        self._metrics = metrics
        self._recorders: dict[tuple[str, CallPriority, str], tuple[Callable[[], None], Callable[[float], None]]] = {}
        """The two metrics of a request, by verb, class and status."""
        self._limiter = RateLimiter(qps, burst)
        self._timeout = timeout
        self._warn = warn
        self._access = Access("", None, None, None)
        self._transport: HttpTransport | None = None
        """None: not started, or closed."""
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
        if self._transport is not None:
            return
        self._access = await asyncio.to_thread(self._credentials.load)
        self._loaded = time.monotonic()
        await self._use_access()

    async def _use_access(self) -> None:
        """Opens new connections from now on: the address or the certificates may have changed."""
        old, self._transport = self._transport, _transport(self._access)
        if old is not None:
            await old.close()

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.abort()

    @property
    def host(self) -> str:
        return self._access.host

    # --- requests -----------------------------------------------------------------------------------------------------
    async def request(
        self,
        method: str,
        path: str,
        *,
        priority: CallPriority,
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
        """Sends a request and returns the body of a successful answer. Raises RequestError, and Fenced
        before anything is sent.

        ``compressed``: whether the API server may compress the answer. It costs the server time, but a list of many
        objects shrinks to a tenth. ``receive``: is called with each part of the body of a successful answer as it
        arrives; the body returned is then empty. ``inflate``: whether the client decompresses a compressed answer, on
        the event loop; otherwise it is handed out as it was sent.
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
                head = RequestHead(authorization, accept, "" if body is None else content_type, compressed)
                request = HttpRequest(method, target, head, body)
                answer = await self._send(request, seconds, receive, inflate=inflate and compressed)
                code = str(answer.status)
            finally:
                self._record(method, priority, code, time.perf_counter() - began)
            if answer.status == 401 and not again:
                await self._renew_credentials()
                continue
            if answer.status >= 300:
                raise error_of(answer)
            return answer.body
        raise AssertionError("unreachable")

    async def _send(
        self,
        request: HttpRequest,
        seconds: float,
        receive: Callable[[bytes], object] | None,
        *,
        inflate: bool = False,
    ) -> HttpAnswer:
        """Sends a request and returns the answer. ``inflate``: whether a compressed body is decompressed. Raises
        TransportError, and what ``receive`` raises."""
        transport = self._open_transport()
        inflater = Inflater(receive) if inflate and receive is not None else None
        try:
            answer = await transport.send(request, seconds, receive if inflater is None else inflater.feed)
            if inflater is not None:
                inflater.finish()
            elif inflate and answer.status < 300:
                answer = answer._replace(body=inflated(answer.body))
            if answer.warning is not None:
                self._report_warnings(answer.warning)
            return answer
        except ConnectError as error:
            if error.tls:  # the server may have a certificate of another authority now
                await self._renew_credentials()
            raise TransportError(f"{request}: {error}", sent=False) from None
        except ExchangeError as error:
            raise TransportError(f"{request}: {error}", sent=error.sent) from None
        except zlib.error as error:
            raise TransportError(f"{request}: the compressed answer is malformed: {error}", sent=True) from None

    def _report_warnings(self, header: str) -> None:
        if self._warn is not None:
            for text in warning_texts(header):
                self._warn(text)

    def _open_transport(self) -> HttpTransport:
        """Raises TransportError if the client is closed."""
        if self._transport is None:
            raise TransportError("the client is closed", sent=False)
        return self._transport

    def _record(self, method: str, priority: CallPriority, code: str, seconds: float) -> None:
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
        self,
        path: str,
        params: Mapping[str, str],
        receive: Callable[[list[bytes]], object],
        *,
        longest: float | None = None,
        unfinished: bool = False,
    ) -> None:
        """Calls ``receive`` with the lines of a streamed answer, as many at a time as have arrived, until the server
        ends it.

        Streams are few and are not rate-limited: a watch must not wait behind bindings to be resumed. ``longest``:
        seconds after which the stream is broken off; None: never. ``unfinished``: whether a last line without a newline
        is handed out, too; a watch leaves it out because it is incomplete. Raises RequestError, and what ``receive``
        raises: the stream is broken off then."""
        splitter = LineSplitter()

        def take(part: bytes) -> None:
            found = splitter.feed(part)
            if found:
                receive(found)

        code = "error"
        try:
            request = HttpRequest(
                "GET", _with_query(path, params), RequestHead(await self._current_authorization(), JSON)
            )
            answer = await self._send(request, _UNLIMITED if longest is None else longest, take)
            code = str(answer.status)
            await self._check(answer)
            rest = splitter.unfinished()
            if rest and unfinished:
                receive([rest])
        except LineError as error:
            raise TransportError(f"watch {path}: {error}", sent=True) from None
        finally:
            self._metrics.api_requests.labels("watch", code).inc()

    async def _check(self, answer: HttpAnswer) -> None:
        """Raises ApiError unless a stream was opened. After a rejection of the credentials, the next attempt has new
        ones."""
        if answer.status == 401:
            await self._renew_credentials()
        if answer.status >= 300:
            raise error_of(answer)

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
                if self._transport is not None:  # not closed meanwhile
                    await self._use_access()
            except CredentialsError as error:
                log.warning("credentials could not be read again", error=str(error))
            await self._refresh()


def _transport(access: Access) -> HttpTransport:
    """Returns the transport with the least overhead that reaches the server."""
    lean = Http1Transport.to(access)
    if lean is not None:
        return lean
    from scheduler.cluster.kube.transport.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(access)


def _with_query(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path
