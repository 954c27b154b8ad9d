"""Limits the writes in flight at the beginning of a burst.

A busy API server processes requests in the order of their arrival: each waits for all that are in flight before it,
however urgent it is. While few are in flight, the others wait here, where the most urgent one goes first, so that the
first Pods of many jobs are created and bound soon. Later in a burst more writes may be in flight, because then all of
them finish earlier: with 64 in flight, a write takes a fifth less processor time of the API server and etcd than with
8, since they wake up once for several of them.

Controllers, which create objects, wait for the end of ``DURATION``: an early creation makes others wait for its whole
job. The scheduler, which carries out decisions, reports each answer, and may have one more write in flight for each:
after the first answers, there are as many as the API server can take.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

FIRST: Final = 8
"""Writes in flight at the beginning of a burst: so many of the scheduler and of the controllers keep an API server with
four cores busy."""
DURATION: Final = 1.0
"""Seconds for which a burst is limited, and seconds with fewer writes in flight after which another burst begins."""
EARLY: Final = 0.01
"""Seconds by which a timer may be early."""


class SlowStart:
    """Belongs to one event loop."""

    def __init__(self, ended: Callable[[], None]) -> None:
        """``ended`` is called when the limit has ended, if it has held back a write. It starts the writes that wait."""
        self._ended = ended
        self._began = self._busy = -math.inf
        """When the burst began, and when as many writes as the limit allows were in flight last."""
        self._limit = FIRST
        """How many may be in flight."""
        self._timer: asyncio.TimerHandle | None = None
        """Waits for the end of the limit. None: no write is held back."""

    def allows(self, in_flight: int) -> bool:
        """Whether another write may start while ``in_flight`` others are in flight."""
        if in_flight < FIRST - 1:
            return True
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None and now - self._busy >= DURATION:
            self._began, self._limit = now, FIRST
        self._busy = now
        if in_flight < self._limit or now - self._began >= DURATION:
            return True
        if self._timer is None:
            self._timer = loop.call_at(self._began + DURATION + EARLY, self._end)
        return False

    def answered(self) -> bool:
        """A write has been answered. Returns whether one that was held back may start therefore."""
        if self._timer is None:
            return False
        self._limit += 1
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self._ended()
        self._timer = None
