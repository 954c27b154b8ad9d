"""A set of informers that are started, awaited and listed again together."""

import asyncio
import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from scheduler.api.kinds import Kind
from scheduler.cluster.kube.process.waiting import cancel, unless_stopped, wait_with_progress
from scheduler.cluster.kube.watch.catching_up import catch_up
from scheduler.cluster.kube.watch.informer import Informer

log = structlog.get_logger(__name__)
LISTING_SECONDS = 3.0
"""Seconds between two logs of how far the first lists are."""
LISTED_OBJECTS: Final = 1_000_000
"""New objects after which the cyclic garbage collector runs while the first lists fill a cache."""


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
