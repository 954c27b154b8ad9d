"""Makes of other objects what bindings depend on, and waits for it, before any Pod of a gang is bound.

What is written is said by preparations (``api.preparation``), asked with the object in hand. A gang waits together: if
one of its Pods cannot be prepared, none is bound, and what was written is taken back. Waiting holds no worker and sends
no request: what others do is learnt from the cache, which is told what the server answers to us before the watch is.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

import structlog

from scheduler.api.decisions import Bind
from scheduler.cluster.kube.transport.client import JSON, ApiClient
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.cluster.kube.write.underway import Objects, PreparationError, Underway

log = structlog.get_logger(__name__)


Prepared = Callable[[Bind, Sequence[Underway]], None]
"""Told of each binding of a gang that may be made now, with what belongs to it alone."""
NotPrepared = Callable[[Sequence[Bind], PreparationError | Fenced], None]
"""Told of the bindings of a gang that will not be made."""


class Preparer:
    """For one event loop."""

    def __init__(self, client: ApiClient, fence: Fence, objects: Objects, workers: int) -> None:
        """``workers``: requests in flight."""
        self.objects = objects
        self._client = client
        self._fence = fence
        self._places = asyncio.Semaphore(workers)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, binds: Sequence[Bind], prepared: Prepared, not_prepared: NotPrepared) -> None:
        """Prepare bindings that come about together; one of the two is told in the end."""
        self._start(self._prepare(binds, prepared, not_prepared))

    def take_back(self, underway: Sequence[Underway], then: Callable[[], None]) -> None:
        """Undo what was done for one binding that has failed itself."""
        if not underway:
            then()
            return

        async def undo() -> None:
            await asyncio.gather(*(one.undo() for one in underway))
            then()

        self._start(undo())

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """One request of a preparation. Raises ApiError, TransportError, Fenced."""
        async with self._places:
            return await self._client.request(
                method, path, body=body, content_type=content_type, priority=Priority.WRITE, fence=self._fence
            )

    async def close(self) -> None:
        """Leave everything as it is: whoever schedules next finds it on the objects."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a preparation was given up", error=str(error), exc_info=error)

    async def _prepare(self, binds: Sequence[Bind], prepared: Prepared, not_prepared: NotPrepared) -> None:
        underway: dict[int, Underway] = {}
        for bind in binds:
            for preparation in bind.preparations:
                underway.setdefault(id(preparation), Underway(self, preparation, bind))
        failure: PreparationError | Fenced | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for one in underway.values():
                    if not one.at_binding:
                        group.create_task(self._see_through(one))
        except* (PreparationError, Fenced) as errors:
            failure = _first(errors)
        if failure is not None:
            await asyncio.gather(*(one.undo() for one in underway.values()))
            not_prepared(binds, failure)
            return
        sharers = Counter(id(preparation) for bind in binds for preparation in bind.preparations)
        for bind in binds:
            own = [underway[id(p)] for p in bind.preparations if sharers[id(p)] == 1 or p.at_binding]
            prepared(bind, own)

    async def _see_through(self, one: Underway) -> None:
        """Raises PreparationError, Fenced."""
        while (seconds := await one.advance()) is not None:
            await asyncio.sleep(seconds)
            if not self.objects.awaits(one.bind):
                raise PreparationError(one.bind, "pod does not exist any more", gone=True)


def _first(errors: BaseExceptionGroup[PreparationError | Fenced]) -> PreparationError | Fenced:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
