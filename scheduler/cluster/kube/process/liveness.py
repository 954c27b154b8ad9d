"""Whether a role makes progress, which ``/healthz`` answers.

A role starts, stands by, leads or serves, and stops; it is always in one of these phases. Each phase has a limit: the
seconds that may pass without progress. A process that exceeds it hangs, answers 503 with the reason, and its liveness
probe restarts it. Stopping ends with the process, so nothing counts as progress there: a process that lost the lease
and does not exit is restarted too. Work that may take longer than the limit, such as a session, is watched: as long as
what it has done grows, it makes progress. A restart would not help: the next process would begin the same work again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from scheduler.cluster.kube.transport.fence import Fence

STUCK: Final = 120.0
"""Seconds without progress in any phase but the last."""
STOPPING: Final = 30.0
"""Seconds from the beginning to the end of stopping."""
EXPIRED: Final = 10.0
"""Seconds within which a leader notices that its lease has expired."""


WATCH_PERIOD: Final = 1.0
"""Seconds between two looks at work that is watched."""
LONGEST: Final = 3600.0
"""Seconds after which the growth of what some work has done is no progress any more: it may never end."""


class Phase(StrEnum):
    """The activity of a role."""

    STARTING = "starting"
    STANDING_BY = "standing by"
    LEADING = "leading"
    SERVING = "serving"
    STOPPING = "stopping"


class Liveness:
    """Belongs to one event loop; ``problem`` may be called in any thread. The phase is ``STARTING`` at first, and
    ``STOPPING`` is never left."""

    def __init__(
        self,
        fence: Fence | None = None,
        *,
        stopping: float = STOPPING,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``fence``: the fence of a role with leader election; ``stopping``: seconds that stopping may take."""
        self.phase = Phase.STARTING
        self._fence = fence
        self._stopping = stopping
        self._now = now
        self._at = now()

    def enter(self, phase: Phase) -> None:
        """Enters a phase."""
        if self.phase is not Phase.STOPPING:
            self.phase = phase
            self._at = self._now()

    def progress(self) -> None:
        """Records that the role has made progress."""
        if self.phase is not Phase.STOPPING:
            self._at = self._now()

    @asynccontextmanager
    async def watching(self, done: Callable[[], int]) -> AsyncIterator[None]:
        """Counts as progress what work on another thread does within the context. ``done``: how much it has done, a
        number that grows."""
        watch = asyncio.create_task(self._watch(done))
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self, done: Callable[[], int]) -> None:
        end, last = self._now() + LONGEST, done()
        while self._now() < end:
            await asyncio.sleep(WATCH_PERIOD)
            number = done()
            if number != last:
                last = number
                self.progress()

    def problem(self) -> str:
        """Why the process should be restarted, or ""."""
        silent = self._now() - self._at
        if self.phase is Phase.STOPPING:
            return f"stopping for {silent:.0f} s (limit {self._stopping:.0f} s)" if silent > self._stopping else ""
        if silent > STUCK:
            return f"{self.phase}: no progress for {silent:.0f} s (limit {STUCK:.0f} s)"
        expired = self._fence.expired() if self._fence is not None and self.phase is Phase.LEADING else 0.0
        if expired > EXPIRED:
            return f"leading without a lease: it was not renewed in time, {expired:.0f} s ago (limit {EXPIRED:.0f} s)"
        return ""
