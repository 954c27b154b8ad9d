"""HTTP calls of plugins to external programs, sent by an event loop on a separate thread.

A caller that waits for a response blocks only its own thread.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from scheduler import __version__
from scheduler.framework.external_calls import ExternalReply, ExternalRequest

if TYPE_CHECKING:
    import aiohttp

MAX_RESPONSE_BYTES: Final = 10 * 2**20
"""Bytes of a response body."""
_MAX_CONNECTIONS: Final = 32
_GRACE: Final = 5.0
"""Seconds beyond the longest time-out after which the thread is assumed to hang."""


class HttpCalls:
    """Sends HTTP requests. Call ``post`` from any thread except its own, and ``close`` at the end."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._lock = threading.Lock()

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        """Sends the requests concurrently; returns the replies in order. Errors are returned as replies."""
        if not requests:
            return []
        future = asyncio.run_coroutine_threadsafe(self._post_all(requests), self._running_loop())
        # The time-out of a request includes the wait for a connection, so all finish within the longest time-out.
        try:
            return future.result(max(request.timeout for request in requests) + _GRACE)
        except Exception as error:  # errors of external programs do not end a session
            future.cancel()
            return [ExternalReply(problem=f"{type(error).__name__}: {error}", silent=True)] * len(requests)

    def close(self) -> None:
        """Closes the connections and stops the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            if self._session is not None:
                with suppress(TimeoutError):  # the thread hangs and ends with the program
                    asyncio.run_coroutine_threadsafe(self._session.close(), loop).result(_GRACE)
            loop.call_soon_threadsafe(loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the event loop; starts it on first use."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="external-calls", daemon=True).start()
            return self._loop

    async def _post_all(self, requests: Sequence[ExternalRequest]) -> list[ExternalReply]:
        import aiohttp  # imported on first use, since most sessions make no calls and commands must start quickly

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, keepalive_timeout=60),
                headers={"Content-Type": "application/json", "User-Agent": f"volcano-py/{__version__}"},
                trust_env=True,
            )
        return await asyncio.gather(*(_post(self._session, request) for request in requests))


async def _post(session: "aiohttp.ClientSession", request: ExternalRequest) -> ExternalReply:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=request.timeout, ceil_threshold=1e9)
    try:
        async with session.post(request.url, data=request.body, timeout=timeout) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_RESPONSE_BYTES:
                    return ExternalReply(problem=f"an answer of more than {MAX_RESPONSE_BYTES} bytes")
            if response.status != 200:
                return ExternalReply(problem=f"status {response.status}")
            return ExternalReply(bytes(body))
    except TimeoutError:
        return ExternalReply(problem=f"no answer within {request.timeout:g} s", silent=True)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ExternalReply(problem=str(error) or type(error).__name__, silent=True)
