"""Bindings and evictions of single Pods: each is tried a number of times, then reported to the cache as failed.

When the answer to a binding is lost, the Pod is read to learn whether it is bound; the outcome is never guessed.
"""

import time
from collections.abc import Sequence
from functools import cached_property, partial

import msgspec
import structlog

from scheduler.api.decisions import (
    Bind,
    EventRecord,
    Evict,
    ObjectRef,
    PodUnschedulable,
    binding_message,
    eviction_message,
    pod_ref,
    preparation_message,
)
from scheduler.api.kinds import POD, object_path
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
from scheduler.cluster.kube.transport.client import STRATEGIC_MERGE_PATCH
from scheduler.cluster.kube.transport.errors import ApiError, RequestError, is_namesake
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.object_writers import StatusWriter, WriteContext
from scheduler.cluster.kube.write.preparation_run import PreparationError, PreparationRun, Preparer

ATTEMPTS = 8
"""Attempts at a binding or eviction before it is given up and the cache releases the resources."""
log = structlog.get_logger(__name__)


class PlacementContext(WriteContext, frozen=True):
    """All that a placement needs to write to the API server and to report its result."""

    preparer: Preparer
    statuses: StatusWriter


class _Placement:
    """The base of bindings and evictions: the target Pod and the count of attempts."""

    def __init__(self, context: PlacementContext, task: Task) -> None:
        self.context = context
        self.task = task
        self.path = object_path(POD, task.namespace, task.name)
        self.uncertain = False
        """An earlier request may have taken effect although its answer was lost."""

    @cached_property
    def backoff(self) -> Backoff:
        """The pauses between attempts; most placements need one attempt."""
        return Backoff(0.1, 5.0)

    def retry_delay(self, error: RequestError) -> float | None:
        """Returns the seconds until the next attempt, or None when no attempt is left."""
        self.uncertain = self.uncertain or error.uncertain
        if self.backoff.failures + 1 >= ATTEMPTS:
            return None
        return self.backoff.next(error.retry_after)

    async def fetch_pod(self) -> Pod | None:
        """Reads the Pod; None if it is gone or another Pod has its name. Raises as ``request`` does."""
        client, fence = self.context.client, self.context.fence
        try:
            body = await client.request("GET", self.path, priority=CallPriority.WRITE, fence=fence)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        pod = msgspec.json.decode(body, type=Pod)
        return pod if pod.metadata.uid == self.task.uid else None


class Binding(_Placement):
    """Binds one Pod to one node and sets its annotations, in one request."""

    def __init__(
        self,
        context: PlacementContext,
        bind: Bind,
        runs: Sequence[PreparationRun] = (),
        preparing: float | None = None,
    ) -> None:
        """``runs``: preparations for this binding alone; those deferred to the binding are finished before it is sent.
        ``preparing``: seconds that the others took; None: the binding needs no preparation."""
        super().__init__(context, bind.task)
        self.bind = bind
        self.runs = runs
        self.remaining = [run for run in runs if run.at_binding]
        self.preparing = preparing
        """The preparation under way; None as soon as it is reported."""
        self.began = 0.0
        """When the deferred preparations began, by ``time.perf_counter``."""
        self.unresolved: RequestError | None = None
        """The error that left the outcome unknown: the Pod has to be read."""
        self.allocated = time.time()
        """When the session allocated the node."""

    async def __call__(self) -> float | None:
        context, bind = self.context, self.bind
        try:
            if self.unresolved is not None:
                await self._resolve(self.unresolved)
                return None
            if self.remaining:
                self.began = self.began or time.perf_counter()
            while self.remaining:
                if (seconds := await self.remaining[0].advance()) is not None:
                    return seconds
                del self.remaining[0]
            self._report_preparations()
            started = time.perf_counter()
            path, body = f"{self.path}/binding", bodies.binding(bind, context.signing.key)
            await context.client.request("POST", path, body=body, priority=CallPriority.WRITE, fence=context.fence)
            context.metrics.stages.observe("Bind", time.perf_counter() - started)
            self._succeeded()
            return None
        except Fenced:
            context.cache.bind_failed(bind)
            return None
        except PreparationError as error:
            context.preparer.undo_runs(self.runs, partial(not_prepared, context, (bind,), error))
            return None
        except RequestError as error:
            if self.unresolved is not None:  # reading the Pod failed: read it again
                return self.backoff.next()
            if error.transient:
                seconds = self.retry_delay(error)
                if seconds is not None:
                    return seconds
            if self.uncertain:
                self.unresolved = error
                self.backoff.reset()
                return 0.0
            self._failed(error)
            return None

    def _report_preparations(self) -> None:
        self.context.metrics.prepared(time.time() - self.task.creation)
        if self.preparing is not None:
            deferred = time.perf_counter() - self.began if self.began else 0.0
            self.context.metrics.stages.observe("PreBind", self.preparing + deferred)
            self.preparing = None

    async def _resolve(self, error: RequestError) -> None:
        """Reads the Pod to learn whether an attempt without an answer took effect."""
        pod = await self.fetch_pod()
        if pod is not None and pod.spec.node_name == self.bind.node:
            there = pod.metadata.annotations or {}
            if all(there.get(key) == value for key, value in self.bind.annotations.items()):
                self._succeeded()
                return
        self._failed(error)

    def _succeeded(self) -> None:
        context, task = self.context, self.task
        now = time.time()
        context.metrics.bound(now - task.creation)
        context.metrics.waits.bound(task, self.allocated, now)
        context.recorder.record(EventRecord(pod_ref(task), EVENT_NORMAL, EVENT_SCHEDULED, binding_message(self.bind)))

    def _failed(self, error: RequestError) -> None:
        context, task = self.context, self.task
        context.preparer.undo_runs(self.runs, lambda: context.cache.bind_failed(self.bind))
        context.metrics.schedule_attempts.labels("error").inc()
        log.warning("binding failed", pod=task.key, node=self.bind.node, error=str(error))
        if error.status in (404, 409):
            return  # the Pod is gone, terminating or bound by another scheduler: the watch reports it
        text = f"failed to bind to node {self.bind.node}: {error}"
        context.statuses.pod(PodUnschedulable(task, POD_REASON_SCHEDULER_ERROR, text))
        context.recorder.record(EventRecord(pod_ref(task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))


class Eviction(_Placement):
    """Writes the reason into the Pod's conditions, then deletes the Pod. A Pod with a grace period of its own for this
    eviction is deleted without delay, and gets no conditions. Neither does a Pod that is removed as soon as it is
    deleted, since no client could read them."""

    def __init__(self, context: PlacementContext, eviction: Evict) -> None:
        super().__init__(context, eviction.task)
        self.eviction = eviction
        self.to_explain = eviction.grace_period is None and not eviction.task.leaves_at_once
        """Whether the conditions are still to be written."""

    async def __call__(self) -> float | None:
        context, eviction = self.context, self.eviction
        try:
            if self.to_explain:
                await self._write_conditions()
            await context.client.request(
                "DELETE", self.path, body=bodies.deletion(eviction), priority=CallPriority.WRITE, fence=context.fence
            )
        except Fenced:
            context.cache.evict_failed(eviction)
            return None
        except RequestError as error:
            if error.transient:
                seconds = self.retry_delay(error)
                if seconds is not None:
                    return seconds
            elif error.status == 404 or is_namesake(error):  # the watch reports it
                return None
            log.warning("eviction failed", pod=self.task.key, error=str(error))
            context.cache.evict_failed(eviction)
            return None
        log.debug("evicted", pod=self.task.key, reason=eviction.reason)
        context.recorder.record(
            EventRecord(pod_ref(self.task), EVENT_WARNING, EVENT_EVICT, eviction_message(eviction.reason))
        )
        if self.task.job:
            namespace, _, name = self.task.job.partition("/")
            group = ObjectRef(SCHEDULING_API_VERSION, "PodGroup", namespace, name)
            context.recorder.record(EventRecord(group, EVENT_NORMAL, EVENT_EVICT, eviction.reason))
        return None

    async def _write_conditions(self) -> None:
        """Writes the conditions. They only explain, so the Pod is deleted even if this fails."""
        context = self.context
        body = bodies.eviction_conditions(self.eviction, context.scheduler_name, time.time())
        self.to_explain = False
        try:
            await context.client.request(
                "PATCH",
                f"{self.path}/status",
                body=body,
                content_type=STRATEGIC_MERGE_PATCH,
                priority=CallPriority.WRITE,
                fence=context.fence,
            )
        except RequestError as error:
            log.info("the conditions of an evicted Pod could not be written", pod=self.task.key, error=str(error))


def not_prepared(context: PlacementContext, binds: Sequence[Bind], error: PreparationError | Fenced) -> None:
    """Gives up bindings that belong together. Each Pod gets the reason as a condition, the failed one also an Event."""
    for bind in binds:
        context.cache.bind_failed(bind)
    if isinstance(error, Fenced) or error.gone:
        return
    log.warning("preparation failed: not bound", pod=error.bind.task.key, pods=len(binds), error=str(error))
    for bind in binds:
        context.metrics.schedule_attempts.labels("error").inc()
        text = preparation_message(bind, error.bind, str(error))
        context.statuses.pod(PodUnschedulable(bind.task, POD_REASON_SCHEDULER_ERROR, text))
        if bind is error.bind:
            context.recorder.record(EventRecord(pod_ref(bind.task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))
