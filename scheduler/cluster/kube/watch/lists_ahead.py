"""First lists that are requested while the rest of the program is imported.

To import the plugins takes as long as the API server needs for the first pages of its lists.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import msgspec

from scheduler.api.objects import KubeObject
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.pages import PAGE, Listed, Page, pages_of_objects

Pages = AsyncGenerator[Page[Listed[KubeObject]], None]


class ListsAhead:
    """Belongs to one event loop."""

    def __init__(self, client: ApiClient, sources: Iterable[WatchSource], free_lease: str = "") -> None:
        """Requests the first pages of all sources. ``free_lease``: see ``Process``."""
        self.client = client
        self.free_lease = free_lease
        self._lists = {source: _Begun(client, source) for source in sources}

    def take(self, source: WatchSource) -> Pages | None:
        """Returns the list of a source, if there is one and it was not taken before. The caller closes it."""
        begun = self._lists.pop(source, None)
        return None if begun is None else begun.pages()

    async def aclose(self) -> None:
        """Ends the lists that were not taken."""
        await asyncio.gather(*(begun.close() for begun in self._lists.values()))
        self._lists.clear()


class _Begun:
    def __init__(self, client: ApiClient, source: WatchSource) -> None:
        self._pages: Pages = pages_of_objects(client, source, PAGE, msgspec.json.Decoder(source.kind.struct))
        self._first = asyncio.ensure_future(anext(self._pages))

    async def pages(self) -> Pages:
        async with aclosing(self._pages):
            yield await self._first
            async for page in self._pages:
                yield page

    async def close(self) -> None:
        """Ends the list, of which ``pages`` was not called."""
        await cancel(self._first)
        await self._pages.aclose()
