"""Deferrable writes: they only inform, so each waits until no urgent write does.

Plans do not wait for them. Per object only the newest is kept: a newer write, urgent or not, replaces one that waits,
and an urgent write waits for one that is running. So an older write never follows a newer one.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from scheduler.api.kinds import Kind
from scheduler.cluster.kube.operator.write_workers import WriteKind, WriteWorkers
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
        workers: WriteWorkers,
        write: Callable[[Item, Patch], Awaitable[str]],
        failed: Callable[[Item, Patch, str], None],
        ended: Callable[[], None],
    ) -> None:
        """``write`` returns why it failed, or ""; ``failed`` is called then. ``ended`` is called after each write."""
        self._workers = workers
        self._write = write
        self._failed = failed
        self._ended = ended
        self._waiting: dict[Place, tuple[Item, Patch]] = {}
        self._running: dict[Place, list[Callable[[], None]]] = {}
        """Place -> what is called after the write that is under way."""

    @property
    def running(self) -> int:
        """The number of writes in flight."""
        return len(self._running)

    def put(self, item: Item, patch: Patch) -> None:
        """Queues a write, in place of one that waits for the same object."""
        place = place_of(patch)
        queued = place in self._waiting or place in self._running
        self._waiting[place] = (item, patch)
        if not queued:
            self._submit(place)

    def before(self, patch: Patch, start: Callable[[], None]) -> None:
        """Prepares an urgent write: drops a waiting write of the object, and calls ``start`` once none is running."""
        place = place_of(patch)
        self._waiting.pop(place, None)
        if place in self._running:
            self._running[place].append(start)
        else:
            start()

    def _submit(self, place: Place) -> None:
        _, namespace, _, _ = place
        self._workers.submit(namespace, partial(self._work, place), WriteKind.DEFERRABLE)

    async def _work(self, place: Place) -> None:
        if place in self._running or place not in self._waiting:  # an urgent write has replaced the one of this turn
            return
        item, patch = self._waiting.pop(place)
        self._running[place] = []
        try:
            problem = await self._write(item, patch)
        finally:
            after = self._running.pop(place)
        if problem:
            self._failed(item, patch, problem)
        for start in after:
            start()
        if place in self._waiting:
            self._submit(place)
        self._ended()
