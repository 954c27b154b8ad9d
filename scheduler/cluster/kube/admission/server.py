"""The HTTPS server of the review handler.

A body that is too large, or is no review, is answered as HTTP, and so is a review that could not be decided on;
everything else as a review.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from aiohttp import web

from scheduler.cluster.kube.admission.offload import BusyError
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.review_handler import SECONDS, ReviewHandler
from scheduler.cluster.kube.admission.templates import NotValidatedError
from scheduler.cluster.kube.admission.worker_process import WorkerError
from scheduler.observability.connections import BODY, Connections, Limits
from scheduler.webhooks.routes import Route

LARGEST: Final = 3 * 1024 * 1024
"""Bytes of a request, as the API server's own limit."""
LIMITS: Final = Limits(largest=LARGEST)
JSON: Final = "application/json"
PIECE: Final = 64 * 1024
"""Bytes of an answer that are encrypted at a time."""
_TIMEOUT: Final = re.compile(r"([1-9][0-9]?)s")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = structlog.get_logger(__name__)


class AdmissionServer:
    """Belongs to one event loop. Call ``start``, then ``stop``."""

    def __init__(
        self,
        review_handler: ReviewHandler,
        routes: Iterable[Route],
        host: str,
        port: int,
        *,
        patience: float = 30.0,
        limits: Limits = LIMITS,
    ) -> None:
        """``host``: "" for all addresses; ``patience``: seconds that requests in flight are given when stopping."""
        self._review_handler = review_handler
        self._routes = list(routes)
        self._host = host
        self._wanted = port
        self._patience = patience
        self._connections = Connections(limits)
        self._runner: web.AppRunner | None = None
        self.port = 0
        """In use; 0 before ``start``."""

    async def start(self, tls: ssl.SSLContext) -> None:
        """Starts to listen. Raises OSError when the address cannot be used."""
        app = web.Application()
        for route in self._routes:
            app.router.add_post(route.path, self._handler(route))
        self._runner = self._connections.runner(app, auto_decompress=False, shutdown_timeout=self._patience)
        await self._runner.setup()
        self.port = await self._connections.listen(self._runner, self._host or None, self._wanted, tls)
        paths = " ".join(route.path for route in self._routes)
        log.info("listening", host=self._host or "*", port=self.port, paths=paths)

    async def stop(self) -> None:
        """Accepts no more connections, and lets requests in flight finish."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Content-Type") != JSON:  # an empty answer, as Volcano's server gives
                log.warning("not JSON", path=route.path, content_type=request.headers.get("Content-Type", "")[:64])
                return web.Response()
            try:
                answer = await self._review_handler.answer(route, request[BODY], _seconds(request))
            except ReviewError as error:
                log.warning("not a review", path=route.path, error=str(error))
                return web.Response(status=400, text=str(error))
            except BusyError as error:
                log.warning("too busy for a review", path=route.path, size=len(request[BODY]), why=str(error))
                return web.Response(status=503, text=str(error))
            except (WorkerError, NotValidatedError) as error:  # with this status the client is given the text
                return web.Response(status=500, text=str(error))
            if len(answer) <= PIECE:
                return web.Response(body=answer, content_type=JSON)
            return await _in_pieces(request, answer)

        return handle


def _seconds(request: web.Request) -> float:
    """How long the API server waits: ``timeoutSeconds`` of the webhook configuration, which it sends along."""
    found = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
    return float(found[1]) if found else SECONDS


async def _in_pieces(request: web.Request, answer: bytes) -> web.StreamResponse:
    """Send an answer so that the event loop can do something else in between."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.content_length = len(answer)
    await response.prepare(request)
    for start in range(0, len(answer), PIECE):
        await response.write(answer[start : start + PIECE])
        await asyncio.sleep(0)
    await response.write_eof()
    return response
