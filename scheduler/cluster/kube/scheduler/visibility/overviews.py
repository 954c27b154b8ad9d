"""The latest overview of the cluster for the web page, taken only while a page is open.

The leader takes it from its sessions, at most once a second and in at most a tenth of the time. A standby runs no
sessions, so it starts a process that lists the cluster and runs one in memory, as for other questions.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from scheduler.cluster.kube.scheduler.visibility.answers import BusyError
from scheduler.framework.session import Session
from scheduler.observability.overview import Overview

SPACING: Final = 1.0
"""Least number of seconds between two overviews of sessions."""
SHARE: Final = 10
"""An overview that takes a second is followed by none for this number of seconds."""
LISTED: Final = 5.0
"""Seconds between two overviews of a standby, beside the pauses after each process."""
_CHECK: Final = 0.5
"""Seconds between two checks whether this process stands by."""
log = structlog.get_logger(__name__)


class Overviews:
    """Belongs to one event loop."""

    def __init__(
        self,
        take: Callable[[Session], Overview],
        list_cluster: Callable[[], Awaitable[Overview | None]],
        standing_by: Callable[[], bool],
        *,
        listed: float = LISTED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``list_cluster``: the overview of a standby, None if there is none; may raise BusyError."""
        self._take = take
        self._list_cluster = list_cluster
        self._standing_by = standing_by
        self._listed = listed
        self._clock = clock
        self.viewers = 0
        """Open pages."""
        self._due = float("-inf")
        self._standby: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._latest: Overview | None = None
        """None: none has been taken since a page was opened."""
        self._version = 0

    @property
    def awaited(self) -> bool:
        """Whether a viewer waits for a session because there is no overview yet."""
        return self.viewers > 0 and self._latest is None

    @asynccontextmanager
    async def viewing(self) -> AsyncIterator[None]:
        """Overviews are taken meanwhile."""
        self.viewers += 1
        if self._standby is None:
            self._standby = asyncio.create_task(self._while_standing_by())
        try:
            yield
        finally:
            self.viewers -= 1
            if not self.viewers:
                self._latest = None  # the next viewer does not begin with an old one
                standby, self._standby = self._standby, None
                if standby is not None:
                    standby.cancel()
                    with suppress(asyncio.CancelledError):
                        await standby

    async def newer(self, than: int, timeout: float) -> tuple[int, Overview | None]:
        """Waits for an overview with a version greater than ``than`` (0: any). Returns it with its version, or None
        after ``timeout`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._latest is None or self._version <= than:
                    await self._changed.wait()
                return self._version, self._latest
        return than, None

    async def session_ended(self, session: Session) -> None:
        """Takes the overview of a session, before it is released, if there is a viewer and it is time."""
        if not self.viewers or self._clock() < self._due:
            return
        began = self._clock()
        try:
            self.publish(await asyncio.to_thread(self._take, session))
        except Exception:  # scheduling does not depend on it
            log.exception("no overview was taken of a session")
        now = self._clock()
        self._due = now + max(SPACING, SHARE * (now - began))

    def publish(self, overview: Overview) -> None:
        """Gives an overview to all viewers."""
        self._latest = overview
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _while_standing_by(self) -> None:
        while True:
            if not self._standing_by():
                await asyncio.sleep(_CHECK)
                continue
            try:
                overview = await self._list_cluster()
                if overview is not None and self._standing_by():
                    self.publish(overview)
            except BusyError as error:
                log.info("the overview of a standby is late", why=str(error))
            except Exception:
                log.exception("a standby has no overview")
            await asyncio.sleep(self._listed)
