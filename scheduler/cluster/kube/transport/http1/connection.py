"""One connection to an HTTP/1.1 server, with one request at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

from scheduler.cluster.kube.transport.http1.response import Response, ResponseError, ResponseParser


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


class Connection(asyncio.Protocol):
    """Belongs to one event loop. After a request that got no complete response the connection is closed."""

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
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

    async def exchange(self, request: bytes, seconds: float) -> Response:
        """Sends a request and returns the response, which has to arrive within ``seconds``. Cancelling it closes the
        connection. Raises ExchangeError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ExchangeError("the connection is closed", sent=False, unanswered=True)
        self._parser = ResponseParser()
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

    def _expire(self, seconds: float) -> None:
        self._fail(ExchangeError(f"no answer within {seconds:.1f} s", late=True))

    def _fail(self, error: ExchangeError) -> None:
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

    def eof_received(self) -> None:
        """Returns None, so that the transport closes itself."""
        parser = self._parser
        if parser is not None and parser.end():
            self._complete(parser)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        problem = "the server closed the connection" if exc is None else str(exc) or type(exc).__name__
        self._fail(ExchangeError(problem, unanswered=not self._received))
        self._lost(self)
