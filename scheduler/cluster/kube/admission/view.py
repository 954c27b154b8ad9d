"""What admission knows of the cluster: the Queues and Namespaces that watches tell of.

A watch lags a little. A queue that was made a moment ago is read from the API server before a write is refused for
want of it: ``Reader`` gets those that a decision missed, and the decision is taken once more.
"""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec
import structlog

from scheduler.api.kinds import NAMESPACE, QUEUE
from scheduler.api.names import PODS
from scheduler.api.objects import KubeObject, Namespace
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import Queue
from scheduler.cluster.faults import UNREADABLE
from scheduler.cluster.kube.transport.client import ApiClient, ApiError, TransportError
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.cluster.kube.transport.sources import object_path
from scheduler.observability.admission_metrics import AdmissionMetrics
from scheduler.webhooks.names import dns_subdomain

log = structlog.get_logger(__name__)


class WatchedView:
    """A ClusterView, and the sink of the informers that feed it."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._namespaces: dict[str, Namespace] = {}

    def upsert(self, kind: str, obj: KubeObject) -> None:
        if kind == QUEUE.name and isinstance(obj, Queue):
            self._queues[obj.metadata.name] = obj
        elif kind == NAMESPACE.name and isinstance(obj, Namespace):
            self._namespaces[obj.metadata.name] = obj

    def delete(self, kind: str, namespace: str, name: str) -> None:
        (self._queues if kind == QUEUE.name else self._namespaces).pop(name, None)

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def bound_pods(self, queue: str) -> int:
        """As the scheduler last wrote it into the queue's status, which Volcano trusts as well: no Pod is watched."""
        found = self.queue(queue)
        allocated = found.status.allocated if found else None
        try:
            return parse_quantity((allocated or {}).get(PODS, 0))
        except QuantityError:
            return 0


class CompletedView(WatchedView):
    """A view for one decision: another one, and queues that were read beside it. It takes down which it lacks."""

    def __init__(self, view: WatchedView, read: Mapping[str, Queue]) -> None:
        self._queues = {**view._queues, **read}  # a copy: the decision may be taken while watches go on
        self._namespaces = view._namespaces
        self.missed: set[str] = set()

    def queue(self, name: str) -> Queue | None:
        found = self._queues.get(name)
        if found is None and name:
            self.missed.add(name)
        return found


class Reader:
    """Queues from the API server. For one event loop."""

    def __init__(self, client: ApiClient, metrics: AdmissionMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def read(self, names: Iterable[str], seconds: float) -> dict[str, Queue]:
        """Those that exist; one that cannot be read in time is taken for absent."""
        queues = await asyncio.gather(*(self._read(name, seconds) for name in names))
        return {queue.metadata.name: queue for queue in queues if queue is not None}

    async def _read(self, name: str, seconds: float) -> Queue | None:
        if dns_subdomain(name):  # no queue can be called so, and the name must not lead to another path
            return None
        try:
            async with asyncio.timeout(seconds):
                body = await self._client.request("GET", object_path(QUEUE, "", name), priority=Priority.READ)
            queue = msgspec.json.decode(body, type=Queue)
        except (ApiError, TransportError, TimeoutError, *UNREADABLE) as error:
            absent = isinstance(error, ApiError) and error.status == 404
            self._metrics.queue_reads.labels("absent" if absent else "failed").inc()
            if not absent:
                log.warning("a queue could not be read", queue=name[:64], error=str(error) or "no answer in time")
            return None
        self._metrics.queue_reads.labels("found").inc()
        return queue
