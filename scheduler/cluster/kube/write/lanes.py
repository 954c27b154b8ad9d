"""Work in order of importance. Each class has a queue and a limit of work in flight; a class starts nothing while a
more important one has work waiting. While urgent work is in flight, statuses and Events have a lower limit, and at
first wait: they only inform, and would take from the API server what the urgent work waits for.

Work that fails temporarily is retried later without occupying a slot, unless newer work on its object has arrived. Work
on one object never overlaps, and newer work replaces older work that still waits. ``writer`` and ``events`` define the
work itself.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from enum import IntEnum
from functools import partial
from typing import Final

import structlog

from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.write.slow_start import EARLY, SlowStart
from scheduler.observability.role_metrics import RoleMetrics

HOLD: Final = 0.05
"""Seconds for which statuses and Events wait for urgent work in flight: a single binding takes a few milliseconds."""
_LIMITLESS = 1_000_000
log = structlog.get_logger(__name__)


class Urgency(IntEnum):
    """The classes of work, the most important first."""

    BINDING = 0
    """Goes before evictions: it ends a wait, an eviction begins one."""
    EVICTION = 1
    ADMISSION = 2
    """The admission of jobs and Pods that wait for it."""
    STATUS = 3
    EVENT = 4


URGENT = (Urgency.BINDING, Urgency.EVICTION, Urgency.ADMISSION)
Work = Callable[[], Awaitable[float | None]]
"""Does the work. Returns None when done, or the seconds after which to retry."""


class _Lane:
    def __init__(self, limit: int, beside: int, capacity: int) -> None:
        """``beside``: the limit while urgent work is in flight."""
        self.limit = limit
        self.beside = beside
        self.capacity = capacity
        self.waiting: OrderedDict[Hashable, Work] = OrderedDict()
        self.running: set[Hashable] = set()
        self.after: dict[Hashable, Work] = {}
        """The newest work on objects whose earlier work is running."""
        self.delayed: dict[Hashable, asyncio.TimerHandle] = {}

    def drop(self, key: Hashable) -> None:
        """Drops work that is not running."""
        self.waiting.pop(key, None)
        self.after.pop(key, None)
        timer = self.delayed.pop(key, None)
        if timer is not None:
            timer.cancel()

    def supersede(self, key: Hashable, work: Work) -> bool:
        """Drops waiting work that newer work of another class replaces. Returns True if older work is running: the
        newer work then waits here for it."""
        self.drop(key)
        if key in self.running:
            self.after[key] = work
            return True
        return False

    def has_work_before(self, end: float) -> bool:
        """Whether work is waiting or running, or is retried before ``end`` (a time of the loop's clock)."""
        return bool(self.waiting or self.running or self.after) or any(
            timer.when() <= end for timer in self.delayed.values()
        )

    @property
    def size(self) -> int:
        return len(self.waiting) + len(self.running) + len(self.after) + len(self.delayed)


class Lanes:
    """Belongs to one event loop; not thread-safe."""

    def __init__(self, limits: dict[Urgency, int], beside: dict[Urgency, int], capacities: dict[Urgency, int]) -> None:
        """``limits``: work in flight per class; ``beside``: the same while urgent work is in flight; ``capacities``:
        work waiting per class."""
        self._lanes = {
            urgency: _Lane(limits[urgency], beside.get(urgency, limits[urgency]), capacities[urgency])
            for urgency in Urgency
        }
        self._urgent = [self._lanes[urgency] for urgency in URGENT]
        self._slow_start = SlowStart(self._pump)
        self._hold_ends = 0.0
        """When statuses and Events wait no longer for the urgent work in flight."""
        self._hold_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._pumping = False

    def submit(self, urgency: Urgency, key: Hashable, work: Work) -> bool:
        """Queues work and replaces older work with the same key, in any class. Returns False if the class is full and
        the work is dropped."""
        lane = self._lanes[urgency]
        if lane in self._urgent and not any(each.waiting or each.running for each in self._urgent):
            self._hold_ends = asyncio.get_running_loop().time() + HOLD
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
        """Drops obsolete work that has not started; running work continues."""
        self._lanes[urgency].drop(key)
        self._changed.set()

    async def started(self) -> None:
        """Waits until the work that may start has begun."""
        self._pump()
        await asyncio.sleep(0)

    def limit(self, urgency: Urgency) -> int:
        """The number of items of a class that may be in flight."""
        return self._lanes[urgency].limit

    def backlog(self, urgency: Urgency) -> int:
        """The number of unfinished items of a class."""
        return self._lanes[urgency].size

    async def drain(self, urgencies: Collection[Urgency], timeout: float) -> bool:
        """Waits until these classes are empty, at most ``timeout`` seconds; returns whether they are. Does not wait for
        work that is retried later than that."""
        lanes = [self._lanes[urgency] for urgency in urgencies]
        end = asyncio.get_running_loop().time() + timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while any(lane.has_work_before(end) for lane in lanes):
                    self._changed.clear()
                    await self._changed.wait()
        return not any(lane.size for lane in lanes)

    async def close(self) -> None:
        """Drops waiting work and cancels running work."""
        self._slow_start.close()
        if self._hold_timer is not None:
            self._hold_timer.cancel()
        for lane in self._lanes.values():
            lane.waiting.clear()
            lane.after.clear()
            for timer in lane.delayed.values():
                timer.cancel()
            lane.delayed.clear()
        await cancel(*self._tasks)

    def _wake(self) -> None:
        """Starts work at the end of this iteration of the loop, after everything submitted together has been queued."""
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while (started := self._next()) is not None:
            task = asyncio.create_task(self._run(*started))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> tuple[_Lane, Hashable, Work] | None:
        """The work to start now, marked as running; None if there is none, or its class has reached its limit, or that
        of a burst is reached."""
        urgent_running = any(lane.running for lane in self._urgent)
        for lane in self._lanes.values():
            if lane.waiting:
                if len(lane.running) >= (lane.beside if urgent_running else lane.limit):
                    return None
                if urgent_running and lane not in self._urgent and self._holds():
                    return None
                if not self._slow_start.allows(sum(len(each.running) for each in self._lanes.values())):
                    return None
                key, work = lane.waiting.popitem(last=False)
                lane.running.add(key)
                return lane, key, work
        return None

    def _holds(self) -> bool:
        """Whether statuses and Events still wait for the urgent work in flight."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._hold_ends:
            return False
        if self._hold_timer is None:
            self._hold_timer = loop.call_at(self._hold_ends + EARLY, self._release)
        return True

    def _release(self) -> None:
        self._hold_timer = None
        self._pump()

    async def _run(self, lane: _Lane, key: Hashable, work: Work) -> None:
        """Does work, and then what waits: a task for each would cost more than many a request."""
        started: tuple[_Lane, Hashable, Work] | None = (lane, key, work)
        while started is not None:
            await self._do(*started)
            if self._slow_start.answered():
                self._wake()
            started = self._next()
        self._wake()  # the limits of other classes may have risen

    async def _do(self, lane: _Lane, key: Hashable, work: Work) -> None:
        retry_after: float | None = None
        try:
            retry_after = await work()
        except Exception:
            log.exception("work raised an exception and was dropped", key=str(key))
        finally:
            lane.running.discard(key)
            newer = lane.after.pop(key, None)
            if newer is not None:
                lane.waiting[key] = newer
            elif retry_after is not None:
                lane.delayed[key] = asyncio.get_running_loop().call_later(retry_after, self._requeue, lane, key, work)
            self._changed.set()

    def _requeue(self, lane: _Lane, key: Hashable, work: Work) -> None:
        lane.delayed.pop(key, None)
        lane.waiting[key] = work
        self._wake()


def make_lanes(placements: int, metrics: RoleMetrics | None = None) -> Lanes:
    """The lanes of a role. ``placements``: bindings and evictions in flight, each. Fewer admissions may be in flight: a
    gang is bound when its victims have terminated, which is when their PodGroups are admitted again.
    ``Writer.overloaded`` bounds how many bindings and evictions wait; the number of objects bounds admissions and
    statuses; Events that arrive too fast are dropped. ``metrics`` show the number of writes in each."""
    lanes = Lanes(
        {
            Urgency.BINDING: placements,
            Urgency.EVICTION: placements,
            Urgency.ADMISSION: min(16, placements),
            Urgency.STATUS: 16,
            Urgency.EVENT: 8,
        },
        {Urgency.STATUS: 8, Urgency.EVENT: 4},
        {**dict.fromkeys(URGENT, _LIMITLESS), Urgency.STATUS: 100_000, Urgency.EVENT: 20_000},
    )
    if metrics is not None:
        for urgency in Urgency:
            metrics.writes_waiting.labels(urgency.name.lower()).set_function(partial(lanes.backlog, urgency))
    return lanes
