"""Connections of an HTTP server, within bounds of time, number and size.

aiohttp sets no limit to the time that a client takes for a TLS handshake, for sending a request, and for reading its
answer. Here a connection has a deadline for each of these. When there are too many, the server takes the address with
the most connections and closes its connection that has been idle for the longest time. So a client that opens thousands
loses its own connections, not those of API servers. A connection counts from the moment it is accepted, before its TLS
handshake: the event loop's own servers report it only after that.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar, cast

import msgspec
import structlog
from aiohttp import web

from scheduler.observability.listening import Accepted, Site

BODY: Final = web.RequestKey("body", bytes)
"""Where handlers find the body of a request."""
CHUNK: Final = 64 * 1024
"""Bytes of a body that every request may send, however much others have sent."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LINGERING: Final = 1.0
"""Seconds in which the rest of a request that was refused is read and dropped, so that its client gets the answer."""
E = TypeVar("E", bound=web.HTTPException)
log = structlog.get_logger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    connections: int = 256
    handshake: float = 5.0
    """The seconds that a TLS handshake may take, and the end of a TLS connection."""
    headers: float = 10.0
    """The seconds from the first byte of a request, or the beginning of the connection, to the end of the headers."""
    body: float = 10.0
    """The seconds from the end of the headers to the end of the body."""
    idle: float = 120.0
    """The seconds between two requests. API servers close their connections after 90."""
    fetching: float = 30.0
    """The seconds that a client may take to fetch an answer."""
    largest: int = 64 * 1024
    """The largest request body, in bytes."""
    held: int = 64 * 1024 * 1024
    """The bytes of all bodies that are read or worked on at a time."""


class Connections:
    """The connections to one address. For one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[_Connection, None] = {}
        """The open connections in the order of their last requests. A connection without a request stands where it was
        accepted."""
        self._by_handler: dict[Any, _Connection] = {}
        self._held = 0
        self._turn = asyncio.Lock()
        """Only one large body is read on in each iteration of the event loop; aiohttp pauses the others."""
        self._full = False

    def __len__(self) -> int:
        return len(self._open)

    def runner(self, app: web.Application, **options: Any) -> web.AppRunner:
        """Returns what serves an application, whose handlers find the body of a request under ``BODY``."""

        @web.middleware
        async def bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_handler.get(request.protocol)
            if connection is None:  # it was closed a moment ago
                raise _closing(web.HTTPServiceUnavailable())
            async with self._read(request, connection) as body:
                request[BODY] = body
                return await handler(request)

        app.middlewares.append(bounded)
        # What a client no longer waits for is not worked on.
        return web.AppRunner(app, access_log=None, handler_cancellation=True, lingering_time=LINGERING, **options)

    async def listen(self, runner: web.AppRunner, host: str | None, port: int, tls: ssl.SSLContext | None) -> int:
        """Listens for a runner that is set up, and returns the port. Raises OSError."""
        site = Site(runner, self._accept, host, port, tls, self.limits.handshake)
        await site.start()
        return site.port

    # --- requests -----------------------------------------------------------------------------------------------------
    @asynccontextmanager
    async def _read(self, request: web.Request, connection: "_Connection") -> AsyncIterator[bytes]:
        """Reads the body of a request, which is held within the context. Raises HTTPException if the body is too large
        or does not arrive in time, or if the bodies of other requests take too much memory."""
        body, size = bytearray(), 0
        connection.reads()
        self._check(request.content_length or 0)
        try:
            try:
                async with asyncio.timeout(self.limits.body):
                    async for chunk in request.content.iter_any():
                        body += chunk
                        size += len(chunk)
                        self._held += len(chunk)
                        self._check(size)
                        if size > CHUNK:
                            async with self._turn:
                                await asyncio.sleep(0)
            except TimeoutError:
                text = f"no whole request within {self.limits.body:g} s"
                raise _closing(web.HTTPRequestTimeout(text=text)) from None
            except (ConnectionError, web.RequestPayloadError):  # the client went away: the answer goes nowhere
                raise _closing(web.HTTPBadRequest(text="the body does not end as it should")) from None
            connection.works()
            whole = bytes(body)
            body.clear()  # it is not in memory twice while it is worked on
            yield whole
        finally:
            self._held -= size
            if connection in self._open:
                self._open[connection] = self._open.pop(connection)
                connection.becomes_idle()

    def _check(self, size: int) -> None:
        if size > self.limits.largest:
            text = f"request body too large: at most {self.limits.largest} bytes"
            raise _closing(web.HTTPRequestEntityTooLarge(self.limits.largest, size, text=text))
        if size > CHUNK and self._held > self.limits.held:
            raise _closing(web.HTTPServiceUnavailable(text=f"{self._held} bytes of requests are being worked on"))

    # --- what connections report --------------------------------------------------------------------------------------
    def _accept(self, server: web.Server, accepted: socket.socket, address: str) -> "_Connection":
        """Counts a connection that was accepted, and closes one if there are too many."""
        connection = _Connection(self, server, accepted, address)
        self._open[connection] = None
        full, self._full = self._full, len(self._open) > self.limits.connections
        if not self._full:
            return connection
        if not full:
            log.warning("too many connections, those that wait are closed", limit=self.limits.connections)
        waiting = [each for each in self._open if not each.busy]
        ((most, _),) = Counter(each.address for each in waiting).most_common(1)
        oldest = next(each for each in waiting if each.address == most)
        del self._open[oldest]
        oldest.abort()
        return connection

    def handled(self, connection: "_Connection") -> None:
        """Called when a connection is established and requests can arrive."""
        self._by_handler[connection.handler] = connection

    def lost(self, connection: "_Connection") -> None:
        self._open.pop(connection, None)
        self._by_handler.pop(connection.handler, None)


def _closing(refusal: E) -> E:
    """Returns the refusal, which closes the connection: the rest of the request is not read."""
    refusal.force_close()
    return refusal


class _Connection(Accepted):
    """Stands between the transport and aiohttp's protocol, and closes the connection when a deadline has passed."""

    def __init__(self, connections: Connections, server: web.Server, accepted: socket.socket, address: str) -> None:
        self.address = address
        self._connections = connections
        self._limits = connections.limits
        self._server = server
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        """None: not established yet, or closed."""
        self._aborted = False
        self._deadline: asyncio.TimerHandle | None = None
        self._fetching: asyncio.TimerHandle | None = None
        self._idle = False
        """No byte of a request has come."""
        self.busy = False
        """Something is being done for it."""
        self.handler: Any = None
        """aiohttp's protocol; None if there was no room for the connection."""

    def abort(self) -> None:
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()
        else:
            with suppress(OSError):  # the handshake meets the end of the connection, and fails
                self._accepted.shutdown(socket.SHUT_RDWR)

    def not_established(self) -> None:
        self.abort()
        self._connections.lost(self)

    def reads(self) -> None:
        """Called when the headers have arrived. ``Connections`` limits the time for the body."""
        self._until(None)

    def works(self) -> None:
        self.busy = True

    def becomes_idle(self) -> None:
        """Called when a request is done."""
        self.busy, self._idle = False, True
        self._until(self._limits.idle)

    def _until(self, seconds: float | None) -> None:
        """Closes the connection after these seconds, unless another deadline is set before; None: no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self._loop.call_later(seconds, self.abort)

    # --- the transport ------------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._aborted:
            self._transport.abort()
            return
        self.handler = self._server()
        self._connections.handled(self)
        self.handler.connection_made(self._transport)
        self._until(self._limits.headers)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self._idle = False
            self._until(self._limits.headers)
        if self.handler is not None:
            self.handler.data_received(data)

    def eof_received(self) -> None:
        if self.handler is not None:
            self.handler.eof_received()

    def pause_writing(self) -> None:
        if self.handler is not None:
            self._fetching = self._loop.call_later(self._limits.fetching, self.abort)
            self.handler.pause_writing()

    def resume_writing(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self.handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._until(None)
        if self._fetching is not None:
            self._fetching.cancel()
        self._connections.lost(self)
        if self.handler is not None:
            self.handler.connection_lost(exc)
