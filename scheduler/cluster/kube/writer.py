"""Carries out what sessions decide: bindings and evictions first, then status, then Events.

Nothing here decides. A write that fails for a while is tried again; one that cannot come about is told to the cache,
and the next session decides anew. A lost answer to a binding is settled by looking at the Pod, never guessed.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec
import structlog

from scheduler.api.decisions import (
    Bind,
    Decisions,
    EventPost,
    Evict,
    ObjectRef,
    PodGroupStatusUpdate,
    PodUnschedulable,
    QueueAllocated,
)
from scheduler.api.kinds import SCHEDULED_FROM
from scheduler.api.names import (
    EVENT_EVICT,
    EVENT_FAILED_SCHEDULING,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_WARNING,
    POD_REASON_SCHEDULER_ERROR,
    SCHEDULING_API_VERSION,
)
from scheduler.api.objects import Pod
from scheduler.api.task import Task
from scheduler.cluster.kube import bodies
from scheduler.cluster.kube.backoff import Backoff
from scheduler.cluster.kube.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ApiClient,
    ApiError,
    TransportError,
)
from scheduler.cluster.kube.events import Recorder
from scheduler.cluster.kube.fence import Fence, Fenced
from scheduler.cluster.kube.lanes import Lanes, Urgency, Work
from scheduler.cluster.kube.preparer import Preparer
from scheduler.cluster.kube.ratelimit import Priority
from scheduler.cluster.kube.sources import object_path
from scheduler.cluster.kube.underway import Objects, PreparationError, Underway
from scheduler.observability.metrics import Metrics

ATTEMPTS = 8
"""How often a binding or eviction that meets errors is tried before the cache gets its place back."""
BACKLOG = 10_000
"""Bindings and evictions not yet done above which no new session should be held."""
LIMITLESS = 1_000_000
_KIND = {kind.name: kind for kind in SCHEDULED_FROM}
log = structlog.get_logger(__name__)


class Cache(Objects, Protocol):
    """What has assumed the decisions, and is told of what did not come about."""

    def bind_failed(self, bind: Bind) -> None: ...

    def evict_failed(self, eviction: Evict) -> None: ...


class Writer:
    """For one event loop. ``submit`` returns at once."""

    def __init__(
        self,
        client: ApiClient,
        cache: Cache,
        lanes: Lanes,
        recorder: Recorder,
        metrics: Metrics,
        fence: Fence,
        scheduler_name: str,
    ) -> None:
        self._client = client
        self._cache = cache
        self._lanes = lanes
        self._recorder = recorder
        self._metrics = metrics
        self._fence = fence
        self._name = scheduler_name
        self._preparer = Preparer(client, fence, cache, lanes.limit(Urgency.PLACEMENT))

    def submit(self, decisions: Decisions) -> None:
        """Queue everything. To be called before the cache assumes the same decisions: what a Pod's condition said until
        now is read from its task."""
        together: dict[int, list[Bind]] = {}
        for bind in decisions.binds:
            if bind.together:
                together.setdefault(bind.together, []).append(bind)
            else:
                self._bind(bind)
        for binds in together.values():
            self._preparer.begin(binds, self._bind, self._not_prepared)
        for eviction in decisions.evictions:
            self._lanes.submit(Urgency.PLACEMENT, ("evict", eviction.task.uid), _Eviction(self, eviction))
        for ungate in decisions.ungates:
            path = _path("Pod", ungate.task.namespace, ungate.task.name)
            work = self._patch(path, bodies.ungating(ungate), STRATEGIC_MERGE_PATCH, Priority.WRITE)
            self._lanes.submit(Urgency.PLACEMENT, ("ungate", ungate.task.uid), work)
        for group in decisions.pod_groups:
            key = ("PodGroup", group.namespace, group.name)
            if group.admits:
                self._lanes.submit(Urgency.PLACEMENT, key, self._group_status(group, Priority.WRITE))
            else:
                self._status(key, self._group_status(group))
        for pod in decisions.pods:
            self.pod_status(pod)
        for queue in decisions.queues:
            self._status(("Queue", "", queue.name), self._queue_status(queue))
        for event in decisions.events:
            self._recorder.post(event)

    def _bind(self, bind: Bind, underway: Sequence[Underway] = ()) -> None:
        self._lanes.submit(Urgency.PLACEMENT, ("bind", bind.task.uid), _Binding(self, bind, underway))

    def _not_prepared(self, binds: Sequence[Bind], error: PreparationError | Fenced) -> None:
        """Bindings that belong together will not be made: each Pod is told why, the one at fault in an Event too."""
        for bind in binds:
            self._cache.bind_failed(bind)
        if isinstance(error, Fenced) or error.gone:
            return
        log.warning("not bound for want of what they need", pod=error.bind.task.key, pods=len(binds), error=str(error))
        for bind in binds:
            self._metrics.schedule_attempts.labels("error").inc()
            at_fault = bind is error.bind
            why = str(error) if at_fault else f"pod {error.bind.task.key} of its gang: {error}"
            text = f"execute preBind for pod {bind.task.key} failed: {why}, resync the task"
            self.pod_status(PodUnschedulable(bind.task, POD_REASON_SCHEDULER_ERROR, text))
            if at_fault:
                self._recorder.post(EventPost(pod_ref(bind.task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))

    @property
    def overloaded(self) -> bool:
        """So much is still to be done that deciding more would not help."""
        return self._lanes.backlog(Urgency.PLACEMENT) > BACKLOG

    async def close(self) -> None:
        """Give up what still waits for other objects."""
        await self._preparer.close()

    async def flush(self, timeout: float) -> bool:
        """Wait for bindings, evictions and status to be done; whether that came about within ``timeout`` seconds."""
        return await self._lanes.drain((Urgency.PLACEMENT, Urgency.STATUS), timeout)

    # --- status -------------------------------------------------------------------------------------------------------
    def pod_status(self, update: PodUnschedulable) -> None:
        """Queue a Pod's PodScheduled condition."""
        transition = None if update.task.message else time.time()
        body = bodies.pod_unschedulable(update, transition)
        path = f"{_path('Pod', update.task.namespace, update.task.name)}/status"
        key = ("Pod", update.task.namespace, update.task.name)
        self._status(key, self._patch(path, body, STRATEGIC_MERGE_PATCH))

    def _status(self, key: tuple[str, str, str], work: Work) -> None:
        if not self._lanes.submit(Urgency.STATUS, key, work):
            self._metrics.status_failures.labels(key[0]).inc()

    def _group_status(self, update: PodGroupStatusUpdate, priority: Priority = Priority.STATUS) -> Work:
        path = _path("PodGroup", update.namespace, update.name)
        return self._patch(path, bodies.pod_group_status(update), MERGE_PATCH, priority)

    def _queue_status(self, update: QueueAllocated) -> Work:
        path = f"{_path('Queue', '', update.name)}/status"
        first = self._patch(path, bodies.queue_first_allocated(update), MERGE_PATCH)
        backoff = Backoff()

        async def work() -> float | None:
            try:
                await self._send_patch(path, bodies.queue_allocated(update), JSON_PATCH)
            except ApiError as error:
                if error.status == 422:  # there is no status to patch
                    return await first()
                return self._again(path, error, backoff)
            except TransportError as error:
                return self._again(path, error, backoff)
            except Fenced:
                pass
            return None

        return work

    def _patch(self, path: str, body: bytes, content_type: str, priority: Priority = Priority.STATUS) -> Work:
        backoff = Backoff()

        async def work() -> float | None:
            try:
                await self._send_patch(path, body, content_type, priority)
            except (ApiError, TransportError) as error:
                return self._again(path, error, backoff)
            except Fenced:
                pass
            return None

        return work

    async def _send_patch(
        self, path: str, body: bytes, content_type: str, priority: Priority = Priority.STATUS
    ) -> None:
        await self._client.request(
            "PATCH", path, body=body, content_type=content_type, priority=priority, fence=self._fence
        )

    def _again(self, path: str, error: ApiError | TransportError, backoff: Backoff) -> float | None:
        """Seconds until a status is tried again; None if there is no point. Statuses are tried for as long as no newer
        one comes: sessions take them for written."""
        if isinstance(error, TransportError) or error.transient:
            return backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        namesake = error.status == 422 and "metadata.uid" in error.message
        if error.status not in (404, 409) and not namesake:  # it is not that the object is gone or another
            self._metrics.status_failures.labels(path.rsplit("/", 3)[-2]).inc()
            log.error("a status could not be written", path=path, error=str(error))
        return None


class _Placement:
    """What bindings and evictions have in common: they are tried a number of times, then settled."""

    def __init__(self, writer: Writer, task: Task) -> None:
        self.writer = writer
        self.task = task
        self.backoff = Backoff(0.1, 5.0)
        self.uncertain = False
        """An earlier request may have come about although its answer was lost."""

    def failed_for_now(self, error: ApiError | TransportError) -> float | None:
        """Seconds until the next attempt, or None if enough were made."""
        if isinstance(error, TransportError):
            self.uncertain = self.uncertain or error.sent
        else:
            self.uncertain = self.uncertain or error.uncertain
        if self.backoff.failures + 1 >= ATTEMPTS:
            return None
        return self.backoff.next(error.retry_after if isinstance(error, ApiError) else None)

    async def look(self) -> Pod | None:
        """The Pod as it is, or None if it is gone (or another has its name). Raises as ``request`` does."""
        path = _path("Pod", self.task.namespace, self.task.name)
        try:
            body = await self.writer._client.request("GET", path, priority=Priority.WRITE, fence=self.writer._fence)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        pod = msgspec.json.decode(body, type=Pod)
        return pod if pod.metadata.uid == self.task.uid else None


class _Binding(_Placement):
    """One Pod to one node, with its annotations, in one request."""

    def __init__(self, writer: Writer, bind: Bind, underway: Sequence[Underway]) -> None:
        """``underway``: preparations for this binding alone; of those, the ones left to the last are done first."""
        super().__init__(writer, bind.task)
        self.bind = bind
        self.underway = underway
        self.left = [one for one in underway if one.at_binding]
        self.settling: ApiError | TransportError | None = None
        """The error after which only a look at the Pod can tell what happened."""

    async def __call__(self) -> float | None:
        writer, bind = self.writer, self.bind
        try:
            if self.settling is not None:
                await self._settle(self.settling)
                return None
            while self.left:
                if (seconds := await self.left[0].advance()) is not None:
                    return seconds
                del self.left[0]
            started = time.perf_counter()
            path = f"{_path('Pod', self.task.namespace, self.task.name)}/binding"
            await writer._client.request(
                "POST", path, body=bodies.binding(bind), priority=Priority.WRITE, fence=writer._fence
            )
            writer._metrics.bind_seconds.observe((time.perf_counter() - started) * 1000)
            self._succeeded()
            return None
        except Fenced:
            writer._cache.bind_failed(bind)
            return None
        except PreparationError as error:
            writer._preparer.take_back(self.underway, partial(writer._not_prepared, (bind,), error))
            return None
        except (ApiError, TransportError) as error:
            if self.settling is not None:  # the look failed: look again
                return self.backoff.next()
            if isinstance(error, TransportError) or error.transient:
                seconds = self.failed_for_now(error)
                if seconds is not None:
                    return seconds
            if self.uncertain:
                self.settling = error
                self.backoff.reset()
                return 0.0
            self._failed(error)
            return None

    async def _settle(self, error: ApiError | TransportError) -> None:
        """Find out whether an attempt without an answer came about."""
        pod = await self.look()
        if pod is not None and pod.spec.node_name == self.bind.node:
            there = pod.metadata.annotations or {}
            if all(there.get(key) == value for key, value in self.bind.annotations.items()):
                self._succeeded()
                return
        self._failed(error)

    def _succeeded(self) -> None:
        writer, task = self.writer, self.task
        writer._metrics.bound(max(0.0, time.time() - task.creation))
        text = f"Successfully assigned {task.namespace}/{task.name} to {self.bind.node}"
        writer._recorder.post(EventPost(pod_ref(task), EVENT_NORMAL, EVENT_SCHEDULED, text))

    def _failed(self, error: ApiError | TransportError) -> None:
        writer, task = self.writer, self.task
        writer._preparer.take_back(self.underway, lambda: writer._cache.bind_failed(self.bind))
        writer._metrics.schedule_attempts.labels("error").inc()
        log.warning("a binding failed", pod=task.key, node=self.bind.node, error=str(error))
        if isinstance(error, ApiError) and error.status in (404, 409):
            return  # the Pod is gone, going or bound by another: the watch tells, nobody needs to hear of it
        text = f"failed to bind to node {self.bind.node}: {error}"
        writer.pod_status(PodUnschedulable(task, POD_REASON_SCHEDULER_ERROR, text))
        writer._recorder.post(EventPost(pod_ref(task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))


class _Eviction(_Placement):
    """Tell the Pod why, then delete it."""

    def __init__(self, writer: Writer, eviction: Evict) -> None:
        super().__init__(writer, eviction.task)
        self.eviction = eviction
        self.told = False

    async def __call__(self) -> float | None:
        writer, eviction = self.writer, self.eviction
        path = _path("Pod", self.task.namespace, self.task.name)
        try:
            if not self.told:
                await self._tell(path)
            await writer._client.request(
                "DELETE", path, body=bodies.deletion(eviction), priority=Priority.WRITE, fence=writer._fence
            )
        except Fenced:
            writer._cache.evict_failed(eviction)
            return None
        except (ApiError, TransportError) as error:
            if isinstance(error, TransportError) or error.transient:
                seconds = self.failed_for_now(error)
                if seconds is not None:
                    return seconds
            elif error.status in (404, 409):  # gone already, or another of the same name: the watch tells
                return None
            log.warning("an eviction failed", pod=self.task.key, error=str(error))
            writer._cache.evict_failed(eviction)
            return None
        log.info("evicted", pod=self.task.key, reason=eviction.reason)
        text = bodies.eviction_message(eviction)
        writer._recorder.post(EventPost(pod_ref(self.task), EVENT_WARNING, EVENT_EVICT, text))
        if self.task.job:
            namespace, _, name = self.task.job.partition("/")
            group = ObjectRef(SCHEDULING_API_VERSION, "PodGroup", namespace, name)
            writer._recorder.post(EventPost(group, EVENT_NORMAL, EVENT_EVICT, eviction.reason))
        return None

    async def _tell(self, path: str) -> None:
        """Write the conditions. They explain; the deletion does not wait for them to succeed."""
        writer = self.writer
        body = bodies.eviction_conditions(self.eviction, writer._name, time.time())
        self.told = True
        try:
            await writer._client.request(
                "PATCH",
                f"{path}/status",
                body=body,
                content_type=STRATEGIC_MERGE_PATCH,
                priority=Priority.WRITE,
                fence=writer._fence,
            )
        except (ApiError, TransportError) as error:
            log.info("the conditions of an evicted Pod could not be written", pod=self.task.key, error=str(error))


def pod_ref(task: Task) -> ObjectRef:
    """The task's Pod as the subject of an Event."""
    return ObjectRef("v1", "Pod", task.namespace, task.name, task.uid)


def _path(kind: str, namespace: str, name: str) -> str:
    return object_path(_KIND[kind], namespace, name)


def make_lanes(bind_workers: int) -> Lanes:
    """The classes of work with their limits. Placements are bounded by ``Writer.overloaded``, and status by the number
    of objects; Events are dropped where they come too fast."""
    return Lanes(
        {Urgency.PLACEMENT: bind_workers, Urgency.STATUS: 16, Urgency.EVENT: 8},
        {Urgency.PLACEMENT: LIMITLESS, Urgency.STATUS: 100_000, Urgency.EVENT: 20_000},
    )
