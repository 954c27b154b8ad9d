"""Bindings and evictions, one by one: tried a number of times, then settled, or told to the cache as failed.

A lost answer to a binding is settled by looking at the Pod, never guessed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
import structlog

from scheduler.api.decisions import Bind, EventPost, Evict, ObjectRef, PodUnschedulable, pod_ref
from scheduler.api.kinds import POD
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
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import STRATEGIC_MERGE_PATCH, ApiClient, ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.cluster.kube.transport.sources import object_path
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.events import Recorder
from scheduler.cluster.kube.write.preparer import Preparer
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.cluster.kube.write.statuses import Statuses
from scheduler.cluster.kube.write.underway import Objects, PreparationError, Underway
from scheduler.cluster.words import assigned, evicted, why_not_prepared
from scheduler.observability.metrics import Metrics

ATTEMPTS = 8
"""How often a binding or eviction that meets errors is tried before the cache gets its place back."""
log = structlog.get_logger(__name__)


class Cache(Objects, Protocol):
    """What has assumed the decisions, and is told of what did not come about."""

    def bind_failed(self, bind: Bind) -> None: ...

    def evict_failed(self, eviction: Evict) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What placements are carried out with."""

    client: ApiClient
    fence: Fence
    cache: Cache
    preparer: Preparer
    statuses: Statuses
    recorder: Recorder
    metrics: Metrics
    scheduler_name: str
    signing: SharedKey


class _Placement:
    """What bindings and evictions have in common: they are tried a number of times, then settled."""

    def __init__(self, means: Means, task: Task) -> None:
        self.means = means
        self.task = task
        self.path = object_path(POD, task.namespace, task.name)
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
        client, fence = self.means.client, self.means.fence
        try:
            body = await client.request("GET", self.path, priority=Priority.WRITE, fence=fence)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        pod = msgspec.json.decode(body, type=Pod)
        return pod if pod.metadata.uid == self.task.uid else None


class Binding(_Placement):
    """One Pod to one node, with its annotations, in one request."""

    def __init__(self, means: Means, bind: Bind, underway: Sequence[Underway] = ()) -> None:
        """``underway``: preparations for this binding alone; of those, the ones left to the last are done first."""
        super().__init__(means, bind.task)
        self.bind = bind
        self.underway = underway
        self.left = [one for one in underway if one.at_binding]
        self.settling: ApiError | TransportError | None = None
        """The error after which only a look at the Pod can tell what happened."""

    async def __call__(self) -> float | None:
        means, bind = self.means, self.bind
        try:
            if self.settling is not None:
                await self._settle(self.settling)
                return None
            while self.left:
                if (seconds := await self.left[0].advance()) is not None:
                    return seconds
                del self.left[0]
            started = time.perf_counter()
            path, body = f"{self.path}/binding", bodies.binding(bind, means.signing.key)
            await means.client.request("POST", path, body=body, priority=Priority.WRITE, fence=means.fence)
            means.metrics.answered(time.perf_counter() - started)
            self._succeeded()
            return None
        except Fenced:
            means.cache.bind_failed(bind)
            return None
        except PreparationError as error:
            means.preparer.take_back(self.underway, partial(not_prepared, means, (bind,), error))
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
        means, task = self.means, self.task
        means.metrics.bound(time.time() - task.creation)
        means.recorder.post(EventPost(pod_ref(task), EVENT_NORMAL, EVENT_SCHEDULED, assigned(self.bind)))

    def _failed(self, error: ApiError | TransportError) -> None:
        means, task = self.means, self.task
        means.preparer.take_back(self.underway, lambda: means.cache.bind_failed(self.bind))
        means.metrics.schedule_attempts.labels("error").inc()
        log.warning("a binding failed", pod=task.key, node=self.bind.node, error=str(error))
        if isinstance(error, ApiError) and error.status in (404, 409):
            return  # the Pod is gone, going or bound by another: the watch tells, nobody needs to hear of it
        text = f"failed to bind to node {self.bind.node}: {error}"
        means.statuses.pod(PodUnschedulable(task, POD_REASON_SCHEDULER_ERROR, text))
        means.recorder.post(EventPost(pod_ref(task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))


class Eviction(_Placement):
    """Tell the Pod why, then delete it."""

    def __init__(self, means: Means, eviction: Evict) -> None:
        super().__init__(means, eviction.task)
        self.eviction = eviction
        self.told = False

    async def __call__(self) -> float | None:
        means, eviction = self.means, self.eviction
        try:
            if not self.told:
                await self._tell()
            await means.client.request(
                "DELETE", self.path, body=bodies.deletion(eviction), priority=Priority.WRITE, fence=means.fence
            )
        except Fenced:
            means.cache.evict_failed(eviction)
            return None
        except (ApiError, TransportError) as error:
            if isinstance(error, TransportError) or error.transient:
                seconds = self.failed_for_now(error)
                if seconds is not None:
                    return seconds
            elif error.status in (404, 409):  # gone already, or another of the same name: the watch tells
                return None
            log.warning("an eviction failed", pod=self.task.key, error=str(error))
            means.cache.evict_failed(eviction)
            return None
        log.info("evicted", pod=self.task.key, reason=eviction.reason)
        means.recorder.post(EventPost(pod_ref(self.task), EVENT_WARNING, EVENT_EVICT, evicted(eviction.reason)))
        if self.task.job:
            namespace, _, name = self.task.job.partition("/")
            group = ObjectRef(SCHEDULING_API_VERSION, "PodGroup", namespace, name)
            means.recorder.post(EventPost(group, EVENT_NORMAL, EVENT_EVICT, eviction.reason))
        return None

    async def _tell(self) -> None:
        """Write the conditions. They explain; the deletion does not wait for them to succeed."""
        means = self.means
        body = bodies.eviction_conditions(self.eviction, means.scheduler_name, time.time())
        self.told = True
        try:
            await means.client.request(
                "PATCH",
                f"{self.path}/status",
                body=body,
                content_type=STRATEGIC_MERGE_PATCH,
                priority=Priority.WRITE,
                fence=means.fence,
            )
        except (ApiError, TransportError) as error:
            log.info("the conditions of an evicted Pod could not be written", pod=self.task.key, error=str(error))


def not_prepared(means: Means, binds: Sequence[Bind], error: PreparationError | Fenced) -> None:
    """Bindings that belong together will not be made: each Pod is told why, the one at fault in an Event too."""
    for bind in binds:
        means.cache.bind_failed(bind)
    if isinstance(error, Fenced) or error.gone:
        return
    log.warning("not bound for want of what they need", pod=error.bind.task.key, pods=len(binds), error=str(error))
    for bind in binds:
        means.metrics.schedule_attempts.labels("error").inc()
        text = why_not_prepared(bind, error.bind, str(error))
        means.statuses.pod(PodUnschedulable(bind.task, POD_REASON_SCHEDULER_ERROR, text))
        if bind is error.bind:
            means.recorder.post(EventPost(pod_ref(bind.task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, text))
