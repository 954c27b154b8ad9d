"""Lists of one consistent state, page by page: whole objects, or only their names and versions.

Pages are read ahead. A page of a built-in kind begins with the token of the next one, which is therefore requested
while the API server still encodes the objects of the first: it encodes several pages at once, on several cores, while
others are decoded here. Answers are compressed, and decompressed and decoded on another thread: ten times fewer bytes
pass through TLS and the event loop. Pages that wait do so compressed, so that the API server can go on while this
program is busy, for example with its own imports.

A list is several times faster than a watch that begins with all objects (``sendInitialEvents``), which the API server
does not compress and encodes one after the other; see docs/architecture.md.
"""

import asyncio
import re
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.api.objects import Wire
from scheduler.cluster.decoding import DECODE_ERRORS, decode
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.answers import GZIP, GZIP_FORMAT, inflated
from scheduler.cluster.kube.transport.client import JSON, METADATA_LIST, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.list_preconditions import until_cached

PAGE: Final = 10_000
"""Objects per page of a list: bounds memory. For each page, the API server visits all objects after its token."""
AT_ONCE: Final = 4
"""Pages of a list that the API server encodes at once, at most."""
AHEAD: Final = 8
"""Pages of a list that are requested, or wait to be used, at most. They wait as they were sent: that takes little
memory."""
DECODED: Final = 1
"""Pages of a list that are decoded, or wait decoded, at most."""
_PLAIN_HEADER: Final = b"\x1f\x8b\x08\x00"
"""The beginning of the header of a compressed answer that has neither a file name nor other optional fields."""
_REST_OF_HEADER: Final = 6
"""Bytes of the header after that."""
_TRAILER: Final = 8
"""Bytes of a compressed answer after the compressed data: a checksum and the size before compression."""
_LARGEST_BUFFER: Final = 64 * 2**20
"""Bytes of memory that are reserved for a decompressed page before it is known to have this size."""
_EDGE: Final = 4096
"""Bytes at the beginning and at the end of a page in which the token of the next one is searched."""
_FIRST: Final = re.compile(rb'\{"kind":"\w+","apiVersion":"[^"\\]+","metadata":(\{[^{}]*\}),"items":')
"""The metadata of a list of a built-in kind."""
_LAST: Final = re.compile(rb'\],"kind":"\w+","metadata":(\{[^{}]*\})\}\s*\Z')
"""The metadata of a list of a kind that a CustomResourceDefinition defines."""
T = TypeVar("T")


class GoneError(Exception):
    """The resource version is too old: list again."""


class ListMeta(Wire):
    resource_version: str = ""
    continuation: str = msgspec.field(default="", name="continue")
    """The token of the next page; "": there is none."""
    remaining_item_count: int = 0
    """Objects on the pages after this one; 0 where the API server does not say it."""


class Page(Wire, Generic[T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


class Listed(NamedTuple, Generic[T]):
    """An object of a list."""

    object: T | None
    """None: it cannot be decoded."""
    raw: msgspec.Raw | None = None
    """The object as it was sent, if it cannot be decoded or the caller wants it. It keeps its page in memory."""
    error: Exception | None = None


class Head(Wire):
    """The name and version of an object."""

    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class Headed(Wire):
    metadata: Head


_raws = msgspec.json.Decoder(Page[msgspec.Raw])
_heads = msgspec.json.Decoder(Page[Headed])
_meta = msgspec.json.Decoder(ListMeta)


def pages_of_objects(
    client: ApiClient, source: WatchSource, size: int, decoder: "msgspec.json.Decoder[T]", *, keep_raw: bool = False
) -> AsyncGenerator[Page[Listed[T]], None]:
    """``size`` objects at a time; 0: all at once. ``keep_raw``: also as they were sent. Raises GoneError (between two
    pages), REQUEST_ERRORS. The caller closes it (``aclosing``)."""
    whole: msgspec.json.Decoder[Page[T]] = msgspec.json.Decoder(Page[decoder.type])  # type: ignore[name-defined]

    def read(body: bytes) -> Page[Listed[T]]:
        if not keep_raw:
            with suppress(*DECODE_ERRORS):  # one pass over the page is twice as fast as one more for each object
                all_valid = whole.decode(body)
                return Page(metadata=all_valid.metadata, items=[Listed(obj) for obj in all_valid.items or ()])
        page = decode(_raws, body)
        return Page(metadata=page.metadata, items=[_listed(raw, decoder, keep_raw) for raw in page.items or ()])

    return _pages(client, source, size, read, JSON)


def pages_of_heads(client: ApiClient, source: WatchSource, size: int) -> AsyncGenerator[Page[Headed], None]:
    """Lists names and versions only, which costs a fraction of ``pages_of_objects``."""
    return _pages(client, source, size, lambda body: decode(_heads, body), METADATA_LIST)


async def present_version(client: ApiClient, source: WatchSource) -> str:
    """The resource version that a list has now. Raises REQUEST_ERRORS."""
    params = {"limit": "1", **source.selection}
    body = await client.request("GET", source.path, params=params, priority=CallPriority.READ, accept=METADATA_LIST)
    return decode(_heads, body).metadata.resource_version


def _listed(raw: msgspec.Raw, decoder: "msgspec.json.Decoder[T]", keep_raw: bool) -> Listed[T]:
    try:
        return Listed(decode(decoder, raw), raw if keep_raw else None)
    except DECODE_ERRORS as error:
        return Listed(None, raw, error)


class _Requested(Generic[T]):
    """A page that was requested."""

    def __init__(self) -> None:
        self.page: asyncio.Task[Page[T]]
        self.sent = False
        """Whether it has arrived."""
        self.next_is_known = False
        """Whether the token of the next page was found."""
        self.turn = asyncio.Event()
        """Set when it may be decoded."""


async def _pages(
    client: ApiClient, source: WatchSource, size: int, read: Callable[[bytes], Page[T]], accept: str
) -> AsyncGenerator[Page[T], None]:
    tokens = [""]
    """The token of the page to request next; empty while it is not known, and after the last page."""
    requested: deque[_Requested[T]] = deque()

    def proceed() -> None:
        """Requests the next page and lets the first ones be decoded, within the limits."""
        if tokens and len(requested) < AHEAD and sum(not each.sent for each in requested) < AT_ONCE:
            params = {**({"limit": str(size)} if size else {}), **source.selection}
            token = tokens.pop()
            if token:
                params["continue"] = token
            another: _Requested[T] = _Requested()
            another.page = asyncio.create_task(one(another, params))
            requested.append(another)
        for each in islice(requested, DECODED):
            each.turn.set()

    async def one(this: _Requested[T], params: Mapping[str, str]) -> Page[T]:
        def found(token: str) -> None:
            if token and not this.next_is_known:
                this.next_is_known = True
                tokens.append(token)
                proceed()

        body = await _sent(client, source.path, params, accept, found)
        this.sent = True
        proceed()
        if not this.next_is_known:
            body = await asyncio.to_thread(_inflated, source.path, body)
            found(_token(_LAST.search(body, max(0, len(body) - _EDGE))))
        await this.turn.wait()
        page = await asyncio.to_thread(lambda: read(_inflated(source.path, body)))
        found(page.metadata.continuation)
        return page

    await until_cached(client, source)
    proceed()
    try:
        while requested:
            page = await requested[0].page
            requested.popleft()
            proceed()
            yield page
    finally:
        await cancel(*(each.page for each in requested))


async def _sent(
    client: ApiClient, path: str, params: Mapping[str, str], accept: str, found: Callable[[str], None]
) -> bytes:
    """A page as it was sent, perhaps compressed. Calls ``found`` with the token of the next one, if it is at the
    beginning, as soon as it is known."""
    parts: list[bytes] = []
    searching = True

    def receive(part: bytes) -> None:
        nonlocal searching
        parts.append(part)
        if searching:
            arrived = b"".join(parts)
            token = _token(_FIRST.match(_beginning(arrived)))
            searching = not token and len(arrived) < _EDGE
            if token:
                found(token)

    try:
        await client.request(
            "GET",
            path,
            params=params,
            priority=CallPriority.READ,
            accept=accept,
            compressed=True,
            receive=receive,
            inflate=False,
        )
    except ApiError as error:
        if error.status == 410 and "continue" in params:  # it took longer than the server keeps old versions
            raise GoneError(error.message) from None
        raise
    return b"".join(parts)


def _beginning(arrived: bytes) -> bytes:
    """The beginning of a page, of which ``arrived`` has arrived."""
    if not arrived.startswith(GZIP):
        return arrived[:_EDGE]
    try:
        return zlib.decompressobj(GZIP_FORMAT).decompress(arrived, _EDGE)
    except zlib.error:
        return b""


def _inflated(path: str, body: bytes) -> bytes:
    """A page as JSON. Raises TransportError.

    The checksum of a compressed page is not computed, which would take as long as to decompress it: TLS has verified
    the bytes. The size is compared."""
    try:
        if body.startswith(_PLAIN_HEADER) and len(body) >= len(_PLAIN_HEADER) + _REST_OF_HEADER + _TRAILER:
            size = int.from_bytes(body[-4:], "little")
            deflated = memoryview(body)[len(_PLAIN_HEADER) + _REST_OF_HEADER : -_TRAILER]
            page = zlib.decompress(deflated, -zlib.MAX_WBITS, min(size, _LARGEST_BUFFER) or 1)
            if len(page) == size:
                return page
        return inflated(body)
    except zlib.error as error:
        raise TransportError(f"GET {path}: the compressed answer is malformed: {error}", sent=True) from None


def _token(metadata: re.Match[bytes] | None) -> str:
    """The token of the next page in the metadata of a list, or ""."""
    try:
        return decode(_meta, metadata[1]).continuation if metadata else ""
    except DECODE_ERRORS:
        return ""
