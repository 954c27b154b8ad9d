"""The monitoring system that a configuration names, opened."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from scheduler.api.usage import NodeUsage
from scheduler.cluster.usage.custom_metrics import CustomMetrics, Get
from scheduler.cluster.usage.elasticsearch import Elasticsearch
from scheduler.cluster.usage.prometheus import Prometheus
from scheduler.cluster.usage.web import SourceError, open_web
from scheduler.framework.usage_source import SourceType, UsageSource


class Source(Protocol):
    """What every kind of monitoring system offers."""

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """The usage of those nodes that something is known of. Raises SourceError."""


@asynccontextmanager
async def open_source(settings: UsageSource, get: Get | None) -> AsyncIterator[Source]:
    """``get``: how to ask the API server; None where there is none. Raises SourceError if one is needed."""
    if settings.type is SourceType.PROMETHEUS_ADAPTOR:
        if get is None:
            raise SourceError("custom metrics need an API server, and there is none")
        yield CustomMetrics(get)
        return
    async with open_web(
        settings.address,
        verify_tls=settings.verify_tls,
        username=settings.username,
        password=settings.password,
    ) as web:
        if settings.type is SourceType.PROMETHEUS:
            yield Prometheus(web)
        else:
            yield Elasticsearch(web, settings.index, settings.host_field)


async def measure_once(settings: UsageSource, nodes: Sequence[str]) -> dict[str, NodeUsage]:
    """Ask once, without an API server. Raises SourceError."""
    async with open_source(settings, None) as source:
        return await source.measure(nodes)


__all__ = ["Get", "Source", "SourceError", "measure_once", "open_source"]
