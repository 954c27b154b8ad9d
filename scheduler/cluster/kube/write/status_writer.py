"""Writes the statuses that sessions decide, and removes the scheduling gate of admitted Pods.

Sessions assume that these patches are written, so each is retried until it succeeds or a newer patch of the object
replaces it. A refused patch is retried too, after longer pauses: missing rights are granted later, and a webhook that
refuses is removed. Only a patch whose object is gone or was replaced is given up.
"""

import time
from functools import cached_property

import structlog

from scheduler.api.decisions import PodGroupStatusUpdate, PodUnschedulable, QueueAllocated, Ungate
from scheduler.api.kinds import POD, POD_GROUP, QUEUE, Kind, object_path
from scheduler.api.task import Task
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.write import bodies
from scheduler.cluster.kube.write.lanes import Lanes, Urgency, Work
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.observability.metrics import Metrics

REFUSED_FIRST = 20.0
REFUSED_MAX = 300.0
"""Seconds between two attempts at a patch that the API server refuses: at first, and at most. The first pause is long
enough not to be waited for when the process stops."""
log = structlog.get_logger(__name__)


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

    def __init__(self, client: ApiClient, lanes: Lanes, metrics: Metrics, fence: Fence, signing: SharedKey) -> None:
        self._client = client
        self._lanes = lanes
        self._metrics = metrics
        self._fence = fence
        self._signing = signing

    def ungate(self, ungate: Ungate) -> None:
        """Removes the scheduling gate of a Pod."""
        path = object_path(POD, ungate.task.namespace, ungate.task.name)
        work = self._patch(POD, path, bodies.ungating(ungate), STRATEGIC_MERGE_PATCH, CallPriority.WRITE)
        self._lanes.submit(Urgency.ADMISSION, ("ungate", ungate.task.uid), work)

    def pod(self, update: PodUnschedulable) -> None:
        """Writes a Pod's PodScheduled condition."""
        transition = None if update.task.message else time.time()
        path = f"{object_path(POD, update.task.namespace, update.task.name)}/status"
        body = bodies.pod_unschedulable(update, transition)
        self._submit(_pod_key(update.task), self._patch(POD, path, body, STRATEGIC_MERGE_PATCH))

    def drop_pod(self, task: Task) -> None:
        """Drops the queued condition of a Pod that waits no longer."""
        self._lanes.drop(Urgency.STATUS, _pod_key(task))

    def group(self, update: PodGroupStatusUpdate, *, awaited: bool = True) -> None:
        """Writes a PodGroup's status. An admission is urgent, unless its Pods exist and are being bound (not
        ``awaited``)."""
        key = self._signing.key
        path = object_path(POD_GROUP, update.namespace, update.name)
        body = bodies.pod_group_status(update, key if key.shared else None)
        about = (POD_GROUP.name, update.namespace, update.name)
        if update.admits and awaited:
            work = self._patch(POD_GROUP, path, body, MERGE_PATCH, CallPriority.WRITE)
            self._lanes.submit(Urgency.ADMISSION, about, work)
        else:
            self._submit(about, self._patch(POD_GROUP, path, body, MERGE_PATCH))

    def queue(self, update: QueueAllocated) -> None:
        """Writes the allocated amounts of a Queue."""
        path = f"{object_path(QUEUE, '', update.name)}/status"
        first = self._patch(QUEUE, path, bodies.queue_first_allocated(update), MERGE_PATCH)
        work = self._patch(QUEUE, path, bodies.queue_allocated(update), JSON_PATCH, without_status=first)
        self._submit((QUEUE.name, "", update.name), work)

    def _submit(self, key: tuple[str, str, str], work: Work) -> None:
        if not self._lanes.submit(Urgency.STATUS, key, work):
            self._metrics.status_failures.labels(key[0]).inc()

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
                await self._client.request(
                    "PATCH", path, body=body, content_type=content_type, priority=priority, fence=self._fence
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
        if error.transient:
            return attempts.failed.next(error.retry_after)
        if error.status in (404, 409) or (error.status == 422 and "metadata.uid" in error.message):
            return None
        self._metrics.status_failures.labels(kind.name).inc()
        if not attempts.refused.failures:
            log.error("status write refused; it will be retried", path=path, error=str(error))
        return attempts.refused.next(error.retry_after)


def _pod_key(task: Task) -> tuple[str, str, str]:
    return (POD.name, task.namespace, task.name)
