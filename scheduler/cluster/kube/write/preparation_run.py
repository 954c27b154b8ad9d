"""Prepares the other objects that bindings depend on, and waits for them, before any Pod of a gang is bound.

Preparations (``api.preparation``) compute what to write from the current object. A gang waits together: if one of its
Pods cannot be prepared, none is bound, and the writes are undone. Waiting occupies no worker and sends no request: the
current object comes from the cache, or from the server where the cache is known to be stale. The cache shows what other
programs have written, and receives the answers to our own writes before the watch does.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

import msgspec
import structlog

from scheduler.api.decisions import Bind
from scheduler.api.kinds import object_path
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.cluster.kube.transport.errors import ApiError, RequestError
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.lanes import Urgency
from scheduler.cluster.kube.write.object_writers import WriteContext

ATTEMPTS = 8
"""Failed requests in a row after which the preparation fails; conflicts do not count."""
UNDOING = 30.0
"""Seconds for undoing one write."""
log = structlog.get_logger(__name__)


class PreparationError(Exception):
    """A Pod cannot be prepared for its binding."""

    def __init__(self, bind: Bind, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.bind = bind
        self.gone = gone
        """The Pod is gone, or is no longer to be bound as decided: nothing is reported."""


class PreparationRun:
    """Runs one preparation, for a binding or for several that share it, and the preparations that follow from it."""

    def __init__(self, client: "Preparer", preparation: Preparation, bind: Bind) -> None:
        self.bind = bind
        self.at_binding = preparation.at_binding
        self._client = client
        self._preparation = preparation
        self._deadline: float | None = None
        self._sent: dict[int, Preparation] = {}
        """Preparations whose write may have taken effect, by identity."""
        self._accepted = False
        """A write of the current preparation has succeeded."""
        self._stale = not client.cache.stores(preparation.kind)
        """The cached object is out of date, or the cache does not keep its kind."""
        self._pause = Backoff(0.05, 1.0)
        self._failures = 0

    async def advance(self) -> float | None:
        """Takes all steps that are possible now. Returns the seconds to wait before the next call, or None when
        everything is prepared.

        Raises PreparationError, and Fenced if this process is no longer the leader.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + self._preparation.timeout
        try:
            found = await self._fetch()
            while True:
                step = self._next_step(found)
                if step is None:
                    return None
                if isinstance(step, Fail):
                    raise PreparationError(self.bind, step.message)
                if isinstance(step, Wait):
                    self._check_time(step.what)
                    return self._pause.next()
                if isinstance(step, Preparation):
                    self._go_on_with(step)
                    found = await self._fetch()
                elif found is None:
                    raise PreparationError(self.bind, f"{self._preparation} is gone")
                else:
                    self._check_time(f"{self._preparation} to be written")
                    found = await self._write(step, found)
                    self._accepted = True
                    self._pause.reset()
        except RequestError as error:
            return self._again(error)
        except DECODE_ERRORS as error:
            raise PreparationError(self.bind, f"{self._preparation} cannot be read: {error}") from None

    async def undo(self) -> None:
        """Undoes the writes as far as possible. Raises nothing."""
        for preparation in reversed(list(self._sent.values())):
            self._go_on_with(preparation)
            self._deadline = time.monotonic() + UNDOING
            while (seconds := await self._undo()) is not None:
                await asyncio.sleep(seconds)
        self._sent.clear()

    async def _undo(self) -> float | None:
        """Tries to undo the current preparation. Returns the seconds to wait before the next attempt, or None when
        done."""
        preparation = self._preparation
        try:
            found = await self._fetch()
            patch = None if found is None else preparation.undo(found, time.time())
            if patch is not None and found is not None:
                await self._write(patch, found)
        except RequestError as error:
            try:
                return self._again(error)
            except PreparationError:
                log.warning("write could not be undone", object=str(preparation), error=str(error))
        except (Fenced, *DECODE_ERRORS) as error:
            log.warning("write was not undone", object=str(preparation), error=str(error))
        return None

    def _next_step(self, found: KubeObject | None) -> Step:
        """Computes the next step. Raises PreparationError for any exception: a binding must not hang."""
        preparation = self._preparation
        ask = preparation.follow_up if self._accepted else preparation.step
        try:
            return ask(found, time.time())
        except Exception as error:
            log.exception("preparation raised an exception", object=str(preparation))
            raise PreparationError(self.bind, f"{preparation}: {type(error).__name__}: {error}") from error

    def _go_on_with(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._accepted = False
        self._failures = 0
        self._stale = not self._client.cache.stores(preparation.kind)

    def _check_time(self, what: str) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise PreparationError(self.bind, f"timed out after {self._preparation.timeout:g} s waiting for {what}")

    def _again(self, error: RequestError) -> float:
        """Returns the seconds until the next attempt, after an error. Raises PreparationError."""
        conflict = error.status in (404, 409)
        self._failures += not conflict
        if not (conflict or error.transient) or self._failures >= ATTEMPTS:
            raise PreparationError(self.bind, f"{self._preparation}: {error}")
        self._stale = True
        self._check_time(f"{self._preparation} to be written, last answered {error}")
        return self._pause.next(error.retry_after)

    async def _fetch(self) -> KubeObject | None:
        """The current object, from the cache unless that is stale or does not keep the kind."""
        client, preparation = self._client, self._preparation
        if not self._stale:
            return client.cache.find(preparation.kind, preparation.namespace, preparation.name)
        try:
            body = await client.request("GET", self._path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        self._stale = not client.cache.stores(preparation.kind)
        return self._received(body)

    async def _write(self, patch: PreparationPatch, found: KubeObject) -> KubeObject:
        self._sent[id(self._preparation)] = self._preparation
        path = f"{self._path}/{patch.subresource}" if patch.subresource else self._path
        content_type = STRATEGIC_MERGE_PATCH if patch.strategic else MERGE_PATCH
        body = await self._client.request("PATCH", path, bodies.exactly(patch, found), content_type)
        self._failures = 0
        return self._received(body)

    def _received(self, body: bytes) -> KubeObject:
        """Decodes an answer and passes the object to the cache."""
        kind = self._preparation.kind
        assert kind.struct is not None
        found = msgspec.json.decode(body, type=kind.struct)
        self._client.cache.confirm(kind, found)
        return found

    @property
    def _path(self) -> str:
        preparation = self._preparation
        return object_path(preparation.kind, preparation.namespace, preparation.name)


Prepared = Callable[[Bind, Sequence[PreparationRun]], None]
"""Called with each binding of a gang that can be made now, and the runs of preparations that only it uses."""
NotPrepared = Callable[[Sequence[Bind], PreparationError | Fenced], None]
"""Called with the bindings of a gang that will not be made."""


class Preparer:
    """Prepares the objects that bindings depend on. Belongs to one event loop."""

    def __init__(self, context: WriteContext) -> None:
        self.cache = context.cache
        self._context = context
        self._slots = asyncio.Semaphore(context.lanes.limit(Urgency.BINDING))
        """As many requests may be in flight as bindings."""
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, binds: Sequence[Bind], prepared: Prepared, not_prepared: NotPrepared) -> None:
        """Prepares bindings that are made together, then calls one of the two callbacks."""
        self._start(self._prepare(binds, prepared, not_prepared))

    def undo_runs(self, runs: Sequence[PreparationRun], then: Callable[[], None]) -> None:
        """Undoes the preparations of one binding that failed, then calls ``then``."""
        if not runs:
            then()
            return

        async def undo() -> None:
            await asyncio.gather(*(run.undo() for run in runs))
            then()

        self._start(undo())

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """One request of a preparation. Raises RequestError, Fenced."""
        client, fence = self._context.client, self._context.fence
        async with self._slots:
            return await client.request(
                method, path, body=body, content_type=content_type, priority=CallPriority.WRITE, fence=fence
            )

    async def close(self) -> None:
        """Stops and leaves every object as it is: the next leader reads its state from the objects."""
        await cancel(*self._tasks)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("preparation failed unexpectedly", error=str(error), exc_info=error)

    async def _prepare(self, binds: Sequence[Bind], prepared: Prepared, not_prepared: NotPrepared) -> None:
        runs: dict[int, PreparationRun] = {}
        for bind in binds:
            for preparation in bind.preparations:
                runs.setdefault(id(preparation), PreparationRun(self, preparation, bind))
        failure: PreparationError | Fenced | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for run in runs.values():
                    if not run.at_binding:
                        group.create_task(self._finish_run(run))
        except* (PreparationError, Fenced) as errors:
            failure = _first(errors)
        if failure is not None:
            await asyncio.gather(*(run.undo() for run in runs.values()))
            not_prepared(binds, failure)
            return
        sharers = Counter(id(preparation) for bind in binds for preparation in bind.preparations)
        for bind in binds:
            own = [runs[id(p)] for p in bind.preparations if sharers[id(p)] == 1 or p.at_binding]
            prepared(bind, own)

    async def _finish_run(self, run: PreparationRun) -> None:
        """Raises PreparationError, Fenced."""
        while (seconds := await run.advance()) is not None:
            await asyncio.sleep(seconds)
            if not self.cache.is_binding(run.bind):
                raise PreparationError(run.bind, "pod does not exist any more", gone=True)


def _first(errors: BaseExceptionGroup[PreparationError | Fenced]) -> PreparationError | Fenced:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
