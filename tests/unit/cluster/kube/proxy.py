"""A TCP proxy between a client and the API server of a test, whose connections can be made to go nowhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """``swallow``: existing connections stay open and deliver nothing more; later connections work."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: set[asyncio.Event] = set()
        """One event per connection, which is set when the connection delivers nothing more."""

    def swallow(self) -> int:
        """The number of connections that stop delivering."""
        for swallowing in self._open:
            swallowing.set()
        return len(self._open)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        swallowing = asyncio.Event()
        self._open.add(swallowing)
        back, forth = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_copy(reader, forth, swallowing), _copy(back, writer, swallowing))
        finally:
            self._open.discard(swallowing)
            forth.close()
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, swallowing: asyncio.Event) -> None:
    while data := await source.read(65536):
        if not swallowing.is_set():
            target.write(data)
    if not swallowing.is_set():
        target.close()


@asynccontextmanager
async def proxied(port: int) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy in front of a local port, and its own."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    try:
        yield proxy, server.sockets[0].getsockname()[1]
    finally:
        server.close()
