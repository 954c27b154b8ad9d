"""Limits the rate of requests to the API server, orders the waiting requests, and spaces repeated attempts.

A token bucket (``qps`` refill, ``burst`` size) with priorities: a waiting binding takes the next token before any
waiting status, a status before any Event. Requests of leader election never wait.
"""

import asyncio
import heapq
import random
from enum import IntEnum
from itertools import count


class CallPriority(IntEnum):
    """Classes of calls, the most important first."""

    CONTROL = 0
    """Leader election: not limited."""
    WRITE = 1
    """Bindings and evictions."""
    READ = 2
    """Lists; a watch takes no token."""
    STATUS = 3
    """Status of PodGroups, Pods and Queues."""
    EVENT = 4

    @property
    def label(self) -> str:
        """The class in metrics."""
        return self.name.lower()


class RateLimiter:
    """Belongs to one event loop; not thread-safe."""

    def __init__(self, qps: float, burst: int) -> None:
        """``qps`` of 0 or less: no limit."""
        self._qps = qps
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._refilled: float | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, priority: CallPriority) -> None:
        """Waits for a token. A cancelled wait leaves the queue."""
        if self._qps <= 0 or priority is CallPriority.CONTROL:
            return
        loop = asyncio.get_running_loop()
        self._refill(loop.time())
        if not self._waiting and self._tokens >= 1:
            self._tokens -= 1
            return
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), future))
        self._serve()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the token came in the same moment: hand it on
                self._tokens += 1
                self._serve()
            raise

    def _refill(self, now: float) -> None:
        if self._refilled is not None:
            self._tokens = min(float(self._burst), self._tokens + (now - self._refilled) * self._qps)
        self._refilled = now

    def _serve(self) -> None:
        """Hands out the available tokens, most important first, and sets a timer for the next one."""
        loop = asyncio.get_running_loop()
        self._refill(loop.time())
        while self._waiting and (self._waiting[0][2].done() or self._tokens >= 1):
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                self._tokens -= 1
                future.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            # A little later than due: a timer that fires early would find the bucket a hair short of one token.
            self._timer = loop.call_later((1 - self._tokens) / self._qps + 0.0005, self._serve)


class Backoff:
    """Doubles from ``first`` to ``longest`` seconds, each time shortened at random by up to a half."""

    def __init__(self, first: float = 0.2, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    @property
    def failures(self) -> int:
        """Calls of ``next`` since the last ``reset``."""
        return self._failures

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait now. ``at_least``: the time that the server asked for (Retry-After)."""
        whole = min(self._longest, self._first * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return max(whole * random.uniform(0.5, 1.0), at_least or 0.0)

    def reset(self) -> None:
        """Starts from ``first`` again, after a success."""
        self._failures = 0
