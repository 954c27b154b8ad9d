"""Answers to questions about the cluster, each from a process of its own.

To explain a job takes seconds of processor time and the memory of a second cluster. A separate process keeps that away
from the scheduler: its sessions are not slowed down, and a process that takes too long or too much ends without it. One
process runs at a time, and after it there is a pause as long as it ran, at most ten seconds. The next process starts in
this pause: it loads its modules, which takes a fifth of the time of an answer, and waits for a question.

Namespaces take turns. A namespace with many questions cannot keep others from asking: if all places are taken, a
question of a namespace with fewer of them takes the place of the last one of the namespace with the most.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
import structlog

from scheduler.api.fair_queue import FairQueue
from scheduler.api.names import OVERVIEW, REVIEW
from scheduler.cluster.kube.scheduler.visibility.user import RefusedError

KEEP: Final = 10.0
"""Seconds for which the figures of the queues are kept."""
WAITING: Final = 16
"""Questions that may wait for an answer, with the one that is being answered."""
TIMEOUT: Final = 50.0
"""Seconds for an answer, with the wait for the turn: API servers give up after 60."""
MAX_PAUSE: Final = 10.0
"""Seconds."""
READY: Final = 600.0
"""Seconds after an answer for which a process waits for the next question."""
MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of an answer."""
_CHUNK: Final = 64 * 1024
log = structlog.get_logger(__name__)


class BusyError(RefusedError):
    """Too many questions wait, or the answer takes too long."""

    def __init__(self, message: str, retry_after: float) -> None:
        """``retry_after``: seconds."""
        super().__init__(503, message, retry_after)


class Turns:
    """Belongs to one event loop."""

    def __init__(self, places: int, retry_after: float) -> None:
        """``places``: questions that wait or are being answered; ``retry_after``: seconds, for the others."""
        self._places = places
        self._retry_after = retry_after
        self._taken = False
        """Whether a question is being answered."""
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Waits for the turn of a question about a namespace, and has it for the duration of the block. Raises
        BusyError if there is no place for the question, or if it loses its place to another namespace."""
        if self._taken:
            await self._wait(namespace)
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, namespace: str) -> None:
        if 1 + len(self._waiting) >= self._places:
            self._make_room(namespace)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(KeyError):  # it has been taken out meanwhile
                    self._waiting.remove(namespace, turn)
            elif turn.exception() is None:  # it came at the same moment
                self._pass_on()
            raise

    def _make_room(self, namespace: str) -> None:
        """Refuses a waiting question of the namespace with the most, or raises BusyError if this one has as many."""
        busy = BusyError(f"{1 + len(self._waiting)} questions wait for an answer", self._retry_after)
        if not self._waiting:
            raise busy
        longest = self._waiting.longest()
        if self._waiting.count(longest) <= self._waiting.count(namespace) + 1:
            raise busy
        refused = self._waiting.take_last(longest)
        if not refused.cancelled():
            refused.set_exception(busy)

    def _pass_on(self) -> None:
        """Gives the turn to the next question."""
        while self._waiting:
            turn = self._waiting.take()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._taken = False


class WorkerAnswer(msgspec.Struct):
    """The answer of a process."""

    status: int = 500
    """The HTTP status code."""
    message: str = ""
    """Why there is no body."""
    body: msgspec.Raw = msgspec.Raw(b"{}")
    trace: str = ""
    """The traceback of an unexpected error, for the log."""


class Worker(msgspec.Struct, frozen=True):
    """The program that answers: it reads a question (JSON) from its input and writes an ``WorkerAnswer`` (JSON)."""

    command: Sequence[str]
    settings: dict[str, Any]
    """Fields of every question: where the cluster is, and how its scheduler is configured."""


class WorkerAnswers:
    """Belongs to one event loop."""

    def __init__(
        self,
        worker: Worker,
        *,
        timeout: float = TIMEOUT,
        ready: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``ready``: seconds for which a process waits for the next question; 0: it starts with the question."""
        self._worker = worker
        self._ready_for = ready
        self._ready: asyncio.Task[asyncio.subprocess.Process] | None = None
        """Starts the process that waits for a question."""
        self._ending: asyncio.Task[None] | None = None
        """Ends a process for which no question came in time."""
        self._timeout = timeout
        self._clock = clock
        self._turns = Turns(WAITING, retry_after=timeout)
        self._rest_until = float("-inf")
        self._queues: dict[str, msgspec.Raw] = {}
        """Namespace -> the figures of its queues."""
        self._queues_at = float("-inf")

    async def close(self) -> None:
        """Ends the process that waits for a question."""
        ready, self._ready = self._ready, None
        if ready is not None:
            await self._end_ready(ready)

    async def explain(self, kind: str, namespace: str, name: str) -> WorkerAnswer:
        """Why a Pod, PodGroup or workload waits. Raises BusyError."""
        return await self._in_turn(namespace, lambda: self._ask({"kind": kind, "namespace": namespace, "name": name}))

    async def review(self, namespace: str, objects: str) -> WorkerAnswer:
        """Whether objects (JSON) would run if they were submitted to a namespace. Raises BusyError."""
        question = {"kind": REVIEW, "namespace": namespace, "objects": objects}
        return await self._in_turn(namespace, lambda: self._ask(question))

    async def queues(self, namespace: str, nothing: bytes) -> WorkerAnswer:
        """The queues of a namespace and the positions of its jobs there, at most ``KEEP`` seconds old. ``nothing``: the
        body if it has no jobs. Raises BusyError."""
        if self._clock() - self._queues_at > KEEP:
            answer = await self._in_turn(namespace, self._refresh)
            if answer.status != 200:
                return answer
        return WorkerAnswer(200, body=self._queues.get(namespace, msgspec.Raw(nothing)))

    async def overview(self) -> WorkerAnswer:
        """The overview for the web page, from a list of the cluster. Raises BusyError."""
        return await self._in_turn("", lambda: self._ask({"kind": OVERVIEW}))

    async def _refresh(self) -> WorkerAnswer:
        if self._clock() - self._queues_at <= KEEP:  # another question has refreshed them meanwhile
            return WorkerAnswer(200)
        answer = await self._ask({})
        if answer.status == 200:
            self._queues = msgspec.json.decode(answer.body, type=dict[str, msgspec.Raw])
            self._queues_at = self._clock()
        return answer

    async def _in_turn(self, namespace: str, work: Callable[[], Awaitable[WorkerAnswer]]) -> WorkerAnswer:
        """Waits until no other question is worked on and it is the turn of the namespace. Raises BusyError."""
        try:
            async with asyncio.timeout(self._timeout), self._turns.turn(namespace):
                return await work()
        except TimeoutError:
            raise BusyError(f"no answer within {self._timeout:g} s", self._timeout) from None

    async def _ask(self, question: dict[str, str]) -> WorkerAnswer:
        """Runs the process, after the pause that the last one calls for."""
        await asyncio.sleep(max(0.0, self._rest_until - self._clock()))
        began = self._clock()
        try:
            return await self._run(msgspec.json.encode({**self._worker.settings, **question}))
        finally:
            now = self._clock()
            self._rest_until = now + min(now - began, MAX_PAUSE)
            if self._ready_for and self._ready is None:
                self._ready = asyncio.create_task(self._start())
                asyncio.get_running_loop().call_later(self._ready_for, self._expire, self._ready)

    def _expire(self, ready: "asyncio.Task[asyncio.subprocess.Process]") -> None:
        """Ends the process that waits for a question, unless it has got one."""
        if self._ready is ready:
            self._ready = None
            self._ending = asyncio.create_task(self._end_ready(ready))

    @staticmethod
    async def _end_ready(ready: "asyncio.Task[asyncio.subprocess.Process]") -> None:
        with suppress(OSError):
            await _end(await ready)

    async def _take(self) -> asyncio.subprocess.Process:
        """Returns the process that waits for a question, or starts one. Raises OSError."""
        ready, self._ready = self._ready, None
        if ready is not None:
            try:
                process = await asyncio.shield(ready)
                if process.returncode is None:
                    return process
            except OSError:  # it may succeed now
                pass
            except asyncio.CancelledError:
                self._ready = ready
                raise
        return await self._start()

    async def _start(self) -> asyncio.subprocess.Process:
        """Raises OSError."""
        return await asyncio.create_subprocess_exec(
            *self._worker.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )

    async def _run(self, question: bytes) -> WorkerAnswer:
        try:
            process = await self._take()
        except OSError as error:
            log.warning("no process could be started to answer a question", error=str(error))
            return WorkerAnswer(503, "no process could be started to answer")
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(ConnectionError, RuntimeError):  # RuntimeError: uvloop's, for a pipe that is closed
                process.stdin.write(question)
                await process.stdin.drain()
                process.stdin.close()
            written = bytearray()
            while chunk := await process.stdout.read(_CHUNK):
                written += chunk
                if len(written) > MAX_ANSWER:
                    return WorkerAnswer(500, f"the answer has more than {MAX_ANSWER} bytes")
            code = await process.wait()
        finally:
            await _end(process)
        try:
            answer = msgspec.json.decode(written, type=WorkerAnswer)
        except msgspec.MsgspecError:
            log.warning("a question about the cluster was not answered", code=code)
            return WorkerAnswer(500, f"the process that answers ended with code {code}")
        if answer.trace:
            log.error("a question about the cluster failed", trace=answer.trace)
        return answer


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills a process, with its children, that has not ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
