"""Answers to questions about the cluster, from a process of its own.

To explain a job takes processor time and the memory of a second cluster. A separate process keeps that away from the
scheduler: its sessions are not slowed down, and an answer that takes too long or too much ends without it. The process
keeps a copy of the cluster and follows its changes. It answers one question at a time, each in a child process on the
copy, and after it there is a pause as long as the answer took, at most ten seconds.

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
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.scheduler.visibility.user import RefusedError

KEEP: Final = 10.0
"""Seconds for which the figures of the queues are kept."""
WAITING: Final = 16
"""Questions that may wait for an answer, with the one that is being answered."""
TIMEOUT: Final = 50.0
"""Seconds for an answer, with the wait for the turn: API servers give up after 60."""
MAX_PAUSE: Final = 10.0
"""Seconds."""
SILENT: Final = 120.0
"""Seconds after a question without any answer, also to later ones, after which the process is killed. Until then it may
read a large cluster."""
MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of an answer."""
ABANDON: Final = signal.SIGUSR1
"""Ends the answer that the process computes: the client has given up the question."""
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
    number: int = 0
    """The number of the question."""


class Worker(msgspec.Struct, frozen=True):
    """The program that answers: it reads questions (JSON) from its input, a line each, and writes for each a line with
    an ``WorkerAnswer`` (JSON). The end of its input ends it."""

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._process: asyncio.subprocess.Process | None = None
        self._first: asyncio.Task[None] | None = None
        self._number = 0
        """Of the last question."""
        self._silent_since: float | None = None
        """When the first of the last questions without an answer was asked."""
        self._timeout = timeout
        self._clock = clock
        self._turns = Turns(WAITING, retry_after=timeout)
        self._rest_until = float("-inf")
        self._queues: dict[str, msgspec.Raw] = {}
        """Namespace -> the figures of its queues."""
        self._queues_at = float("-inf")

    def start(self) -> None:
        """Starts the process, so that it has its copy of the cluster before the first question."""
        self._first = asyncio.create_task(self._ask_first())

    async def _ask_first(self) -> None:
        with suppress(BusyError):
            await self._in_turn("", lambda: self._ask({}))

    async def close(self) -> None:
        """Ends the process."""
        if self._first is not None:
            await cancel(self._first)
        await self._end_process()

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
        """Asks the process, after the pause that the last question calls for."""
        await asyncio.sleep(max(0.0, self._rest_until - self._clock()))
        began = self._clock()
        try:
            return await self._run(question)
        finally:
            now = self._clock()
            self._rest_until = now + min(now - began, MAX_PAUSE)

    async def _end_process(self) -> None:
        """Kills the process, with its children."""
        process, self._process, self._silent_since = self._process, None, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())

    async def _running(self) -> asyncio.subprocess.Process:
        """Returns the process, which it starts if there is none. Raises OSError."""
        if self._process is None or self._process.returncode is not None:
            self._process = await self._start()
        return self._process

    async def _start(self) -> asyncio.subprocess.Process:
        """Raises OSError."""
        return await asyncio.create_subprocess_exec(
            *self._worker.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_ANSWER,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )

    async def _run(self, question: dict[str, str]) -> WorkerAnswer:
        try:
            process = await self._running()
        except OSError as error:
            log.warning("no process could be started to answer a question", error=str(error))
            return WorkerAnswer(503, "no process could be started to answer")
        self._number += 1
        if self._silent_since is None:
            self._silent_since = self._clock()
        asked = msgspec.json.encode({**self._worker.settings, **question, "number": self._number})
        try:
            answer = await self._exchange(process, asked)
        except asyncio.CancelledError:  # the client has gone, or it takes too long
            if self._clock() - self._silent_since > SILENT:
                await self._end_process()
            elif process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(ABANDON)
            raise
        if answer.trace:
            log.error("a question about the cluster failed", trace=answer.trace)
        return answer

    async def _exchange(self, process: asyncio.subprocess.Process, question: bytes) -> WorkerAnswer:
        """Sends a question and returns its answer. A process that fails is ended."""
        assert process.stdin is not None and process.stdout is not None
        with suppress(ConnectionError, RuntimeError):  # RuntimeError: uvloop's, for a pipe that is closed
            process.stdin.write(question + b"\n")
            await process.stdin.drain()
        problem, decoder = "", msgspec.json.Decoder(WorkerAnswer)
        while not problem:
            try:
                line = await process.stdout.readline()
                if line.endswith(b"\n"):
                    answer = decoder.decode(line)
                    if answer.number == self._number:  # else it is that of a question that was given up
                        self._silent_since = None
                        return answer
                    continue
                problem = f"the process that answers ended with code {await process.wait()}"
            except ValueError as error:  # also msgspec.MsgspecError
                problem = "the answer is malformed"
                if not isinstance(error, msgspec.MsgspecError):
                    problem = f"the answer has more than {MAX_ANSWER} bytes"
        log.warning("a question about the cluster was not answered", problem=problem)
        await self._end_process()
        return WorkerAnswer(500, problem)
