"""Writes that only inform: one per object, the newest, made when nothing urgent waits for a slot.

Nobody waits for them. What is not written yet makes room for a newer word on the same object, urgent or not, and an
urgent one waits for what is under way; so an older word never comes after a newer one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.api.kinds import Kind
from scheduler.cluster.kube.operator.slots import Slots
from scheduler.controllers.effects import Patch
from scheduler.controllers.worklist import Item

Place = tuple[Kind, str, str, str]
"""Kind, namespace, name, subresource."""


def place_of(patch: Patch) -> Place:
    return (patch.kind, patch.namespace, patch.name, patch.subresource)


class Relaxed:
    """For one event loop."""

    def __init__(
        self, slots: Slots, write: Callable[[Item, Patch], Awaitable[str]], failed: Callable[[Item, Patch, str], None]
    ) -> None:
        """``write`` says why it failed, or ""; ``failed`` is told."""
        self._slots = slots
        self._write = write
        self._failed = failed
        self._waiting: dict[Place, tuple[Item, Patch]] = {}
        self._running: dict[Place, asyncio.Task[None]] = {}
        self._closed = False

    def put(self, item: Item, patch: Patch) -> None:
        """Write it some time, in place of what waits to be written there."""
        if self._closed:
            return
        place = place_of(patch)
        self._waiting[place] = (item, patch)
        if place not in self._running:
            self._start(place)

    async def settle(self, patch: Patch) -> None:
        """Before an urgent write: forget what waits, and let what is under way come to its end."""
        place = place_of(patch)
        self._waiting.pop(place, None)
        running = self._running.get(place)
        if running is not None:
            await asyncio.wait((running,))

    async def drain(self, seconds: float) -> None:
        """Wait for what there is, at most so long."""
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
            async with self._slots.taken(relaxed=True):
                waiting = self._waiting.pop(place, None)
                if waiting is not None:
                    problem = await self._write(*waiting)
                    if problem:
                        self._failed(*waiting, problem)
        finally:
            del self._running[place]
            if place in self._waiting and not self._closed:
                self._start(place)
