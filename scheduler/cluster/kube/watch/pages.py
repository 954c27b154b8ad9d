"""Lists of one consistent state, page by page: whole objects as bytes, or only their names and versions."""

from collections.abc import AsyncGenerator
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.api.objects import Wire
from scheduler.cluster.decoding import decode
from scheduler.cluster.kube.transport.client import JSON, ApiClient, ApiError
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.cluster.kube.transport.sources import Source

_METADATA_ONLY: Final = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
T = TypeVar("T")


class GoneError(Exception):
    """The resource version is too old: list again."""


class _ListMeta(Wire):
    resource_version: str = ""
    continuation: str = msgspec.field(default="", name="continue")


class Page(Wire, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[T] | None = None


class Head(Wire):
    """The name and version of an object."""

    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class Headed(Wire):
    metadata: Head


_objects = msgspec.json.Decoder(Page[msgspec.Raw])
_heads = msgspec.json.Decoder(Page[Headed])


def pages_of_objects(client: ApiClient, source: Source, size: int) -> AsyncGenerator[Page[msgspec.Raw], None]:
    """``size`` objects at a time; 0: all at once. Raises GoneError (between two pages), ApiError, TransportError,
    DECODE_ERRORS."""
    return _pages(client, source, size, _objects, JSON)


def pages_of_heads(client: ApiClient, source: Source, size: int) -> AsyncGenerator[Page[Headed], None]:
    """As ``pages_of_objects``, but names and versions only, which costs a fraction."""
    return _pages(client, source, size, _heads, _METADATA_ONLY)


async def _pages(
    client: ApiClient, source: Source, size: int, decoder: "msgspec.json.Decoder[Page[T]]", accept: str
) -> AsyncGenerator[Page[T], None]:
    first = params = {**({"limit": str(size)} if size else {}), **source.selection}
    while True:
        try:
            body = await client.request("GET", source.path, params=params, priority=Priority.READ, accept=accept)
        except ApiError as error:
            if error.status == 410 and "continue" in params:  # it took longer than the server keeps old versions
                raise GoneError(error.message) from None
            raise
        page = decode(decoder, body)
        yield page
        if not page.metadata.continuation:
            return
        params = {**first, "continue": page.metadata.continuation}
