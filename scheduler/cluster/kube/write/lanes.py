"""Work in order of importance: each class has its queue and its limit of work in flight, and none starts anything while
a more important class has something waiting.

What fails for a while is tried again later without holding a place, unless newer work on the same object has come. Work
on one object never overlaps, and the newest replaces what still waits. What the work is belongs to ``writer`` and
``events``.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from enum import IntEnum

import structlog

_LIMITLESS = 1_000_000
log = structlog.get_logger(__name__)


class Urgency(IntEnum):
    """The classes of work, the most important first."""

    BINDING = 0
    """What ends a wait goes before what begins one."""
    EVICTION = 1
    ADMISSION = 2
    """Of jobs and Pods that wait for it."""
    STATUS = 3
    EVENT = 4


URGENT = (Urgency.BINDING, Urgency.EVICTION, Urgency.ADMISSION)
Work = Callable[[], Awaitable[float | None]]
"""Does it; the answer is None when done, or the seconds after which to try again."""


class _Lane:
    def __init__(self, limit: int, capacity: int) -> None:
        self.limit = limit
        self.capacity = capacity
        self.waiting: OrderedDict[Hashable, Work] = OrderedDict()
        self.running: set[Hashable] = set()
        self.after: dict[Hashable, Work] = {}
        """Newest work on what is being worked on."""
        self.delayed: dict[Hashable, asyncio.TimerHandle] = {}

    def drop(self, key: Hashable) -> None:
        """Forget what is not under way."""
        self.waiting.pop(key, None)
        self.after.pop(key, None)
        timer = self.delayed.pop(key, None)
        if timer is not None:
            timer.cancel()

    def supersede(self, key: Hashable, work: Work) -> bool:
        """Newer work of another class makes what waits here void; behind what is under way it queues, which is said."""
        self.drop(key)
        if key in self.running:
            self.after[key] = work
            return True
        return False

    def goes_on_until(self, end: float) -> bool:
        """Whether something is done, or tried again, before a time of the loop's clock."""
        return bool(self.waiting or self.running or self.after) or any(
            timer.when() <= end for timer in self.delayed.values()
        )

    @property
    def size(self) -> int:
        return len(self.waiting) + len(self.running) + len(self.after) + len(self.delayed)


class Lanes:
    """For one event loop; not thread-safe."""

    def __init__(self, limits: dict[Urgency, int], capacities: dict[Urgency, int]) -> None:
        """``limits``: work in flight per class; ``capacities``: work waiting per class."""
        self._lanes = {urgency: _Lane(limits[urgency], capacities[urgency]) for urgency in Urgency}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._pumping = False

    def submit(self, urgency: Urgency, key: Hashable, work: Work) -> bool:
        """Queue work, in place of older work with the same key, of whatever class. False if the class is full: the work
        is dropped."""
        lane = self._lanes[urgency]
        for other in self._lanes.values():
            if other is not lane and other.supersede(key, work):
                return True
        timer = lane.delayed.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in lane.running:
            lane.after[key] = work
        elif key in lane.waiting:
            lane.waiting[key] = work
        elif len(lane.waiting) >= lane.capacity:
            return False
        else:
            lane.waiting[key] = work
            self._wake()
        return True

    def drop(self, urgency: Urgency, key: Hashable) -> None:
        """Work has become needless: it is not begun any more; what is under way goes on."""
        self._lanes[urgency].drop(key)
        self._changed.set()

    def limit(self, urgency: Urgency) -> int:
        """How much of a class may be in flight."""
        return self._lanes[urgency].limit

    def backlog(self, urgency: Urgency) -> int:
        """How much of a class is not done yet."""
        return self._lanes[urgency].size

    async def drain(self, urgencies: Collection[Urgency], timeout: float) -> bool:
        """Wait until nothing of these classes is left, at most ``timeout`` seconds; whether that came about. What is
        tried again later than that is not waited for."""
        lanes = [self._lanes[urgency] for urgency in urgencies]
        end = asyncio.get_running_loop().time() + timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while any(lane.goes_on_until(end) for lane in lanes):
                    self._changed.clear()
                    await self._changed.wait()
        return not any(lane.size for lane in lanes)

    async def close(self) -> None:
        """Drop what waits, cancel what runs."""
        for lane in self._lanes.values():
            lane.waiting.clear()
            lane.after.clear()
            for timer in lane.delayed.values():
                timer.cancel()
            lane.delayed.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _wake(self) -> None:
        """Start work at the end of this turn of the loop, when all that comes at once has been queued."""
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        for urgency, lane in self._lanes.items():
            while lane.waiting and len(lane.running) < lane.limit:
                key, work = lane.waiting.popitem(last=False)
                lane.running.add(key)
                task = asyncio.create_task(self._run(urgency, key, work))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if lane.waiting:
                return

    async def _run(self, urgency: Urgency, key: Hashable, work: Work) -> None:
        lane = self._lanes[urgency]
        again: float | None = None
        try:
            again = await work()
        except Exception:
            log.exception("work was given up", urgency=urgency.name, key=str(key))
        finally:
            lane.running.discard(key)
            newer = lane.after.pop(key, None)
            if newer is not None:
                lane.waiting[key] = newer
            elif again is not None:
                lane.delayed[key] = asyncio.get_running_loop().call_later(again, self._again, lane, key, work)
            self._changed.set()
            self._wake()

    def _again(self, lane: _Lane, key: Hashable, work: Work) -> None:
        lane.delayed.pop(key, None)
        lane.waiting[key] = work
        self._wake()


def make_lanes(placements: int) -> Lanes:
    """The lanes of a role, with so many bindings, and as many evictions, in flight. How many of them wait is bounded by
    ``Writer.overloaded``, and of statuses by the number of objects; Events are dropped where they come too fast."""
    return Lanes(
        {**dict.fromkeys(URGENT, placements), Urgency.STATUS: 16, Urgency.EVENT: 8},
        {**dict.fromkeys(URGENT, _LIMITLESS), Urgency.STATUS: 100_000, Urgency.EVENT: 20_000},
    )
