"""Reads objects from the API server that a decision needs: queues that the watch has not delivered yet, the names of
JobTemplates, and the Nodes and Queues with which a card quota is compared.

These are not watched, or read again: a watch lags behind, so one that is created just before would be missing.
"""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec
import structlog

from scheduler.api.kinds import JOB_TEMPLATE, NODE, QUEUE, Kind, object_path
from scheduler.api.objects import Node
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.transport.client import METADATA_LIST, ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, status_of
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.pages import GoneError, Headed, Page, pages_of_objects
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.fields import dns_subdomain

PAGE_SIZE: Final = 500
MAX_PAGES: Final = 10
"""Pages that are read. If a namespace has more JobTemplates, it is not known which exist."""
_decode: Final = msgspec.json.Decoder(Page[Headed]).decode
_NODES: Final = msgspec.json.Decoder(Node)
_QUEUES: Final = msgspec.json.Decoder(Queue)
T = TypeVar("T")
log = structlog.get_logger(__name__)


class ClusterReader:
    """Belongs to one event loop."""

    def __init__(self, client: ApiClient, metrics: AdmissionMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def queues(self, names: Iterable[str], seconds: float) -> dict[str, Queue]:
        """Returns the queues that exist; one that cannot be read in time counts as absent."""
        queues = await asyncio.gather(*(self._queue(name, seconds) for name in names))
        return {queue.metadata.name: queue for queue in queues if queue is not None}

    async def _queue(self, name: str, seconds: float) -> Queue | None:
        if dns_subdomain(name):  # not a valid name, and it must not change the path of the request
            return None
        try:
            async with asyncio.timeout(seconds):
                body = await self._client.request("GET", object_path(QUEUE, "", name), priority=CallPriority.READ)
            queue = msgspec.json.decode(body, type=Queue)
        except (TimeoutError, *REQUEST_ERRORS) as error:
            absent = status_of(error) == 404
            self._metrics.queue_reads.labels("absent" if absent else "failed").inc()
            if not absent:
                log.warning("reading a queue failed", queue=name[:64], error=str(error) or "no answer in time")
            return None
        self._metrics.queue_reads.labels("found").inc()
        return queue

    async def nodes_and_queues(self, seconds: float) -> tuple[list[Node], list[Queue]] | None:
        """All Nodes and Queues as they are stored now; None if they are not known in time. Objects that cannot be
        decoded are left out."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.gather(self._every(NODE, _NODES), self._every(QUEUE, _QUEUES))
        except (TimeoutError, GoneError, *REQUEST_ERRORS) as error:
            log.warning("reading Nodes and Queues failed", error=str(error) or "no answer in time")
        return None

    async def _every(self, kind: Kind, decoder: "msgspec.json.Decoder[T]") -> list[T]:
        """Reads all objects of a kind, page by page. Raises GoneError and REQUEST_ERRORS."""
        found: list[T] = []
        async with aclosing(pages_of_objects(self._client, WatchSource(kind), PAGE_SIZE, decoder)) as pages:
            async for page in pages:
                found += [listed.object for listed in page.items or () if listed.object is not None]
        return found

    async def job_templates(self, namespace: str, seconds: float) -> Collection[str] | None:
        """The names of all JobTemplates of a namespace; None if they are not known in time."""
        names: set[str] = set()
        path, params = JOB_TEMPLATE.path_in(namespace), {"limit": str(PAGE_SIZE)}
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MAX_PAGES):
                    body = await self._client.request(
                        "GET", path, params=params, priority=CallPriority.READ, accept=METADATA_LIST
                    )
                    page = _decode(body)
                    names.update(each.metadata.name for each in page.items or ())
                    if not page.metadata.continuation:
                        return names
                    params["continue"] = page.metadata.continuation
        except (TimeoutError, *REQUEST_ERRORS) as error:
            log.warning("reading JobTemplates failed", namespace=namespace, error=str(error) or "no answer in time")
        return None
