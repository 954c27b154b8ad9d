"""The HTTPS server of the review handler.

A body that is too large or is not a review, and a review that could not be decided, get an HTTP error; every other
request gets an AdmissionReview.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from aiohttp import web

from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.review_handler import DEFAULT_TIMEOUT, ReviewHandler
from scheduler.cluster.kube.admission.review_queue import QueueFullError
from scheduler.cluster.kube.admission.templates import NotValidatedError
from scheduler.cluster.kube.admission.worker_process import WorkerError
from scheduler.observability.connections import BODY, Connections, Limits
from scheduler.webhooks.routes import Route

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The API server's own limit for a request body."""
LIMITS: Final = Limits(largest=MAX_BODY_BYTES)
JSON: Final = "application/json"
CHUNK_BYTES: Final = 64 * 1024
"""Bytes of an answer that are encrypted without a break."""
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
        shutdown_timeout: float = 30.0,
        limits: Limits = LIMITS,
    ) -> None:
        """``host``: "" for all addresses; ``shutdown_timeout``: seconds for requests in flight to finish in
        ``stop``."""
        self._review_handler = review_handler
        self._routes = list(routes)
        self._host = host
        self._requested_port = port
        self._shutdown_timeout = shutdown_timeout
        self._connections = Connections(limits)
        self.port = 0
        """The port in use; 0 before ``start``."""

    async def start(self, tls: ssl.SSLContext) -> None:
        """Starts to listen. Raises OSError when the address cannot be used."""
        app = web.Application()
        for route in self._routes:
            app.router.add_post(route.path, self._handler(route))
        options = {"auto_decompress": False, "shutdown_timeout": self._shutdown_timeout}
        self.port = await self._connections.serve(app, self._host or None, self._requested_port, tls, **options)
        paths = " ".join(route.path for route in self._routes)
        log.info("listening", host=self._host or "*", port=self.port, paths=paths)

    async def stop(self) -> None:
        """Accepts no more connections, and lets requests in flight finish."""
        await self._connections.close()

    def _handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Content-Type") != JSON:  # an empty answer, as from Volcano's server
                log.warning("not JSON", path=route.path, content_type=request.headers.get("Content-Type", "")[:64])
                return web.Response()
            try:
                answer = await self._review_handler.answer(route, request[BODY], _seconds(request))
            except ReviewError as error:
                log.warning("not a review", path=route.path, error=str(error))
                return web.Response(status=400, text=str(error))
            except QueueFullError as error:
                log.warning("too busy for a review", path=route.path, size=len(request[BODY]), why=str(error))
                return web.Response(status=503, text=str(error))
            except (
                WorkerError,
                NotValidatedError,
            ) as error:  # with this status the API server passes the text to the client
                return web.Response(status=500, text=str(error))
            if len(answer) <= CHUNK_BYTES:
                return web.Response(body=answer, content_type=JSON)
            return await _write_in_chunks(request, answer)

        return handle


def _seconds(request: web.Request) -> float:
    """The time-out of the API server, ``timeoutSeconds`` of the webhook configuration, which it sends in the query."""
    found = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
    return float(found[1]) if found else DEFAULT_TIMEOUT


async def _write_in_chunks(request: web.Request, answer: bytes) -> web.StreamResponse:
    """Sends an answer in chunks, between which the event loop runs other tasks."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.content_length = len(answer)
    await response.prepare(request)
    for start in range(0, len(answer), CHUNK_BYTES):
        await response.write(answer[start : start + CHUNK_BYTES])
        await asyncio.sleep(0)
    await response.write_eof()
    return response
