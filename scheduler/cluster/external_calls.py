"""The programs that plugins ask, over HTTP: a thread of its own keeps the connections, so that whoever waits for an
answer holds up nobody else.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from scheduler import __version__
from scheduler.framework.external_calls import Reply, Request

if TYPE_CHECKING:
    import aiohttp

LARGEST: Final = 10 * 2**20
"""Bytes of an answer."""
_AT_ONCE: Final = 32
"""Connections."""
_GRACE: Final = 5.0
"""Seconds beyond the time-outs of all requests, after which the thread itself is taken to hang."""


class HttpCalls:
    """``post`` from any thread but the one it keeps; ``close`` last."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._lock = threading.Lock()

    def post(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """All side by side. Raises nothing."""
        if not requests:
            return []
        waiting = asyncio.run_coroutine_threadsafe(self._all(requests), self._running())
        # Requests wait for a connection within their own time-outs, so all are done when the longest of them is.
        try:
            return waiting.result(max(request.timeout for request in requests) + _GRACE)
        except Exception as error:  # nothing that happens out there ends a session
            waiting.cancel()
            return [Reply(problem=f"{type(error).__name__}: {error}", silent=True)] * len(requests)

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            if self._session is not None:
                with suppress(TimeoutError):  # it hangs: it ends with the program
                    asyncio.run_coroutine_threadsafe(self._session.close(), loop).result(_GRACE)
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        """The loop, started when it is first needed."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="external-calls", daemon=True).start()
            return self._loop

    async def _all(self, requests: Sequence[Request]) -> list[Reply]:
        import aiohttp  # most sessions ask nobody, and a command is to start quickly

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_AT_ONCE, keepalive_timeout=60),
                headers={"Content-Type": "application/json", "User-Agent": f"volcano-py/{__version__}"},
                trust_env=True,
            )
        return await asyncio.gather(*(_post(self._session, request) for request in requests))


async def _post(session: "aiohttp.ClientSession", request: Request) -> Reply:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=request.timeout, ceil_threshold=1e9)
    try:
        async with session.post(request.url, data=request.body, timeout=timeout) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > LARGEST:
                    return Reply(problem=f"an answer of more than {LARGEST} bytes")
            if response.status != 200:
                return Reply(problem=f"status {response.status}")
            return Reply(bytes(body))
    except TimeoutError:
        return Reply(problem=f"no answer within {request.timeout:g} s", silent=True)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Reply(problem=str(error) or type(error).__name__, silent=True)
