"""Deferrable writes: they only inform, so each waits until no urgent write needs a slot.

Plans do not wait for them. Per object only the newest is kept: a newer write, urgent or not, replaces one that waits,
and an urgent write waits for one that is running. So an older write never follows a newer one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.api.kinds import Kind
from scheduler.cluster.kube.operator.slots import WriteSlots
from scheduler.controllers.effects import Patch
from scheduler.controllers.worklist import Item

Place = tuple[Kind, str, str, str]
"""Kind, namespace, name, subresource."""


def place_of(patch: Patch) -> Place:
    return (patch.kind, patch.namespace, patch.name, patch.subresource)


class DeferredWrites:
    """Belongs to one event loop."""

    def __init__(
        self,
        slots: WriteSlots,
        write: Callable[[Item, Patch], Awaitable[str]],
        failed: Callable[[Item, Patch, str], None],
    ) -> None:
        """``write`` returns why it failed, or ""; ``failed`` is called then."""
        self._slots = slots
        self._write = write
        self._failed = failed
        self._waiting: dict[Place, tuple[Item, Patch]] = {}
        self._running: dict[Place, asyncio.Task[None]] = {}
        self._closed = False

    def put(self, item: Item, patch: Patch) -> None:
        """Queues a write, in place of one that waits for the same object."""
        if self._closed:
            return
        place = place_of(patch)
        self._waiting[place] = (item, patch)
        if place not in self._running:
            self._start(place)

    async def settle(self, patch: Patch) -> None:
        """Prepares an urgent write: drops a waiting write of the object, and waits for a running one."""
        place = place_of(patch)
        self._waiting.pop(place, None)
        running = self._running.get(place)
        if running is not None:
            await asyncio.wait((running,))

    async def drain(self, seconds: float) -> None:
        """Waits for running writes, at most ``seconds``."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, place: Place) -> None:
        self._running[place] = asyncio.create_task(self._work(place))

    async def _work(self, place: Place) -> None:
        try:
            await self._slots.acquire(deferrable=True)
            try:
                waiting = self._waiting.pop(place, None)
                if waiting is not None:
                    problem = await self._write(*waiting)
                    if problem:
                        self._failed(*waiting, problem)
            finally:
                self._slots.release()
        finally:
            del self._running[place]
            if place in self._waiting and not self._closed:
                self._start(place)
