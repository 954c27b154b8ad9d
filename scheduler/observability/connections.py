"""Connections of an HTTP server, within bounds of time, number and size.

aiohttp sets no limit to the time that a client takes for a TLS handshake, for sending a request, and for reading its
answer. Here a connection has a deadline for each of these. When there are too many, the server takes the address with
the most connections and closes its connection that has been idle for the longest time. So a client that opens thousands
loses its own connections, and API servers keep theirs. A connection counts from the moment it is accepted, before its
TLS handshake: the event loop's own servers report it only after that.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar, cast

import msgspec
import structlog
from aiohttp import web

BODY: Final = web.RequestKey("body", bytes)
"""Where handlers find the body of a request."""
CHUNK: Final = 64 * 1024
"""Bytes of a body that every request may send, however much others have sent."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LINGERING: Final = 1.0
"""Seconds in which the rest of a request that was refused is read and dropped, so that its client gets the answer."""
BACKLOG: Final = 128
"""Connections that the kernel holds until they are accepted."""
RETRY: Final = 1.0
"""Seconds until the next connection is accepted when one could not be, for example without a free file descriptor."""
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
        self._runner: web.AppRunner | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def serve(
        self, app: web.Application, host: str | None, port: int, tls: ssl.SSLContext | None = None, **options: Any
    ) -> int:
        """Serves an application, whose handlers find the body of a request under ``BODY``, and returns the port.
        ``host``: None for all addresses; ``options``: of ``web.AppRunner``. Raises OSError if it cannot listen."""

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
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, lingering_time=LINGERING, **options
        )
        await self._runner.setup()
        site = _Site(self._runner, self, host, port, tls)
        await site.start()
        return site.port

    async def close(self) -> None:
        """Accepts no more connections, and lets requests in flight finish."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

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
    def accept(self, server: web.Server, accepted: socket.socket, address: str) -> "_Connection":
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


class _Connection(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol, and closes the connection when a deadline has passed."""

    def __init__(self, connections: Connections, server: web.Server, accepted: socket.socket, address: str) -> None:
        self.address = address
        """The address of the client."""
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
        """Called if the TLS handshake fails, or if the server stops meanwhile."""
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


class _Site(web.BaseSite):
    """Listens as ``web.TCPSite`` does, but reports a connection before its TLS handshake."""

    def __init__(
        self,
        runner: web.AppRunner,
        connections: Connections,
        host: str | None,
        port: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(runner)
        self._connections = connections
        self._host = host
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each address that is listened to, and one for each connection that is being established."""
        self.port = port

    @property
    def name(self) -> str:
        return f"{self._host or '*'}:{self.port}"

    async def start(self) -> None:
        await super().start()
        self._sockets = await _listening(self._host, self.port)
        self.port = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            self._run(self._accept(each))

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()
        await super().stop()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner is not set up")
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except ConnectionError:  # the client gave up while it waited to be accepted
                continue
            except OSError as error:
                log.warning("no connection can be accepted", address=self.name, error=str(error))
                await asyncio.sleep(RETRY)
                continue
            connection = self._connections.accept(server, accepted, str(address[0]))
            self._run(self._establish(connection, accepted))
            await asyncio.sleep(0)  # sock_accept does not yield while connections wait

    async def _establish(self, connection: _Connection, accepted: socket.socket) -> None:
        seconds = self._connections.limits.handshake
        options: dict[str, Any] = {} if self._tls is None else {
            "ssl": self._tls, "ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": seconds
        }  # fmt: skip
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, **options)
        except BaseException as error:
            connection.not_established()
            if not isinstance(error, OSError):  # ssl.SSLError is one
                raise
            log.debug("a connection was not established", address=connection.address, error=str(error))


async def _listening(host: str | None, port: int) -> list[socket.socket]:
    """A socket for each address of the host; None: all addresses of this machine. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    problem = OSError(f"{host} has no address")
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            each = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            problem = OSError(error.errno, f"cannot listen on port {address[1]!s} of {address[0]!s}: {reason}")
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # no IPv6 here
                continue
            for each in sockets:
                each.close()
            raise problem from None
        each.setblocking(False)
        sockets.append(each)
    if not sockets:
        raise problem
    return sockets
