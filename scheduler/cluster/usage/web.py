"""HTTP for monitoring systems: one answer as JSON within bounds of time and size, or a SourceError that says what."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import aiohttp
import msgspec

from scheduler import __version__

ANSWER_SECONDS: Final = 20.0
LARGEST: Final = 32 * 2**20
"""Bytes of an answer."""
_SHOWN: Final = 200
T = TypeVar("T")


class SourceError(Exception):
    """A monitoring system did not say how busy nodes are."""


class NotSupportedError(SourceError):
    """It does not know this method or path."""


class Web:
    """A connection to one server."""

    def __init__(self, session: aiohttp.ClientSession, address: str, tls: ssl.SSLContext | bool) -> None:
        self._session = session
        self._address = address
        self._tls = tls

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> T:
        """``form``: parameters, in the body of a POST, else in the URL; ``body``: JSON. Raises SourceError."""
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
            raise SourceError(f"{path}: no answer within {ANSWER_SECONDS:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceError(f"{path}: {str(error) or type(error).__name__}") from None
        if status in (404, 405, 501):
            raise NotSupportedError(f"{method} {path}: status {status}")
        if status != 200:
            raise SourceError(f"{path}: status {status}: {content[:_SHOWN].decode('utf-8', 'replace')}")
        return decode(content, answer, path)


def decode(content: bytes, answer: type[T], path: str) -> T:
    """Raises SourceError."""
    try:
        return msgspec.json.decode(content, type=answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SourceError(f"{path}: not the answer that was expected: {error}") from None


@asynccontextmanager
async def open_web(address: str, *, verify_tls: bool, username: str = "", password: str = "") -> AsyncIterator[Web]:
    """``username``: "" for none."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=10)
    headers = {"Accept": "application/json", "User-Agent": f"volcano-py/{__version__}"}
    if username:
        headers["Authorization"] = f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as session:
        yield Web(session, address, verify_tls)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Raises SourceError when the answer is too large."""
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > LARGEST:
            raise SourceError(f"{response.url.path}: an answer of more than {LARGEST} bytes")
    return bytes(content)
