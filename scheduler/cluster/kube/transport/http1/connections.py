"""The connections of an HTTP/1.1 client to one server: each carries one request at a time, and a pool keeps them open.

A response is returned when it is complete. Its body can be handed out to a function as it arrives.

Callers limit the number of requests in flight; there is one connection for each. A connection that becomes free is kept
for the next request, for as long as servers commonly keep theirs.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

import aiohappyeyeballs

from scheduler.cluster.kube.transport.http1.response import Response, ResponseError, ResponseParser

KEPT: Final = 60.0
"""Seconds for which an idle connection is kept. API servers close theirs after 90 s or more, so that a request rarely
meets a connection that the server is about to close."""
_CONNECT: Final = 10.0
"""Seconds until there must be a connection for a body that is handed out as it arrives, which may take long."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a host is tried as well (RFC 8305)."""
_REPEATABLE: Final = frozenset({"GET", "HEAD"})
"""Methods of requests that may reach the server twice."""
_NUMBER: Final = re.compile(r"\[Errno -?[0-9]+\] ")
"""How the text of an OSError begins."""


class ExchangeError(Exception):
    """A request got no complete response."""

    def __init__(self, message: str, *, sent: bool = True, unanswered: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the request may have reached the server."""
        self.unanswered = unanswered
        """Whether the server closed the connection without sending a single byte."""
        self.late = late
        """Whether the time was over."""


class HttpConnection(asyncio.Protocol):
    """Belongs to one event loop. After a request that got no complete response the connection is closed."""

    def __init__(self, lost: Callable[["HttpConnection"], None]) -> None:
        """``lost`` is called when the connection is closed."""
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        """None: no request is under way."""
        self._answer: asyncio.Future[Response] | None = None
        self._received = False
        """Whether any byte has arrived since the request was sent."""
        self.used = False
        """Whether it has carried a request before."""

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Closes an idle connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(
        self,
        request: bytes,
        seconds: float,
        receive: Callable[[bytes], object] | None = None,
        *,
        gzip: bool = False,
    ) -> Response:
        """Sends a request and returns the response, which has to arrive within ``seconds``. Cancelling it closes the
        connection. ``receive``, ``gzip``: see ResponseParser; ``receive`` may be called again after it has raised an
        exception. Raises ExchangeError, and what ``receive`` raises first."""
        transport = self._usable()
        self._parser = ResponseParser(receive=receive, gzip=gzip)
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        self._received = False
        transport.write(request)
        timer = self._loop.call_later(seconds, self._expire, seconds)
        try:
            return await answer
        except BaseException:
            transport.abort()
            raise
        finally:
            timer.cancel()
            self._answer = self._parser = None
            self.used = True

    def _usable(self) -> asyncio.Transport:
        """The transport, to which a request can be written. Raises ExchangeError."""
        if self._transport is None or self._transport.is_closing():
            raise ExchangeError("the connection is closed", sent=False, unanswered=True)
        return self._transport

    def _expire(self, seconds: float) -> None:
        self._fail(ExchangeError(f"no answer within {seconds:.1f} s", late=True))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _complete(self, parser: ResponseParser) -> None:
        transport = self._transport
        # Of a request that the server refused before it had read the whole body, the rest would be taken for another.
        if transport is not None and not (parser.reusable and transport.get_write_buffer_size() == 0):
            transport.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(parser.response)
        self._parser = None

    # --- called by the transport --------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:  # a response without a request, like the reason why an idle connection is closed
            self.abort()
            return
        self._received = True
        try:
            if parser.feed(data):
                self._complete(parser)
        except ResponseError as error:
            self._fail(ExchangeError(f"invalid response: {error}"))
            self.abort()
        except Exception as error:  # of ``receive``
            self._fail(error)
            self.abort()

    def eof_received(self) -> None:
        """Returns None, so that the transport closes itself."""
        parser = self._parser
        if parser is not None and parser.end():
            self._complete(parser)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        problem = "the server closed the connection" if exc is None else _problem(exc)
        self._fail(ExchangeError(problem, unanswered=not self._received))
        self._lost(self)


class ConnectError(Exception):
    """No connection could be made."""

    def __init__(self, message: str, *, tls: bool) -> None:
        super().__init__(message)
        self.tls = tls
        """Whether the TLS handshake failed."""


class Pool:
    """Belongs to one event loop."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, server_name: str) -> None:
        """``server_name``: the name that the server's certificate must have."""
        self._host = host
        self._port = port
        self._tls = tls
        self._server_name = server_name
        self._idle: dict[HttpConnection, float] = {}
        """Connection -> when it became idle; the newest last."""
        self._open: set[HttpConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        request: bytes,
        seconds: float,
        receive: Callable[[bytes], object] | None = None,
        *,
        gzip: bool = False,
    ) -> Response:
        """Sends a request, whose method is ``method``, and returns the response. ``receive``, ``gzip``: see
        ``HttpConnection.exchange``. Raises ConnectError, ExchangeError, and what ``receive`` raises.

        A request that meets a connection which the server has closed is sent again on another one, if it cannot have
        been processed or may be processed twice.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            connection = self._take()
            if connection is None:
                limit = seconds if receive is None else min(seconds, _CONNECT)
                connection = await self._connect(min(deadline, loop.time() + limit), limit)
            reused = connection.used
            try:
                response = await connection.exchange(request, deadline - loop.time(), receive, gzip=gzip)
            except ExchangeError as error:
                if not self._again(error, reused, method):
                    raise
                continue
            self._keep(connection)
            return response

    def _again(self, error: ExchangeError, reused: bool, method: str) -> bool:
        """Whether a request that failed on a connection is sent on another one."""
        if error.late:  # the server may be gone without a word, and with it all connections
            self._close_idle()
        return reused and error.unanswered and (method in _REPEATABLE or not error.sent)

    def close(self) -> None:
        """Closes idle connections, and the others once they have carried their requests."""
        self._closed = True
        self._close_idle()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def abort(self) -> None:
        """Closes all connections at once."""
        self.close()
        for connection in list(self._open):
            connection.abort()

    def _close_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take(self) -> HttpConnection | None:
        """The connection that was used last: the others become old enough to be closed."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_open:
                return connection
        return None

    def _keep(self, connection: HttpConnection) -> None:
        if self._closed:
            connection.close()
        elif connection.is_open:
            self._idle[connection] = asyncio.get_running_loop().time()
            if self._sweeper is None:
                self._sweeper = asyncio.get_running_loop().call_later(KEPT, self._sweep)

    def _sweep(self) -> None:
        """Closes the connections that have been idle for too long."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for connection, since in list(self._idle.items()):
            if since + KEPT > loop.time():
                self._sweeper = loop.call_at(since + KEPT, self._sweep)
                break
            del self._idle[connection]
            connection.close()

    def _lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    async def _connect(self, deadline: float, seconds: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._established()
        except TimeoutError:
            raise ConnectError(
                f"no connection to {self._host}:{self._port} within {seconds:.1f} s", tls=False
            ) from None
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; a host can be no valid name
            tls = isinstance(error, ssl.SSLError)
            raise ConnectError(f"cannot connect to {self._host}:{self._port}: {_problem(error)}", tls=tls) from None

    async def _established(self) -> HttpConnection:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        connected = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=loop
        )
        try:
            _, connection = await loop.create_connection(
                lambda: HttpConnection(self._lost),
                sock=connected,
                ssl=self._tls,
                server_hostname=self._server_name if self._tls is not None else None,
            )
        except BaseException:
            connected.close()
            raise
        if connection.is_open:
            self._open.add(connection)
        return connection


def _problem(error: Exception) -> str:
    """What is wrong, for people."""
    if isinstance(error, UnicodeError):
        return "it cannot be the name of a host"
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return _NUMBER.sub("", str(error)) or type(error).__name__
