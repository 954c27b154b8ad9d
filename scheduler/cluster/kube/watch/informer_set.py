"""A set of informers that are started, awaited, compared with the API server and listed again together.

To find out whether a watch has delivered everything that there is, ``catch_up`` compares versions with those of a list
of metadata, which costs a fraction of a whole one. If there are many objects, another watch that begins at the version
of the first shows which changes are missing: an API server sends a bookmark, whose version says how far the watch is,
about a second after a short watch has begun.
"""

import asyncio
import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Final

import msgspec
import structlog

from scheduler.api.kinds import Kind
from scheduler.cluster.decoding import decode
from scheduler.cluster.kube.process.waiting import cancel, unless_stopped, wait_with_progress
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS
from scheduler.cluster.kube.watch.informer import Informer, WatchEvent, watch_params
from scheduler.cluster.kube.watch.pages import GoneError, Headed, pages_of_heads, present_version
from scheduler.cluster.kube.watch.problems import Key

LAG: Final = 1.0
"""Seconds that a watch has to reach the versions that a list or another watch has shown."""
POLL_SECONDS: Final = 0.01
"""Seconds between two checks whether it has."""
SHORT: Final = 3
"""Requested seconds of a watch that shows which changes are missing. API servers send a bookmark two seconds before the
end of a watch; one of two seconds or less gets none."""
OVERDUE: Final = 1.0
"""Seconds after the requested end at which it is broken off."""
log = structlog.get_logger(__name__)
LISTING_SECONDS = 3.0
"""Seconds between two logs of how far the first lists are."""
LISTED_OBJECTS: Final = 1_000_000
"""New objects after which the cyclic garbage collector runs while the first lists fill a cache."""


class _ReachedError(Exception):
    """A watch has shown everything that it is needed for."""


_events = msgspec.json.Decoder(WatchEvent[Headed])


async def catch_up(informer: Informer) -> bool:
    """Waits until the watch of an informer has delivered everything there is now. False where that is unknown, or takes
    longer than ``LAG``."""
    try:
        if informer.version and len(informer.versions) > informer.page:
            change = await _last_change(informer)
            if change is not None:
                return await fulfilled(lambda: reached(informer.version, change))
        return await _catch_up_with_list(informer)
    except (GoneError, *REQUEST_ERRORS) as error:
        log.info("not known whether a watch is up to date", source=str(informer.source), why=str(error))
        return False


async def _last_change(informer: Informer) -> str | None:
    """The version of the last change until now, or the informer's version if there is no change after it. None if the
    API server does not show it within a short watch. Raises REQUEST_ERRORS."""
    client, source, change = informer.client, informer.source, informer.version
    version = await present_version(client, source)
    if reached(change, version):
        return change

    def receive(lines: list[bytes]) -> None:
        nonlocal change
        for line in filter(None, lines):
            event = decode(_events, line)
            seen = event.object.metadata.resource_version
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                change = seen
            if reached(seen, version):
                raise _ReachedError

    try:
        await client.follow(source.path, watch_params(source, change, SHORT), receive, longest=SHORT + OVERDUE)
    except _ReachedError:
        return change
    except REQUEST_ERRORS as error:
        log.debug("a short watch failed", source=str(source), why=str(error))
    return None


async def _catch_up_with_list(informer: Informer) -> bool:
    """Waits until the watch of an informer has delivered what a list of metadata shows. Raises GoneError and
    REQUEST_ERRORS."""
    source = informer.source
    there: dict[Key, str] = {}
    version = ""
    async with aclosing(pages_of_heads(informer.client, source, informer.page)) as pages:
        async for page in pages:
            version = page.metadata.resource_version
            if reached(informer.version, version):
                return True
            for meta in (item.metadata for item in page.items or ()):
                if meta.name.startswith(source.name_prefix):
                    there[meta.namespace, meta.name] = meta.resource_version
    return await fulfilled(lambda: reached(informer.version, version) or _has_all(informer.versions, there))


async def fulfilled(condition: Callable[[], bool], seconds: float | None = None) -> bool:
    """Waits for a condition, and returns whether it is fulfilled in time. ``seconds``: None for ``LAG``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LAG if seconds is None else seconds):
            while not condition():
                await asyncio.sleep(POLL_SECONDS)
            return True
    return False


def _has_all(known: dict[Key, str], there: dict[Key, str]) -> bool:
    """Whether exactly these objects are known, in these versions or later ones."""
    return known.keys() == there.keys() and all(reached(known[key], version) for key, version in there.items())


def reached(ours: str, theirs: str) -> bool:
    """Whether resource version ``ours`` equals ``theirs`` or is later."""
    return ours == theirs != "" or (ours.isdecimal() and theirs.isdecimal() and int(ours) >= int(theirs))


@contextmanager
def long_lived_objects() -> Iterator[None]:
    """The cyclic garbage collector runs rarely within the context, and never visits what was created in it: the first
    lists bring millions of objects that live long and are not in cycles."""
    youngest, *older = gc.get_threshold()
    gc.set_threshold(max(youngest, LISTED_OBJECTS), *older)
    try:
        yield
        gc.freeze()
    finally:
        gc.set_threshold(youngest, *older)


class InformerSet:
    """Belongs to one event loop."""

    def __init__(self, informers: Sequence[Informer]) -> None:
        self._informers = list(informers)
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._relisting = asyncio.Lock()

    def start(self) -> None:
        for informer in self._informers:
            self._watch(informer)

    def add(self, informer: Informer) -> None:
        """Adds an informer and starts it."""
        self._informers.append(informer)
        self._watch(informer)

    def _watch(self, informer: Informer) -> None:
        self._tasks[informer] = asyncio.create_task(informer.run())

    async def synced(self, stop: asyncio.Event, progress: Callable[[], None] = lambda: None) -> bool:
        """Waits until every first list is complete; returns False if stopped before. Every ``LISTING_SECONDS`` seconds
        meanwhile, logs how far the lists are and calls ``progress``."""

        def still_waiting() -> None:
            progress()
            for informer in self._informers:
                if not informer.synced.is_set():
                    _log_progress(informer)

        if await wait_with_progress(stop, self.listed, still_waiting, LISTING_SECONDS) is None:
            return False
        log.info("synced", objects=sum(informer.listed for informer in self._informers))
        return True

    async def listed(self) -> bool:
        """Waits until every first list is complete. Returns True."""
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
        return True

    def unready(self) -> str:
        """The sources whose first lists are not complete, and how far they are; "" if all are."""
        missing = [
            f"{informer.source} ({informer.listed:,} of {informer.expected:,})"
            for informer in self._informers
            if not informer.synced.is_set()
        ]
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    async def catch_up(self, kinds: Collection[Kind], stop: asyncio.Event) -> bool:
        """Waits until all current objects of some kinds have arrived; returns False if stopped before."""
        informers = self._informers_of(kinds)
        caught_up = await unless_stopped(stop, asyncio.gather(*map(catch_up, informers)))
        if caught_up is None:
            return False
        lagging = [informer for informer, fresh in zip(informers, caught_up, strict=True) if not fresh]
        log.info("caught up with another leader", listed_again=[str(informer.source) for informer in lagging])
        return await self._relist(lagging, stop) if lagging else True

    async def list_again(self, kinds: Collection[Kind], stop: asyncio.Event) -> bool:
        """Lists the objects of some kinds again, and waits for it; returns False if stopped before."""
        return await self._relist(self._informers_of(kinds), stop)

    def _informers_of(self, kinds: Collection[Kind]) -> list[Informer]:
        return [informer for informer in self._informers if informer.source.kind in kinds]

    async def _relist(self, informers: Sequence[Informer], stop: asyncio.Event) -> bool:
        async with self._relisting:  # two callers that restart one informer concurrently would leave it running twice
            for informer in informers:
                await cancel(self._tasks[informer])
                informer.forget_version()
                self._watch(informer)
        return await self.synced(stop)

    async def close(self) -> None:
        await cancel(*self._tasks.values())


def _log_progress(informer: Informer) -> None:
    source = str(informer.source)
    if informer.problem:
        log.warning("waiting for the first list", source=source, problem=informer.problem)
    else:
        log.info("listing", source=source, objects=informer.listed, expected=informer.expected)
