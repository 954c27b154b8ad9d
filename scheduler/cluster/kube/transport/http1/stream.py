"""The body of an HTTP/1.1 response, which a consumer takes at its own pace."""

import asyncio
from typing import Final, Self

from scheduler.cluster.kube.transport.http1.response import Response, ResponseParser

READ_AHEAD: Final = 256 * 1024
"""Bytes of a streamed body that wait to be taken; then the connection is not read until they are."""


class Stream:
    """A response whose body is taken as it arrives: iterates over its parts, each of which is all that has arrived.

    Raises ExchangeError where the response ends too early.
    """

    def __init__(self, transport: asyncio.Transport, answer: "asyncio.Future[Response]") -> None:
        """``answer``: is done when the response is complete or has failed."""
        self.parser: Final = ResponseParser(receive=self._put)
        self._transport = transport
        self._answer = answer
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes in ``_parts``."""
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Waits for the head; for the whole response if it is no success. Raises ExchangeError."""
        while not (self.parser.hands_out or self._answer.done()):
            await self._woken()
        if not self.parser.hands_out:
            self._answer.result()

    @property
    def response(self) -> Response:
        """The response; the body of a successful one is empty here."""
        return self.parser.response

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._parts:
            if self._answer.done():
                self._answer.result()
                raise StopAsyncIteration
            await self._woken()
        parts, self._parts, self._size = self._parts, [], 0
        self.resume()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def resume(self) -> None:
        """Reads from the connection again, if that was paused."""
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def wake(self) -> None:
        """Something arrived, or the response has ended."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _woken(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _put(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > READ_AHEAD and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
