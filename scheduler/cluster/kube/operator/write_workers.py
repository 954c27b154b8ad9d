"""A few workers carry out all writes: at most so many are in flight, urgent ones before deferrable ones.

A worker is a task. It goes on with the next write that waits, so a job with thousands of Pods takes as many tasks as
there are writes in flight.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

Write = Callable[[], Awaitable[None]]
"""Carries out a write and reports its outcome."""
log = structlog.get_logger(__name__)


class WriteWorkers:
    """Belongs to one event loop."""

    def __init__(self, number: int) -> None:
        """``number``: writes in flight."""
        self._number = number
        self._urgent: deque[Write] = deque()
        self._deferrable: deque[Write] = deque()
        self._working = 0
        """Workers that will look for another write; a task ends a little later."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(self, write: Write, *, deferrable: bool = False) -> None:
        """Queues a write. A ``deferrable`` one starts when nothing else waits."""
        if self._closed:
            return
        (self._deferrable if deferrable else self._urgent).append(write)
        if self._working < self._number:
            self._working += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drops the writes that wait and cancels those in flight."""
        self._closed = True
        self._urgent.clear()
        self._deferrable.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while waiting := self._urgent or self._deferrable:
            try:
                await waiting.popleft()()
            except Exception:
                log.exception("a write raised an exception")
        self._working -= 1
