"""The HTTP endpoints of a role: ``/healthz`` and ``/readyz`` for the kubelet, and ``/metrics`` for Prometheus.

A role serves them on a thread of its own, because a session or a reconciliation may take long. If ``/healthz`` did not
answer meanwhile, the kubelet would restart the process, and the next one would do the same work again. ``/healthz``
answers whether the role makes progress (``cluster/kube/process/liveness.py``), not whether its event loop is free.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import structlog
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from scheduler.observability.addresses import parse_address
from scheduler.observability.connections import Connections, Limits
from scheduler.observability.role_metrics import RoleMetrics

Health = Callable[[], str]
"""Returns why the process should be restarted (or receive no requests), or "" while it is healthy."""
LIMITS: Final = Limits(connections=64)
log = structlog.get_logger(__name__)


class EndpointServer:
    """The endpoints, on one address or two; an empty address leaves one out."""

    def __init__(
        self,
        metrics: RoleMetrics,
        health: Health,
        ready: Health | None = None,
        *,
        metrics_address: str = "",
        health_address: str = "",
        limits: Limits = LIMITS,
    ) -> None:
        """``ready`` is served on the address of ``health``."""
        self._metrics = make_aiohttp_handler(metrics.registry)
        self._health = health
        self._ready = ready or health
        self._paths: dict[tuple[str | None, int], list[str]] = {}
        health_paths = ["/healthz", "/readyz"] if ready else ["/healthz"]
        for address, paths in ((metrics_address, ["/metrics"]), (health_address, health_paths)):
            if address:
                where = parse_address(address)
                # Port 0 means a free one, so two of them are two addresses.
                self._paths.setdefault(where if where[1] else (f"{where[0] or ''}", -len(self._paths)), []).extend(
                    paths
                )
        self._limits = limits
        self._servers: list[Connections] = []
        self.ports: dict[str, int] = {}
        """Path -> port in use."""

    async def start(self) -> None:
        """Starts to listen. Raises OSError when an address cannot be used."""
        handlers = {"/metrics": self._serve_metrics, "/healthz": self._serve_health, "/readyz": self._serve_ready}
        for (host, port), paths in self._paths.items():
            app = web.Application()
            for path in paths:
                app.router.add_get(path, handlers[path])
            connections = Connections(self._limits)
            self._servers.append(connections)
            number = await connections.serve(app, host or None, max(port, 0))
            self.ports.update(dict.fromkeys(paths, number))
            log.info("listening", host=host or "*", port=number, paths=" ".join(paths))

    async def stop(self) -> None:
        for connections in self._servers:
            await connections.close()
        self._servers.clear()

    async def _serve_metrics(self, request: web.Request) -> web.StreamResponse:
        async def handled() -> web.StreamResponse:
            return await self._metrics(request)

        return await asyncio.to_thread(asyncio.run, handled())  # with many jobs the text takes a while

    async def _serve_health(self, request: web.Request) -> web.Response:
        return _well(self._health())

    async def _serve_ready(self, request: web.Request) -> web.Response:
        return _well(self._ready())


def _well(problem: str) -> web.Response:
    return web.Response(text=problem or "ok", status=503 if problem else 200)


T = TypeVar("T")


class ServerThread:
    """Runs a server. Its health functions are called in the thread, so they only read."""

    def __init__(self, server: EndpointServer) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def ports(self) -> dict[str, int]:
        """Path -> port in use."""
        return self._server.ports

    async def start(self) -> None:
        """Starts to listen. Raises OSError when an address cannot be used."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="health", daemon=True)
        self._thread.start()
        await self._run(self._server.start())

    async def stop(self) -> None:
        """Stops listening, and ends the thread."""
        if self._loop is None or self._thread is None:
            return
        await self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()
        self._loop = self._thread = None

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
