"""What carries requests to the API server: connections of our own (``http1_transport``), or those of aiohttp
(``aiohttp_transport``), which is imported only where ours do not do, since that takes a twentieth of a start."""

from collections.abc import AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

import msgspec

from scheduler import __version__

AGENT: Final = f"volcano-py/{__version__}"


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """The header fields that differ between requests; "": left out."""

    authorization: str
    accept: str
    content_type: str = ""
    gzip: bool = False
    """Whether the body of the answer may be compressed. It is handed out as it was sent."""

    @property
    def fields(self) -> dict[str, str]:
        """The header fields by name, with those of every request."""
        fields = {
            "User-Agent": AGENT,
            "Accept": self.accept,
            "Accept-Encoding": "gzip" if self.gzip else "identity",
            "Authorization": self.authorization,
            "Content-Type": self.content_type,
        }
        return {name: value for name, value in fields.items() if value}

    def __repr__(self) -> str:
        """Leaves out the token, which must not be in a log."""
        return f"Head(accept={self.accept!r}, content_type={self.content_type!r}, gzip={self.gzip})"


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to the API server."""

    method: str
    target: str
    """Path and query."""
    head: RequestHead
    body: bytes | None = None

    def __repr__(self) -> str:
        """Names the request in messages, without query, token and body."""
        return f"{self.method} {self.target.partition('?')[0]}"


class HttpAnswer(NamedTuple):
    """The parts of a response that matter."""

    status: int
    retry_after: str | None
    """The header of that name."""
    body: bytes
    warning: str | None = None
    """The header of that name, with the values of all fields, separated by commas."""


class HttpTransport(Protocol):
    """One API server, reached with one set of certificates. Belongs to one event loop.

    Requests raise ``ConnectError`` and ``ExchangeError`` of ``http1.connections``.
    """

    async def send(
        self, request: HttpRequest, seconds: float, receive: Callable[[bytes], object] | None = None
    ) -> HttpAnswer:
        """Returns the answer, which has to arrive within ``seconds``. ``receive``: is called with each part of the body
        of a successful answer as it arrives; the body is then empty. Raises what it raises, too."""

    def stream(
        self, request: HttpRequest, seconds: float | None
    ) -> AbstractAsyncContextManager[tuple[HttpAnswer, AsyncIterable[bytes]]]:
        """The answer, and the parts of its body, if it is successful, as they arrive. They arrive no faster than they
        are taken. ``seconds``: until the end of the body, or None. To leave the context before the end closes the
        connection."""

    async def close(self) -> None:
        """Closes the connections once they have carried their requests."""

    async def abort(self) -> None:
        """Closes the connections at once."""
