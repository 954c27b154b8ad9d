"""Opens the monitoring system of a configuration, and polls the usage of nodes in a background task.

Errors and missing responses do not affect the scheduler.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog

from scheduler.api.usage import NodeUsage
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.ratelimit import Backoff
from scheduler.cluster.usage.custom_metrics import CustomMetrics
from scheduler.cluster.usage.elasticsearch import Elasticsearch
from scheduler.cluster.usage.http_client import SourceError, open_client
from scheduler.cluster.usage.prometheus import Prometheus
from scheduler.framework.configuration import SourceType, UsageSource
from scheduler.observability.metrics import Metrics

POLL_TIMEOUT: Final = 60.0
"""Seconds for all requests of one poll."""
_MAX_BACKOFF: Final = 300.0
_MAX_LOGGED_NODES: Final = 5
"""Node names in a log line."""
log = structlog.get_logger(__name__)


class LoadSource(Protocol):
    """A monitoring system."""

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """Returns the usage of the nodes for which the system has data. Raises SourceError."""


@asynccontextmanager
async def open_source(settings: UsageSource, client: ApiClient | None) -> AsyncIterator[LoadSource]:
    """Opens the source. ``client``: the client of the API server; None without an API server.

    Raises SourceError if the source needs an API server and there is none.
    """
    if settings.type is SourceType.PROMETHEUS_ADAPTOR:
        if client is None:
            raise SourceError("custom metrics need an API server, and there is none")
        yield CustomMetrics(client)
        return
    async with open_client(
        settings.address,
        verify_tls=settings.verify_tls,
        username=settings.username,
        password=settings.password,
    ) as system:
        if settings.type is SourceType.PROMETHEUS:
            yield Prometheus(system)
        else:
            yield Elasticsearch(system, settings.index, settings.host_field)


async def measure_once(settings: UsageSource, nodes: Sequence[str]) -> dict[str, NodeUsage]:
    """Queries a source once, without an API server. Raises SourceError."""
    async with open_source(settings, None) as source:
        return await source.measure(nodes)


class UsagePoller:
    """Polls one source. Belongs to one event loop."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[str]],
        deliver: Callable[[Mapping[str, NodeUsage]], None],
        metrics: Metrics,
        client: ApiClient | None,
    ) -> None:
        """``nodes``: returns the names of the nodes to query. ``deliver``: called with the usage by node. ``client``:
        of the API server, which may serve the usage itself."""
        self._nodes = nodes
        self._deliver = deliver
        self._metrics = metrics
        self._client = client
        self._settings: UsageSource | None = None
        self._task: asyncio.Task[None] | None = None
        self._delivered = asyncio.Event()
        self._problem = ""
        self._missing: frozenset[str] = frozenset()

    def set_source(self, settings: UsageSource | None) -> None:
        """Polls this source from now on; None stops polling."""
        if settings == self._settings:
            return
        self._settings = settings
        self._problem, self._missing = "", frozenset()
        if self._task is not None:
            self._task.cancel()
        self._task = None if settings is None else asyncio.create_task(self._run(settings))

    async def first_usage(self) -> None:
        """Waits until the first usage is delivered, without a time-out. Returns at once if there is no source."""
        if self._settings is not None:
            await self._delivered.wait()

    async def close(self) -> None:
        """Stops polling."""
        task, self._task = self._task, None
        if task is not None:
            await cancel(task)

    async def _run(self, settings: UsageSource) -> None:
        backoff = Backoff(settings.interval, max(settings.interval, _MAX_BACKOFF))
        log.info("polling node usage", type=settings.type.value, address=settings.address)
        if not settings.verify_tls:
            log.warning("the TLS certificate of the node usage source is not verified", address=settings.address)
        async with open_source(settings, self._client) as source:
            while True:
                if await self._poll(source):
                    backoff.reset()
                    await asyncio.sleep(settings.interval)
                else:
                    await asyncio.sleep(backoff.next())

    async def _poll(self, source: LoadSource) -> bool:
        """Polls once. Returns whether that succeeded."""
        nodes = self._nodes()
        try:
            async with asyncio.timeout(POLL_TIMEOUT):
                usages = await source.measure(nodes)
        except SourceError as error:
            self._failed(str(error))
        except TimeoutError:
            self._failed(f"no answer within {POLL_TIMEOUT:.0f} s")
        except Exception as error:  # the next response may be valid
            log.exception("polling node usage failed unexpectedly")
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._succeeded(nodes, usages)
            return True
        return False

    def _failed(self, problem: str) -> None:
        self._metrics.usage_polls.labels("error").inc()
        if problem != self._problem:
            log.warning("node usage unavailable", error=problem)
        self._problem = problem

    def _succeeded(self, nodes: Sequence[str], usages: Mapping[str, NodeUsage]) -> None:
        self._metrics.usage_polls.labels("success").inc()
        self._metrics.nodes_with_usage.set(len(usages))
        if self._problem:
            log.info("node usage available again")
        self._problem = ""
        missing = frozenset(nodes) - usages.keys()
        if missing != self._missing and missing:
            log.warning(
                "no usage for some nodes", number=len(missing), of=len(nodes), nodes=sorted(missing)[:_MAX_LOGGED_NODES]
            )
        self._missing = missing
        self._deliver(usages)
        self._delivered.set()
