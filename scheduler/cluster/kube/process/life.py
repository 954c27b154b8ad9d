"""The start and end of the admission role, which makes no ``Process`` yet."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.observability.server import Server

log = structlog.get_logger(__name__)


@asynccontextmanager
async def alive(client: ApiClient, server: Server, stop: Callable[[], None], **about: str) -> AsyncIterator[None]:
    """As ``Process.running``."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await client.start()
    log.info("starting", server=client.host, **about)
    try:
        await server.start()
        yield
    finally:
        await server.stop()
        await client.close()
        log.info("stopped")
