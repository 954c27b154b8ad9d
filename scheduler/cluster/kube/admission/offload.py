"""Large reviews, off the event loop: a queue of them before one worker process.

To decode a large review, to decide on it and to free it takes many milliseconds of calls that hold the interpreter
lock, so a thread would not help. The process is started when a large review comes and ends when none has come for a
while, which gives its memory back. When it dies, the review that it was working on fails, and those that wait go to the
next process.
"""

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import Outcome
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.view import WatchedView
from scheduler.cluster.kube.admission.worker_process import COMMAND, WorkerError, WorkerProcess
from scheduler.webhooks.contract import Settings

SMALL: Final = 32 * 1024
"""Bytes of a review that the event loop decides on itself."""
FEW: Final = 512
"""JSON objects in such a review: work grows with them more than with bytes."""
MOST: Final = 32
"""Reviews that may wait."""
SECONDS: Final = 10.0
"""For one decision; API servers wait as long, unless the webhook configuration says otherwise."""
IDLE: Final = 60.0
"""Seconds without a large review after which the worker process ends."""
log = structlog.get_logger(__name__)


def is_small(body: bytes) -> bool:
    """Whether a decision takes a few milliseconds at most."""
    return len(body) <= SMALL and body.count(b"{") <= FEW


class BusyError(Exception):
    """Too many reviews wait."""


@dataclass(order=True, slots=True)
class _Waiting:
    """The smallest is next, and of two that are equal the first."""

    size: int
    number: int
    done: asyncio.Future[Outcome]
    path: str
    body: bytes
    read: list[Queue]
    settings: Settings


class Offload:
    """For one event loop. ``close`` when no more reviews come."""

    def __init__(
        self,
        view: WatchedView,
        *,
        most: int = MOST,
        seconds: float = SECONDS,
        idle: float = IDLE,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._view = view
        self._most = most
        self._seconds = seconds
        self._idle = idle
        self._command = command
        self._waiting: list[_Waiting] = []
        self._number = count()
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.worker: WorkerProcess | None = None
        self.deciding = False
        """Whether the worker process has a review."""

    async def decide(self, path: str, body: bytes, read: Iterable[Queue], settings: Settings) -> Outcome:
        """Raises ReviewError, BusyError and WorkerError."""
        if len(self._waiting) >= self._most:
            raise BusyError(f"{self._most} large reviews wait already")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()
        waiting = _Waiting(len(body), next(self._number), done, path, body, list(read), settings)
        heapq.heappush(self._waiting, waiting)
        self._came.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await done

    async def close(self) -> None:
        """End the worker process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end()
        for each in self._waiting:
            each.done.cancel()

    async def _work(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._idle if self.worker else None):
                    await self._came.wait()
            except TimeoutError:
                await self._end()
                continue
            each = heapq.heappop(self._waiting)
            if not self._waiting:
                self._came.clear()
            if not each.done.done():  # else its client has gone
                self.deciding = True
                await self._serve(each)
                self.deciding = False
            del each  # its body is not kept until the next one comes

    async def _serve(self, each: _Waiting) -> None:
        outcome: Outcome | Exception
        try:
            outcome = await self._decided(each)
        except asyncio.CancelledError:
            each.done.cancel()
            raise
        except ReviewError as error:
            outcome = error
        except Exception as error:  # the next review gets another process
            outcome = error if isinstance(error, WorkerError) else WorkerError(f"{type(error).__name__}: {error}")
            log.warning("the worker process failed", path=each.path, size=each.size, error=str(outcome))
            await self._end(kill=True)
        if each.done.done():
            return
        if isinstance(outcome, Exception):
            each.done.set_exception(outcome)
        else:
            each.done.set_result(outcome)

    async def _decided(self, each: _Waiting) -> Outcome:
        if self.worker is not None and self.worker.ended:
            await self._end()
        if self.worker is None:
            self.worker = await WorkerProcess.start(self._view, self._command)
        return await self.worker.decide(each.path, each.body, each.read, each.settings, self._seconds)

    async def _end(self, *, kill: bool = False) -> None:
        if self.worker is not None:
            if kill:
                self.worker.kill()
            await self.worker.end()
            self.worker = None
