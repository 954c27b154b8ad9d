"""Opens the monitoring system of a configuration."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from scheduler.api.usage import NodeUsage
from scheduler.cluster.usage.custom_metrics import CustomMetrics, Get
from scheduler.cluster.usage.elasticsearch import Elasticsearch
from scheduler.cluster.usage.http_client import SourceError, open_client
from scheduler.cluster.usage.prometheus import Prometheus
from scheduler.framework.usage_source import SourceType, UsageSource


class LoadSource(Protocol):
    """A monitoring system."""

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """Returns the usage of the nodes for which the system has data. Raises SourceError."""


@asynccontextmanager
async def open_source(settings: UsageSource, get: Get | None) -> AsyncIterator[LoadSource]:
    """Opens the source. ``get``: sends a GET to the API server; None without an API server.

    Raises SourceError if the source needs an API server and there is none.
    """
    if settings.type is SourceType.PROMETHEUS_ADAPTOR:
        if get is None:
            raise SourceError("custom metrics need an API server, and there is none")
        yield CustomMetrics(get)
        return
    async with open_client(
        settings.address,
        verify_tls=settings.verify_tls,
        username=settings.username,
        password=settings.password,
    ) as client:
        if settings.type is SourceType.PROMETHEUS:
            yield Prometheus(client)
        else:
            yield Elasticsearch(client, settings.index, settings.host_field)


async def measure_once(settings: UsageSource, nodes: Sequence[str]) -> dict[str, NodeUsage]:
    """Queries a source once, without an API server. Raises SourceError."""
    async with open_source(settings, None) as source:
        return await source.measure(nodes)


__all__ = ["Get", "LoadSource", "SourceError", "measure_once", "open_source"]
