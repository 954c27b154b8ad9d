"""Answers reviews: has the function of a path decide, and sees to it that there is an answer whatever happens."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.offload import BusyError, Offload
from scheduler.cluster.kube.admission.review import FAILED, Asked, allowed, read_review, refused
from scheduler.cluster.kube.admission.view import CompletedView, Reader, WatchedView
from scheduler.observability.admission_metrics import AdmissionMetrics
from scheduler.webhooks.contract import Json, Settings
from scheduler.webhooks.routes import Route

READ_SECONDS = 3.0
"""For reading the queues that a decision lacks; the API server waits for ten."""
MOST_READS = 8
"""Queues read for one decision: one chain of ancestors."""
log = structlog.get_logger(__name__)


class Desk:
    """For one event loop."""

    def __init__(
        self,
        view: WatchedView,
        reader: Reader,
        settings: Callable[[], Settings],
        metrics: AdmissionMetrics,
        offload: Offload | None = None,
    ) -> None:
        """``settings``: those in force."""
        self._view = view
        self._reader = reader
        self._settings = settings
        self._metrics = metrics
        self._offload = offload or Offload()

    async def answer(self, route: Route, body: bytes) -> bytes:
        """The AdmissionReview to send back. Raises ReviewError when ``body`` is none that can be answered, and
        BusyError."""
        started = time.perf_counter()
        result, size = "malformed", len(body)
        try:
            asked = await self._offload.run(size, lambda: read_review(body, route), started)
            result, answer = await self._decided(route, asked, size, started)
            return answer
        except BusyError:
            result = "busy"
            raise
        finally:
            self._metrics.requests.labels(route.path, result).inc()
            self._metrics.seconds.labels(route.path).observe(time.perf_counter() - started)

    async def _decided(self, route: Route, asked: Asked, size: int, came: float) -> tuple[str, bytes]:
        request = asked.request
        where = {"path": route.path, "namespace": request.namespace, "name": request.name}
        try:
            new, refusal = await self._decide(route, asked, size, came)
            if refusal:
                answer = refused(asked.uid, refusal)
            else:
                answer = await self._offload.run(size, lambda: allowed(asked.uid, request.object, new), came)
        except BusyError:
            raise
        except Exception as error:  # a bug: the write must not hang or pass for it
            log.exception("a review could not be decided", **where)
            text = f"{route.path} failed on {request.kind.name} {request.name}: {type(error).__name__}: {error}"
            return "error", refused(asked.uid, text, FAILED)
        if refusal:
            log.info("refused", operation=str(request.operation), reason=refusal[:1024], **where)
        return "denied" if refusal else "allowed", answer

    async def _decide(self, route: Route, asked: Asked, size: int, came: float) -> tuple[Json, str]:
        """The object as it should be stored, and why it is refused."""
        settings = self._settings()
        view = CompletedView(self._view, {})
        new, refusal = await self._offload.run(size, partial(_ask, route, asked, view, settings), came)
        if not refusal or not view.missed:
            return new, refusal
        known: dict[str, Queue] = {}
        deadline = asyncio.get_running_loop().time() + READ_SECONDS
        for _ in range(MOST_READS):
            left = deadline - asyncio.get_running_loop().time()
            found = await self._reader.read(sorted(view.missed)[:MOST_READS], left) if left > 0 else {}
            if not found:
                break
            known.update(found)
            view = CompletedView(self._view, known)
            new, refusal = await self._offload.run(size, partial(_ask, route, asked, view, settings), came)
            if not refusal or not view.missed:
                break
        return new, refusal


def _ask(route: Route, asked: Asked, view: CompletedView, settings: Settings) -> tuple[Json, str]:
    if route.mutate:
        return route.mutate(asked.request, view, settings), ""
    return asked.request.object, route.validate(asked.request, view, settings) if route.validate else ""
