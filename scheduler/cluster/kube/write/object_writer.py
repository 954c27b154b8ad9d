"""Writes the objects that hold the state of plugins, or that plugins share with other components.

A write that fails temporarily is retried. One for a version that is not the present one is dropped: the next session
decides again. The cache receives the answer of the server before the watch does, so that the next session sees it.
"""

import time

import msgspec
import structlog
from msgspec.structs import replace

from scheduler.api.decisions import EventRecord, ObjectWrite
from scheduler.api.kinds import object_path
from scheduler.api.names import EVENT_REFUSED_WRITE, EVENT_WARNING
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import Lanes, Urgency
from scheduler.cluster.kube.write.preparation_run import CachedObjects
from scheduler.observability.metrics import Metrics

REFUSED_FIRST = 5.0
REFUSED_MAX = 300.0
"""Seconds for which an object is not written after the API server refused it: at first, and at most. Sessions decide
the same write again meanwhile."""
log = structlog.get_logger(__name__)
_Key = tuple[str, str, str]


class ObjectWriter:
    """Belongs to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        lanes: Lanes,
        metrics: Metrics,
        fence: Fence,
        cache: CachedObjects,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._lanes = lanes
        self._metrics = metrics
        self._fence = fence
        self._cache = cache
        self._recorder = recorder
        self._refusals: dict[_Key, Backoff] = {}
        self._not_before: dict[_Key, float] = {}
        """Object -> time of the monotonic clock."""

    def submit(self, write: ObjectWrite) -> None:
        """Queues a write. It replaces an earlier write of this object that waits."""
        key = (write.kind.name, write.namespace, write.name)
        if time.monotonic() < self._not_before.get(key, 0.0):
            return
        backoff = Backoff()

        async def work() -> float | None:
            return await self._write(key, write, backoff)

        self._lanes.submit(Urgency.ADMISSION, ("write", *key), work)

    async def _write(self, key: _Key, write: ObjectWrite, backoff: Backoff) -> float | None:
        """Returns the seconds after which to try again; None: the write is done or dropped."""
        method, path, content_type = "PATCH", object_path(write.kind, write.namespace, write.name), MERGE_PATCH
        if write.new:
            method, path, content_type = "POST", write.kind.path_in(write.namespace), JSON
        try:
            answer = await self._client.request(
                method,
                path,
                body=bodies.object_write(write),
                content_type=content_type,
                priority=CallPriority.WRITE,
                fence=self._fence,
            )
        except Fenced:
            return None
        except RequestError as error:
            if error.transient:
                return backoff.next(error.retry_after)
            if error.status == 404 and write.create:
                return await self._write(key, replace(write, new=True, create=False), backoff)
            # Another version, or gone, or made meanwhile; a namespace that does not exist is a refusal.
            if error.status != 409 and not (error.status == 404 and not write.new):
                self._refused(key, write, error)
            return None
        self._refusals.pop(key, None)
        if self._cache.stores(write.kind) and write.kind.struct is not None:
            try:
                self._cache.confirm(write.kind, msgspec.json.decode(answer, type=write.kind.struct))
            except DECODE_ERRORS:
                log.warning("the answer to a write cannot be decoded", object="/".join(key))
        return None

    def _refused(self, key: _Key, write: ObjectWrite, error: RequestError) -> None:
        backoff = self._refusals.setdefault(key, Backoff(REFUSED_FIRST, REFUSED_MAX))
        if not backoff.failures:
            report = log.info if write.optional else log.error
            report("a write of a plugin was refused; it will be retried", object="/".join(key), error=str(error))
        if not write.optional:
            self._metrics.status_failures.labels(key[0]).inc()
        where = f"{write.namespace}/{write.name}" if write.namespace else write.name
        message = f"{write.consequence}: {write.kind.name} {where} could not be written: {error.message or error}"
        for about in write.about:
            self._recorder.record(EventRecord(about, EVENT_WARNING, EVENT_REFUSED_WRITE, message))
        self._not_before[key] = time.monotonic() + backoff.next(error.retry_after)
