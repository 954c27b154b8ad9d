"""The worker process as the server process sees it: starts it, keeps its copy of the cluster current, ends it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import msgspec
import structlog

from scheduler.api.kinds import QUEUE
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import Outcome
from scheduler.cluster.kube.admission.messages import (
    LENGTH,
    Changes,
    NoReview,
    OutOfMemory,
    Review,
    Rules,
    decode_reply,
    encode,
)
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.view import WatchedView
from scheduler.webhooks.contract import Settings

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.cluster.kube.admission.worker")
MEBIBYTE: Final = 2**20
BATCH: Final = 100
"""Objects that are encoded before the event loop does something else."""
ENDING: Final = 2.0
"""Seconds to exit once its input is closed."""
log = structlog.get_logger(__name__)


class WorkerError(Exception):
    """The worker process could not decide on a review."""


class WorkerProcess:
    """For one event loop, and one review at a time. After a WorkerError call ``end``."""

    def __init__(self, process: asyncio.subprocess.Process, view: WatchedView) -> None:
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a worker process without pipes")
        self._requests, self._replies = process.stdin, process.stdout
        self._view = view
        self._changed = view.follow()
        self._settings: Settings | None = None

    @classmethod
    async def start(cls, view: WatchedView, command: Sequence[str] = COMMAND) -> "WorkerProcess":
        """Raises WorkerError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MEBIBYTE,
                # The threads of numpy's linear algebra, which nothing here uses, would each reserve memory.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerError(f"the worker process could not be started: {error}") from None
        log.info("worker process started", pid=process.pid)
        return cls(process, view)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def decide(
        self, path: str, body: bytes, read: Iterable[Queue], settings: Settings, seconds: float
    ) -> Outcome:
        """Raises ReviewError and WorkerError."""
        try:
            async with asyncio.timeout(seconds):
                await self._update(settings)
                await self._send(Review(path, body, list(read)))
                length = int.from_bytes(await self._replies.readexactly(LENGTH))
                reply: Outcome | NoReview | OutOfMemory = decode_reply(await self._replies.readexactly(length))
        except TimeoutError:
            raise WorkerError(f"the worker process came to no decision within {seconds:g} s") from None
        except (ConnectionError, EOFError, RuntimeError):  # RuntimeError: uvloop's, for a pipe that is closed
            await self._fail()
        except msgspec.MsgspecError as error:
            raise WorkerError(f"the worker process gave an answer that cannot be read: {error}") from None
        if isinstance(reply, NoReview):
            raise ReviewError(reply.why)
        if isinstance(reply, OutOfMemory):
            text = f"a decision on {len(body)} bytes needs more than the {reply.limit // MEBIBYTE} MiB"
            raise WorkerError(f"{text} of memory that the worker process may use")
        return reply

    async def end(self) -> None:
        """Close its input, wait for it to exit, and kill it if it does not."""
        self._view.unfollow()
        await self._ended()
        log.info("worker process ended", pid=self.pid, code=self._process.returncode)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _ended(self) -> int:
        """Its exit code, or the signal that killed it as a negative number."""
        self._requests.close()
        try:
            async with asyncio.timeout(ENDING):
                await self._gone()
        except TimeoutError:
            self.kill()
            await self._gone()
        return self._process.returncode or 0

    async def _gone(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._replies.read(MEBIBYTE):  # asyncio waits for the end of the pipe, too
                pass
        await self._process.wait()

    async def _fail(self) -> NoReturn:
        code = await self._ended()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise WorkerError(f"the worker process {how}")

    async def _update(self, settings: Settings) -> None:
        """Send what has changed since the last review."""
        if settings is not self._settings:
            await self._send(Rules(settings))
            self._settings = settings
        while self._changed:
            changes = Changes()
            for _ in range(min(BATCH, len(self._changed))):
                self._add(changes, *self._changed.pop())
            await self._send(changes)
            await asyncio.sleep(0)

    def _add(self, changes: Changes, kind: str, name: str) -> None:
        if kind == QUEUE.name and (queue := self._view.queue(name)):
            changes.queues.append(queue)
        elif kind != QUEUE.name and (namespace := self._view.namespace(name)):
            changes.namespaces.append(namespace)
        else:
            changes.deleted.append((kind, name))

    async def _send(self, message: Rules | Changes | Review) -> None:
        content = encode(message)
        self._requests.write(len(content).to_bytes(LENGTH))
        self._requests.write(content)
        await self._requests.drain()
