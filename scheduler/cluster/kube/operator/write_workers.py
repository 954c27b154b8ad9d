"""A few workers carry out all writes: at most so many are in flight, in order of importance.

New Pods go first, because they end the wait of a job that has been admitted, but every fourth write is another one: a
job with thousands of Pods does not hold up the first write of a small one. Deferrable writes come last.

A worker is a task. It goes on with the next write that waits, so that job takes as many tasks as there are writes in
flight.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from itertools import cycle

import structlog

from scheduler.cluster.kube.write.slow_start import SlowStart

Write = Callable[[], Awaitable[None]]
"""Carries out a write and reports its outcome."""
_NEW_PODS_IN_A_ROW = 3
log = structlog.get_logger(__name__)


class Urgency(Enum):
    """Kinds of writes."""

    NEW_POD = 0
    OTHER = 1
    DEFERRABLE = 2


class WriteWorkers:
    """Belongs to one event loop."""

    def __init__(self, number: int) -> None:
        """``number``: writes in flight."""
        self._number = number
        self._waiting: dict[Urgency, deque[Write]] = {urgency: deque() for urgency in Urgency}
        new_pods, others, deferrable = self._waiting.values()
        self._turns = cycle([(new_pods, others, deferrable)] * _NEW_PODS_IN_A_ROW + [(others, new_pods, deferrable)])
        """In which order the queues are searched for the next write."""
        self._slow_start = SlowStart(self._add_workers_for_all)
        self._working = 0
        """Workers that will look for another write; a task ends a little later."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(self, write: Write, urgency: Urgency) -> None:
        """Queues a write."""
        if self._closed:
            return
        self._waiting[urgency].append(write)
        self._add_workers(1)

    async def close(self) -> None:
        """Drops the writes that wait and cancels those in flight."""
        self._closed = True
        self._slow_start.close()
        for waiting in self._waiting.values():
            waiting.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        while (write := self._next()) is not None:
            try:
                await write()
            except Exception:
                log.exception("a write raised an exception")
        self._working -= 1

    def _next(self) -> Write | None:
        for waiting in next(self._turns):
            if waiting:
                return waiting.popleft()
        return None
