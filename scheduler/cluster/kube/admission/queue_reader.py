"""Reads queues from the API server that a decision needs and the watch has not delivered yet."""

import asyncio
from collections.abc import Iterable

import msgspec
import structlog

from scheduler.api.kinds import QUEUE, object_path
from scheduler.api.scheduling import Queue
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import RequestError, status_of
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.observability.admission_metrics import AdmissionMetrics
from scheduler.webhooks.names import dns_subdomain

log = structlog.get_logger(__name__)


class QueueReader:
    """Reads queues from the API server. Belongs to one event loop."""

    def __init__(self, client: ApiClient, metrics: AdmissionMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def read(self, names: Iterable[str], seconds: float) -> dict[str, Queue]:
        """Returns the queues that exist; one that cannot be read in time counts as absent."""
        queues = await asyncio.gather(*(self._read(name, seconds) for name in names))
        return {queue.metadata.name: queue for queue in queues if queue is not None}

    async def _read(self, name: str, seconds: float) -> Queue | None:
        if dns_subdomain(name):  # not a valid name, and it must not change the path of the request
            return None
        try:
            async with asyncio.timeout(seconds):
                body = await self._client.request("GET", object_path(QUEUE, "", name), priority=CallPriority.READ)
            queue = msgspec.json.decode(body, type=Queue)
        except (RequestError, TimeoutError, *DECODE_ERRORS) as error:
            absent = status_of(error) == 404
            self._metrics.queue_reads.labels("absent" if absent else "failed").inc()
            if not absent:
                log.warning("reading a queue failed", queue=name[:64], error=str(error) or "no answer in time")
            return None
        self._metrics.queue_reads.labels("found").inc()
        return queue
