"""An HTTP client for monitoring systems: JSON responses of limited time and size, and errors as SourceError."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from scheduler import __version__

if TYPE_CHECKING:
    import aiohttp

REQUEST_TIMEOUT: Final = 20.0
MAX_RESPONSE_BYTES: Final = 32 * 2**20
"""Bytes of a response body."""
_MAX_QUOTED: Final = 200
T = TypeVar("T")


class SourceError(Exception):
    """A monitoring system did not return the usage of nodes; the message has the reason."""


class NotSupportedError(SourceError):
    """The system does not support this method or path."""


class HttpClient:
    """The client of one server."""

    def __init__(self, session: "aiohttp.ClientSession", address: str, tls: ssl.SSLContext | bool) -> None:
        self._session = session
        self._address = address
        self._tls = tls

    async def request(
        self,
        method: str,
        path: str,
        response_type: type[T],
        *,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> T:
        """Sends a request and decodes the response. Raises SourceError.

        ``form``: parameters, in the body of a POST, else in the URL; ``body``: JSON.
        """
        import aiohttp

        url = self._address + path
        in_body = method == "POST"
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method,
                url,
                params=None if in_body else form,
                data=(body or form) if in_body else None,
                headers=headers,
                ssl=self._tls,
            ) as response:
                content = await _read(response)
                status = response.status
        except TimeoutError:
            raise SourceError(f"{path}: no answer within {REQUEST_TIMEOUT:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceError(f"{path}: {str(error) or type(error).__name__}") from None
        if status in (404, 405, 501):
            raise NotSupportedError(f"{method} {path}: status {status}")
        if status != 200:
            raise SourceError(f"{path}: status {status}: {content[:_MAX_QUOTED].decode('utf-8', 'replace')}")
        return decode(content, response_type, path)


def decode(content: bytes, response_type: type[T], path: str) -> T:
    """Decodes a response. Raises SourceError."""
    try:
        return msgspec.json.decode(content, type=response_type)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SourceError(f"{path}: not the answer that was expected: {error}") from None


@asynccontextmanager
async def open_client(
    address: str, *, verify_tls: bool, username: str = "", password: str = ""
) -> AsyncIterator[HttpClient]:
    """Opens a client. ``username``: "" for no authentication."""
    import aiohttp  # most schedulers ask no monitoring system, and it takes a twentieth of a start

    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=10)
    headers = {"Accept": "application/json", "User-Agent": f"volcano-py/{__version__}"}
    if username:
        headers["Authorization"] = f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as session:
        yield HttpClient(session, address, verify_tls)


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    """Returns the body. Raises SourceError when it is too large."""
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MAX_RESPONSE_BYTES:
            raise SourceError(f"{response.url.path}: an answer of more than {MAX_RESPONSE_BYTES} bytes")
    return bytes(content)
