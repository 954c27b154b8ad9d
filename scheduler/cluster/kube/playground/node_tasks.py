"""Work on nodes: one task at a time for each node, a limited number of nodes at once."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from scheduler.cluster.kube.playground.writes import Progress
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS

RETRY_SECONDS = 2.0
log = structlog.get_logger(__name__)


class NodeTasks:
    """Runs ``work`` for each node that was added; again if it was added in the meantime. A failure is reported to
    ``progress`` and retried after ``RETRY_SECONDS``. Belongs to one event loop."""

    def __init__(self, work: Callable[[str], Awaitable[None]], at_once: int, progress: Progress) -> None:
        self._work = work
        self._progress = progress
        self._slots = asyncio.Semaphore(at_once)
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, node: str) -> None:
        """Has the node handled, after those that were added before."""
        self._due[node] = None
        self._wake.set()

    def add_after(self, node: str, seconds: float) -> None:
        """Adds the node later. An earlier time that is set already stays."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(node)
        if timer is not None and not timer.cancelled() and loop.time() < timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[node] = loop.call_later(seconds, self.add, node)

    async def run(self) -> None:
        """Handles nodes until it is cancelled."""
        try:
            while True:
                self._wake.clear()
                for node in [node for node in self._due if node not in self._tasks]:
                    del self._due[node]
                    self._tasks[node] = asyncio.create_task(self._handle(node))
                await self._wake.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await cancel(*self._tasks.values())

    async def _handle(self, node: str) -> None:
        try:
            async with self._slots:
                await self._work(node)
        except REQUEST_ERRORS as error:
            self._progress("error", node, str(error))
            self.add_after(node, RETRY_SECONDS)
        except Exception as error:  # one node must not stop the others
            log.exception("simulated node failed", node=node)
            self._progress("error", node, f"{type(error).__name__}: {error}")
            self.add_after(node, RETRY_SECONDS)
        finally:
            del self._tasks[node]
            self._wake.set()
