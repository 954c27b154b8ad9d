"""A queue of large reviews and the worker process that decides on them, off the event loop.

Decoding a large review, deciding on it and freeing it takes many milliseconds in calls that hold the interpreter lock,
so a thread would not help. The process starts with the first large review and exits after a time without any, which
frees its memory. When it dies, the review that it was deciding fails, and a new process takes the queued reviews.
"""

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import ReviewOutcome, WatchedView
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.worker_process import COMMAND, WorkerError, WorkerProcess
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.webhooks.contract import WebhookSettings

MAX_INLINE_BYTES: Final = 32 * 1024
"""Bytes of a review that is decided on the event loop."""
MAX_INLINE_OBJECTS: Final = 512
"""JSON objects in such a review; the time of a decision depends on them more than on bytes."""
MAX_QUEUED: Final = 32
"""Reviews in the queue."""
DECISION_TIMEOUT: Final = 10.0
"""Seconds for a decision; the API server waits as long unless the webhook configuration sets another time-out."""
IDLE_TIMEOUT: Final = 60.0
"""Seconds without a large review after which the worker process exits."""
log = structlog.get_logger(__name__)


def is_small(body: bytes) -> bool:
    """Whether a decision takes a few milliseconds at most."""
    return len(body) <= MAX_INLINE_BYTES and body.count(b"{") <= MAX_INLINE_OBJECTS


class QueueFullError(Exception):
    """The queue is full."""


@dataclass(order=True, slots=True)
class _QueuedReview:
    """Ordered by size, and by arrival among equal sizes."""

    size: int
    number: int
    done: asyncio.Future[ReviewOutcome]
    path: str
    body: bytes
    read: list[Queue]
    settings: WebhookSettings


class ReviewQueue:
    """Belongs to one event loop. Call ``close`` after the last review."""

    def __init__(
        self,
        view: WatchedView,
        *,
        max_queued: int = MAX_QUEUED,
        timeout: float = DECISION_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._view = view
        self._max_queued = max_queued
        self._timeout = timeout
        self._idle_timeout = idle_timeout
        self._command = command
        self._queued: list[_QueuedReview] = []
        self._number = count()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.worker: WorkerProcess | None = None
        self.deciding = False
        """Whether the worker process is deciding on a review."""

    async def decide(self, path: str, body: bytes, read: Iterable[Queue], settings: WebhookSettings) -> ReviewOutcome:
        """Decides on a review in the worker process. Raises ReviewError, BusyError and WorkerError."""
        if len(self._queued) >= self._max_queued:
            raise QueueFullError(f"{self._max_queued} large reviews wait already")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ReviewOutcome] = loop.create_future()
        queued = _QueuedReview(len(body), next(self._number), done, path, body, list(read), settings)
        heapq.heappush(self._queued, queued)
        self._arrived.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await done

    async def close(self) -> None:
        """Stops the worker process and cancels the queued reviews."""
        if self._task is not None:
            await cancel(self._task)
        await self._stop_worker()
        for queued in self._queued:
            queued.done.cancel()

    async def _work(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._idle_timeout if self.worker else None):
                    await self._arrived.wait()
            except TimeoutError:
                await self._stop_worker()
                continue
            queued = heapq.heappop(self._queued)
            if not self._queued:
                self._arrived.clear()
            if not queued.done.done():  # otherwise its client has disconnected
                self.deciding = True
                await self._complete(queued)
                self.deciding = False
            del queued  # frees its body before the wait for the next review

    async def _complete(self, queued: _QueuedReview) -> None:
        outcome: ReviewOutcome | Exception
        try:
            outcome = await self._decide(queued)
        except asyncio.CancelledError:
            queued.done.cancel()
            raise
        except ReviewError as error:
            outcome = error
        except Exception as error:  # a new process takes the next review
            outcome = error if isinstance(error, WorkerError) else WorkerError(f"{type(error).__name__}: {error}")
            log.warning("the worker process failed", path=queued.path, size=queued.size, error=str(outcome))
            await self._stop_worker(kill=True)
        if queued.done.done():
            return
        if isinstance(outcome, Exception):
            queued.done.set_exception(outcome)
        else:
            queued.done.set_result(outcome)

    async def _decide(self, queued: _QueuedReview) -> ReviewOutcome:
        if self.worker is not None and self.worker.exited:
            await self._stop_worker()
        if self.worker is None:
            self.worker = await WorkerProcess.start(self._view, self._command)
        return await self.worker.decide(queued.path, queued.body, queued.read, queued.settings, self._timeout)

    async def _stop_worker(self, *, kill: bool = False) -> None:
        if self.worker is not None:
            if kill:
                self.worker.kill()
            await self.worker.stop()
            self.worker = None
