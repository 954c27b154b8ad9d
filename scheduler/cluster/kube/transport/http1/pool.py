"""The open connections to one server.

Callers limit the number of requests in flight; there is one connection for each. A connection that becomes free is kept
for the next request, for as long as servers commonly keep theirs.
"""

import asyncio
import socket
import ssl
from typing import Final

import aiohappyeyeballs

from scheduler.cluster.kube.transport.http1.connection import Connection, ExchangeError
from scheduler.cluster.kube.transport.http1.response import Response

KEPT: Final = 60.0
"""Seconds for which an idle connection is kept. API servers close theirs after 90 s or more, so that a request rarely
meets a connection that the server is about to close."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a host is tried as well (RFC 8305)."""
_REPEATABLE: Final = frozenset({"GET", "HEAD"})
"""Methods of requests that may reach the server twice."""


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
        self._idle: dict[Connection, float] = {}
        """Connection -> when it became idle; the newest last."""
        self._open: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(self, method: str, request: bytes, seconds: float) -> Response:
        """Sends a request, whose method is ``method``, and returns the response. Raises ConnectError, ExchangeError.

        A request that meets a connection which the server has closed is sent again on another one, if it cannot have
        been processed or may be processed twice.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            connection = self._take() or await self._connect(deadline, seconds)
            reused = connection.used
            try:
                response = await connection.exchange(request, deadline - loop.time())
            except ExchangeError as error:
                if error.late:  # the server may be gone without a word, and with it all connections
                    self._close_idle()
                if reused and error.unanswered and (method in _REPEATABLE or not error.sent):
                    continue
                raise
            self._keep(connection)
            return response

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

    def _take(self) -> Connection | None:
        """The connection that was used last: the others become old enough to be closed."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_open:
                return connection
        return None

    def _keep(self, connection: Connection) -> None:
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

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    async def _connect(self, deadline: float, seconds: float) -> Connection:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._established()
        except TimeoutError:
            raise ConnectError(
                f"no connection to {self._host}:{self._port} within {seconds:.1f} s", tls=False
            ) from None
        except OSError as error:  # ssl.SSLError is one
            problem = str(error) or type(error).__name__
            tls = isinstance(error, ssl.SSLError)
            raise ConnectError(f"cannot connect to {self._host}:{self._port}: {problem}", tls=tls) from None

    async def _established(self) -> Connection:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        connected = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=loop
        )
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self._lost),
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
