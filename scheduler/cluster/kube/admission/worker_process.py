"""The server's handle of the worker process: starts it, updates its copy of the cluster, and stops it."""

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
from scheduler.cluster.kube.admission.decision import ReviewOutcome, WatchedView
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.worker import (
    LENGTH_BYTES,
    InvalidReview,
    ObjectChanges,
    OutOfMemory,
    Review,
    SettingsChange,
    decode_reply,
    encode,
)
from scheduler.webhooks.contract import WebhookSettings

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.cluster.kube.admission.worker")
MEBIBYTE: Final = 2**20
BATCH_SIZE: Final = 100
"""Objects that are encoded before the event loop runs other tasks."""
EXIT_TIMEOUT: Final = 2.0
"""Seconds for the process to exit after its input is closed."""
log = structlog.get_logger(__name__)


class WorkerError(Exception):
    """The worker process could not decide on a review."""


class WorkerProcess:
    """Belongs to one event loop and decides on one review at a time. Call ``stop`` after a WorkerError."""

    def __init__(self, process: asyncio.subprocess.Process, view: WatchedView) -> None:
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a worker process without pipes")
        self._requests, self._replies = process.stdin, process.stdout
        self._view = view
        self._changed = view.track_changes()
        self._settings: WebhookSettings | None = None

    @classmethod
    async def start(cls, view: WatchedView, command: Sequence[str] = COMMAND) -> "WorkerProcess":
        """Starts a worker process. Raises WorkerError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MEBIBYTE,
                # Each thread of numpy's linear algebra, which the worker does not use, would reserve memory.
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
    def exited(self) -> bool:
        return self._process.returncode is not None

    async def decide(
        self, path: str, body: bytes, read: Iterable[Queue], settings: WebhookSettings, seconds: float
    ) -> ReviewOutcome:
        """Sends a review and waits for the decision. Raises ReviewError and WorkerError."""
        try:
            async with asyncio.timeout(seconds):
                await self._send_updates(settings)
                await self._send(Review(path, body, list(read)))
                length = int.from_bytes(await self._replies.readexactly(LENGTH_BYTES))
                reply: ReviewOutcome | InvalidReview | OutOfMemory = decode_reply(
                    await self._replies.readexactly(length)
                )
        except TimeoutError:
            raise WorkerError(f"the worker process came to no decision within {seconds:g} s") from None
        except (ConnectionError, EOFError, RuntimeError):  # RuntimeError: uvloop's, for a pipe that is closed
            await self._raise_exit_error()
        except msgspec.MsgspecError as error:
            raise WorkerError(f"the worker process gave an answer that cannot be read: {error}") from None
        if isinstance(reply, InvalidReview):
            raise ReviewError(reply.reason)
        if isinstance(reply, OutOfMemory):
            text = f"a decision on {len(body)} bytes needs more than the {reply.limit // MEBIBYTE} MiB"
            raise WorkerError(f"{text} of memory that the worker process may use")
        return reply

    async def stop(self) -> None:
        """Closes its input and waits for it to exit; kills it if it does not."""
        self._view.stop_tracking()
        await self._wait_for_exit()
        log.info("worker process exited", pid=self.pid, code=self._process.returncode)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _wait_for_exit(self) -> int:
        """Returns the exit code, or the negative number of the signal that killed the process."""
        self._requests.close()
        try:
            async with asyncio.timeout(EXIT_TIMEOUT):
                await self._drain()
        except TimeoutError:
            self.kill()
            await self._drain()
        return self._process.returncode or 0

    async def _drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._replies.read(MEBIBYTE):  # asyncio also waits for the end of the pipe
                pass
        await self._process.wait()

    async def _raise_exit_error(self) -> NoReturn:
        code = await self._wait_for_exit()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise WorkerError(f"the worker process {how}")

    async def _send_updates(self, settings: WebhookSettings) -> None:
        """Sends the changes since the last review."""
        if settings is not self._settings:
            await self._send(SettingsChange(settings))
            self._settings = settings
        while self._changed:
            changes = ObjectChanges()
            for _ in range(min(BATCH_SIZE, len(self._changed))):
                self._add(changes, *self._changed.pop())
            await self._send(changes)
            await asyncio.sleep(0)

    def _add(self, changes: ObjectChanges, kind: str, name: str) -> None:
        if kind == QUEUE.name and (queue := self._view.queue(name)):
            changes.queues.append(queue)
        elif kind != QUEUE.name and (namespace := self._view.namespace(name)):
            changes.namespaces.append(namespace)
        else:
            changes.deleted.append((kind, name))

    async def _send(self, message: SettingsChange | ObjectChanges | Review) -> None:
        content = encode(message)
        self._requests.write(len(content).to_bytes(LENGTH_BYTES))
        self._requests.write(content)
        await self._requests.drain()
