"""A set of informers as one thing: started together, waited for together, listed anew together."""

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from scheduler.api.kinds import Kind
from scheduler.cluster.kube.process.waiting import patiently, unless
from scheduler.cluster.kube.watch.informer import Informer

log = structlog.get_logger(__name__)


class Watching:
    """For one event loop."""

    def __init__(self, informers: Sequence[Informer]) -> None:
        self._informers = list(informers)
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._listing = asyncio.Lock()

    def start(self) -> None:
        for informer in self._informers:
            self._watch(informer)

    def add(self, informer: Informer) -> None:
        """Start one more."""
        self._informers.append(informer)
        self._watch(informer)

    def _watch(self, informer: Informer) -> None:
        self._tasks[informer] = asyncio.create_task(informer.run())

    async def synced(self, stop: asyncio.Event, progress: Callable[[], None] = lambda: None) -> bool:
        """Wait until every first list is in; False if stopped before. ``progress`` is called every ``PATIENCE`` seconds
        meanwhile."""

        def still_waiting() -> None:
            progress()
            for informer in self._informers:
                if not informer.synced.is_set():
                    log.warning("waiting for the first list", source=str(informer.source), problem=informer.problem)

        if await patiently(stop, self.listed, still_waiting) is None:
            return False
        log.info("synced")
        return True

    async def listed(self) -> bool:
        """Wait until every first list is in. Always True."""
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
        return True

    async def catch_up(self, kinds: Collection[Kind], stop: asyncio.Event) -> bool:
        """Have all objects of some kinds that there are now; False if stopped before."""
        asked = self._of(kinds)
        caught_up = await unless(stop, asyncio.gather(*(informer.catch_up() for informer in asked)))
        if caught_up is None:
            return False
        lagging = [informer for informer, fresh in zip(asked, caught_up, strict=True) if not fresh]
        return await self._list(lagging, stop) if lagging else True

    async def list_again(self, kinds: Collection[Kind], stop: asyncio.Event) -> bool:
        """List objects of some kinds anew, and wait for it; False if stopped before."""
        return await self._list(self._of(kinds), stop)

    def _of(self, kinds: Collection[Kind]) -> list[Informer]:
        return [informer for informer in self._informers if informer.source.kind in kinds]

    async def _list(self, informers: Sequence[Informer], stop: asyncio.Event) -> bool:
        async with self._listing:  # two that restart one informer at a time would leave it running twice
            for informer in informers:
                self._tasks[informer].cancel()
                await asyncio.gather(self._tasks[informer], return_exceptions=True)
                informer.forget_version()
                self._watch(informer)
        return await self.synced(stop)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
