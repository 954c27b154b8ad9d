"""A few workers carry out all writes: at most so many are in flight, in order of importance.

New Pods go first, because they end the wait of a job that has been admitted, but every eighth write is another one: a
job with thousands of Pods does not hold up the first write of a small one. Among writes of equal importance, namespaces
take turns. Deferrable writes only inform and come last; at first they even wait for urgent ones in flight, which they
would slow down.

A worker is a task. It goes on with the next write that waits, so that a job takes as many tasks as there are writes in
flight. A manifest that takes much processor time is built in a thread first, and occupies no worker meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from itertools import cycle
from typing import Final

import structlog

from scheduler.api.fair_queue import FairQueue
from scheduler.api.kinds import Kind
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.write.slow_start import SlowStart
from scheduler.controllers.effects import Json, Patch
from scheduler.controllers.worklist import Item

Write = Callable[[], Awaitable[None]]
"""Carries out a write and reports its outcome."""
HOLD: Final = 0.3
"""Seconds for which deferrable writes wait for urgent ones in flight: the creation of a few jobs takes less."""
_NEW_PODS_IN_A_ROW = 7
log = structlog.get_logger(__name__)
Place = tuple[Kind, str, str, str]
"""Kind, namespace, name, subresource."""
Build = Callable[[], Json]
Built = Callable[[Json | Exception], None]
"""Receives the manifest, or the exception that its construction raised."""


class WriteKind(Enum):
    """Kinds of writes."""

    NEW_POD = 0
    OTHER = 1
    DEFERRABLE = 2


class WriteWorkers:
    """Belongs to one event loop."""

    def __init__(self, number: int) -> None:
        """``number``: writes in flight."""
        self._number = number
        self._waiting: dict[WriteKind, FairQueue[Write]] = {urgency: FairQueue() for urgency in WriteKind}
        new_pods, others, self._deferrable = self._waiting.values()
        self._turns = cycle([(new_pods, others)] * _NEW_PODS_IN_A_ROW + [(others, new_pods)])
        """The orders in which the queues of urgent writes are searched for the next one."""
        self._urgent = 0
        """Urgent writes in flight."""
        self._hold: asyncio.TimerHandle | None = None
        """Ends the time for which deferrable writes wait for urgent ones. None: they do not wait."""
        self._slow_start = SlowStart(self._add_workers_for_all)
        self._working = 0
        """Workers that will look for another write; a task ends a little later."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(self, namespace: str, write: Write, urgency: WriteKind) -> None:
        """Queues a write for an object of the namespace; ``namespace`` is "" for objects without one."""
        if self._closed:
            return
        if urgency is WriteKind.DEFERRABLE and not self._deferrable:
            if self._hold is not None:
                self._hold.cancel()
            self._hold = asyncio.get_running_loop().call_later(HOLD, self._release)
        self._waiting[urgency].add(namespace, write)
        self._add_workers(1)

    async def close(self) -> None:
        """Drops the writes that wait and cancels those in flight."""
        self._closed = True
        self._slow_start.close()
        if self._hold is not None:
            self._hold.cancel()
        for waiting in self._waiting.values():
            waiting.clear()
        await cancel(*self._tasks)

    def _add_workers_for_all(self) -> None:
        self._add_workers(sum(map(len, self._waiting.values())))

    def _add_workers(self, number: int) -> None:
        """Starts so many workers, as far as the limits allow."""
        for _ in range(number):
            if not self._slow_start.allows(self._working) or self._working >= self._number:
                return
            self._working += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while (found := self._next()) is not None:
            write, is_urgent = found
            self._urgent += is_urgent
            try:
                await write()
            except Exception:
                log.exception("a write raised an exception")
            finally:
                self._urgent -= is_urgent
            if not self._urgent:
                self._add_workers(len(self._deferrable))
        self._working -= 1

    def _next(self) -> tuple[Write, bool] | None:
        """Takes the next write; with it, whether it is urgent."""
        for waiting in next(self._turns):
            if waiting:
                return waiting.take(), True
        if self._deferrable and not (self._urgent and self._hold is not None):
            return self._deferrable.take(), False
        return None

    def _release(self) -> None:
        self._hold = None
        self._add_workers(len(self._deferrable))


def place_of(patch: Patch) -> Place:
    return (patch.kind, patch.namespace, patch.name, patch.subresource)


class DeferredWrites:
    """Deferrable writes, each of which waits until no urgent write does. Belongs to one event loop.

    Plans do not wait for them. Per object only the newest is kept: a newer write, urgent or not, replaces one that
    waits, and an urgent write waits for one that is running. So an older write never follows a newer one."""

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


class ManifestBuilder:
    """Builds manifests that take much processor time, such as those with new keys, in a thread beside the event loop,
    to which it belongs.

    It builds one at a time, so that they take at most one core; namespaces take turns."""

    def __init__(self) -> None:
        self._waiting: FairQueue[tuple[Build, Built]] = FairQueue()
        self._task: asyncio.Task[None] | None = None
        """Builds what waits; ends when nothing does."""

    def submit(self, namespace: str, build: Build, built: Built) -> None:
        """Queues a manifest to be built after the waiting ones. Calls ``built`` on the event loop."""
        self._waiting.add(namespace, (build, built))
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Drops what waits."""
        self._waiting.clear()
        if self._task is not None:
            await cancel(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                build, built = self._waiting.take()
                try:
                    manifest: Json | Exception = await asyncio.to_thread(build)
                except Exception as error:  # whatever a plugin raises fails this object alone
                    manifest = error
                built(manifest)
        finally:
            self._task = None
