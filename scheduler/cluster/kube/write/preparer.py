"""Prepares the other objects that bindings depend on, and waits for them, before any Pod of a gang is bound.

Preparations (``api.preparation``) compute what to write from the current object. A gang waits together: if one of its
Pods cannot be prepared, none is bound, and the writes are undone. Waiting occupies no worker and sends no request: the
cache shows what other programs have written, and receives the answers to our own writes before the watch does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

import structlog

from scheduler.api.decisions import Bind
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import JSON, ApiClient
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.write.preparation_run import CachedObjects, PreparationError, PreparationRun

log = structlog.get_logger(__name__)


Prepared = Callable[[Bind, Sequence[PreparationRun]], None]
"""Called with each binding of a gang that can be made now, and the runs of preparations that only it uses."""
NotPrepared = Callable[[Sequence[Bind], PreparationError | Fenced], None]
"""Called with the bindings of a gang that will not be made."""


class Preparer:
    """Belongs to one event loop."""

    def __init__(self, client: ApiClient, fence: Fence, objects: CachedObjects, workers: int) -> None:
        """``workers``: requests in flight."""
        self.objects = objects
        self._client = client
        self._fence = fence
        self._slots = asyncio.Semaphore(workers)
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
        async with self._slots:
            return await self._client.request(
                method, path, body=body, content_type=content_type, priority=CallPriority.WRITE, fence=self._fence
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
            if not self.objects.is_binding(run.bind):
                raise PreparationError(run.bind, "pod does not exist any more", gone=True)


def _first(errors: BaseExceptionGroup[PreparationError | Fenced]) -> PreparationError | Fenced:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
