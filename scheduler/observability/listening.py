"""Listens on sockets for an HTTP server, whose connections are known from the moment they are accepted."""

import asyncio
import errno
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from aiohttp import web

BACKLOG: Final = 128
"""Connections that the kernel holds until they are accepted."""
RETRY: Final = 1.0
"""Seconds until the next connection is accepted when one could not be, for example without a free file descriptor."""
log = structlog.get_logger(__name__)


class Accepted(asyncio.Protocol, ABC):
    """A connection that was accepted. Its TLS handshake follows."""

    address: str
    """The address of the client."""

    @abstractmethod
    def not_established(self) -> None:
        """Called if the handshake fails, or if the server stops meanwhile."""


class Site(web.BaseSite):
    """Listens as ``web.TCPSite`` does, but reports a connection before its TLS handshake."""

    def __init__(
        self,
        runner: web.AppRunner,
        accept: Callable[[web.Server, socket.socket, str], Accepted],
        host: str | None,
        port: int,
        tls: ssl.SSLContext | None,
        handshake: float,
    ) -> None:
        """``accept``: returns what receives the data of a connection, given its socket and the address of the client.
        ``handshake``: seconds for the TLS handshake, and for the end of a TLS connection."""
        super().__init__(runner)
        self._accepted = accept
        self._handshake = handshake
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
            connection = self._accepted(server, accepted, str(address[0]))
            self._run(self._establish(connection, accepted))
            await asyncio.sleep(0)  # sock_accept does not yield while connections wait

    async def _establish(self, connection: Accepted, accepted: socket.socket) -> None:
        seconds = self._handshake
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
