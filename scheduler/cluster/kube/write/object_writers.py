"""Writes the statuses that sessions decide, and the objects of plugins; removes the scheduling gate of admitted Pods.

Sessions assume that statuses are written, so each is retried until it succeeds or a newer one of the object replaces
it. A refused status is retried too, after longer pauses: missing rights are granted later, and a webhook that refuses
is removed. Only a status whose object is gone or was replaced is given up.

Objects hold the state of plugins, or are shared with other components. A write that fails temporarily is retried. One
for a version that is not the present one is dropped: the next session decides again. The cache receives the answer of
the server before the watch does, so that the next session sees it.
"""

import time
from functools import cached_property

import msgspec
import structlog
from msgspec.structs import replace

from scheduler.api.decisions import (
    EventRecord,
    ObjectWrite,
    PodGroupStatusUpdate,
    PodUnschedulable,
    QueueAllocated,
    Ungate,
)
from scheduler.api.kinds import POD, POD_GROUP, QUEUE, Kind, object_path
from scheduler.api.names import EVENT_REFUSED_WRITE, EVENT_WARNING
from scheduler.api.task import Task
from scheduler.cache import ClusterCache
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.client import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import RequestError, is_namesake
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import Lanes, Urgency, Work
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.observability.metrics import Metrics

REFUSED_FIRST = 20.0
"""Seconds between the first two attempts at a status that the API server refuses, long enough not to be waited for when
the process stops."""
REFUSED_MAX = 300.0
"""Seconds between two attempts at a write that the API server refuses, at most."""
log = structlog.get_logger(__name__)
OBJECT_REFUSED_FIRST = 5.0
"""Seconds for which an object of a plugin is not written at first after the API server refused it. Sessions decide the
same write again meanwhile."""
_Key = tuple[str, str, str]


class WriteContext(msgspec.Struct, frozen=True):
    """What all writers share: how they reach the API server, and where they report."""

    client: ApiClient
    fence: Fence
    lanes: Lanes
    cache: ClusterCache
    """The cache, which has assumed the decisions and reverts a decision that failed."""
    recorder: EventRecorder
    metrics: Metrics
    signing: SharedKey
    scheduler_name: str


class _Attempts:
    """The pauses between the attempts at one patch; most patches need one attempt."""

    @cached_property
    def failed(self) -> Backoff:
        return Backoff()

    @cached_property
    def refused(self) -> Backoff:
        return Backoff(REFUSED_FIRST, REFUSED_MAX)


class StatusWriter:
    """Belongs to one event loop; every method queues its write and returns at once."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context

    def ungate(self, ungate: Ungate) -> None:
        """Removes the scheduling gate of a Pod."""
        path = object_path(POD, ungate.task.namespace, ungate.task.name)
        work = self._patch(POD, path, bodies.ungating(ungate), STRATEGIC_MERGE_PATCH, CallPriority.WRITE)
        self._context.lanes.submit(Urgency.ADMISSION, ("ungate", ungate.task.uid), work)

    def pod(self, update: PodUnschedulable) -> None:
        """Writes a Pod's PodScheduled condition."""
        transition = None if update.task.message else time.time()
        path = f"{object_path(POD, update.task.namespace, update.task.name)}/status"
        body = bodies.pod_unschedulable(update, transition)
        self._submit(_pod_key(update.task), self._patch(POD, path, body, STRATEGIC_MERGE_PATCH))

    def drop_pod(self, task: Task) -> None:
        """Drops the queued condition of a Pod that waits no longer."""
        self._context.lanes.drop(Urgency.STATUS, _pod_key(task))

    def group(self, update: PodGroupStatusUpdate, *, awaited: bool = True) -> None:
        """Writes a PodGroup's status. An admission is urgent, unless its Pods exist and are being bound (not
        ``awaited``)."""
        key = self._context.signing.key
        path = object_path(POD_GROUP, update.namespace, update.name)
        body = bodies.pod_group_status(update, key if key.shared else None)
        about = (POD_GROUP.name, update.namespace, update.name)
        if update.admits and awaited:
            work = self._patch(POD_GROUP, path, body, MERGE_PATCH, CallPriority.WRITE)
            self._context.lanes.submit(Urgency.ADMISSION, about, work)
        else:
            self._submit(about, self._patch(POD_GROUP, path, body, MERGE_PATCH))

    def queue(self, update: QueueAllocated) -> None:
        """Writes the allocated amounts of a Queue."""
        path = f"{object_path(QUEUE, '', update.name)}/status"
        first = self._patch(QUEUE, path, bodies.queue_first_allocated(update), MERGE_PATCH)
        work = self._patch(QUEUE, path, bodies.queue_allocated(update), JSON_PATCH, without_status=first)
        self._submit((QUEUE.name, "", update.name), work)

    def _submit(self, key: tuple[str, str, str], work: Work) -> None:
        if not self._context.lanes.submit(Urgency.STATUS, key, work):
            self._context.metrics.status_failures.labels(key[0]).inc()

    def _patch(
        self,
        kind: Kind,
        path: str,
        body: bytes,
        content_type: str,
        priority: CallPriority = CallPriority.STATUS,
        *,
        without_status: Work | None = None,
    ) -> Work:
        """``without_status``: done instead if the object has no status that a JSON patch could change."""
        attempts = _Attempts()

        async def work() -> float | None:
            try:
                await self._context.client.request(
                    "PATCH", path, body=body, content_type=content_type, priority=priority, fence=self._context.fence
                )
            except RequestError as error:
                if without_status is not None and error.status == 422:
                    return await without_status()
                return self._retry_delay(kind, path, error, attempts)
            except Fenced:
                pass
            return None

        return work

    def _retry_delay(self, kind: Kind, path: str, error: RequestError, attempts: _Attempts) -> float | None:
        """Returns the seconds until the next attempt; None if the object is gone or was replaced."""
        if error.status == 404 or is_namesake(error):
            return None
        if error.transient or error.status == 409:
            return attempts.failed.next(error.retry_after)
        self._context.metrics.status_failures.labels(kind.name).inc()
        if not attempts.refused.failures:
            log.error("status write refused; it will be retried", path=path, error=str(error))
        return attempts.refused.next(error.retry_after)


def _pod_key(task: Task) -> tuple[str, str, str]:
    return (POD.name, task.namespace, task.name)


class ObjectWriter:
    """Belongs to one event loop."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context
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

        self._context.lanes.submit(Urgency.ADMISSION, ("write", *key), work)

    async def _write(self, key: _Key, write: ObjectWrite, backoff: Backoff) -> float | None:
        """Returns the seconds after which to try again; None: the write is done or dropped."""
        method, path, content_type = "PATCH", object_path(write.kind, write.namespace, write.name), MERGE_PATCH
        if write.new:
            method, path, content_type = "POST", write.kind.path_in(write.namespace), JSON
        try:
            answer = await self._context.client.request(
                method,
                path,
                body=bodies.object_write(write),
                content_type=content_type,
                priority=CallPriority.WRITE,
                fence=self._context.fence,
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
        if self._context.cache.stores(write.kind) and write.kind.struct is not None:
            try:
                self._context.cache.confirm(write.kind, msgspec.json.decode(answer, type=write.kind.struct))
            except DECODE_ERRORS:
                log.warning("the answer to a write cannot be decoded", object="/".join(key))
        return None

    def _refused(self, key: _Key, write: ObjectWrite, error: RequestError) -> None:
        backoff = self._refusals.setdefault(key, Backoff(OBJECT_REFUSED_FIRST, REFUSED_MAX))
        if not backoff.failures:
            report = log.info if write.optional else log.error
            report("a write of a plugin was refused; it will be retried", object="/".join(key), error=str(error))
        if not write.optional:
            self._context.metrics.status_failures.labels(key[0]).inc()
        where = f"{write.namespace}/{write.name}" if write.namespace else write.name
        message = f"{write.consequence}: {write.kind.name} {where} could not be written: {error.message or error}"
        for about in write.about:
            self._context.recorder.record(EventRecord(about, EVENT_WARNING, EVENT_REFUSED_WRITE, message))
        self._not_before[key] = time.monotonic() + backoff.next(error.retry_after)
