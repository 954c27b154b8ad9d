"""Handles reviews: decides on each in this process or in the worker process, reads the queues that a decision lacks,
and has Pod templates validated."""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog
from msgspec.structs import replace

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import Outcome, Result, decide
from scheduler.cluster.kube.admission.offload import BusyError, Offload, is_small
from scheduler.cluster.kube.admission.reader import Reader
from scheduler.cluster.kube.admission.review import DENIED, FAILED, ReviewError, refused
from scheduler.cluster.kube.admission.templates import NotValidatedError, TemplateValidator
from scheduler.cluster.kube.admission.view import CompletedView, WatchedView
from scheduler.cluster.kube.admission.worker_process import WorkerError
from scheduler.observability.admission_metrics import AdmissionMetrics
from scheduler.webhooks.contract import Settings
from scheduler.webhooks.routes import Route

READ_SECONDS = 3.0
"""Seconds for reading the queues that a decision lacks; the API server waits for ten."""
SECONDS = 10.0
"""Seconds that an API server waits for an answer by default."""
PART = 0.8
"""The part of that time after which no more Pod templates are validated."""
MOST_READS = 8
"""The most queues read for one decision: one chain of ancestors."""
log = structlog.get_logger(__name__)


class ReviewHandler:
    """Belongs to one event loop."""

    def __init__(
        self,
        view: WatchedView,
        reader: Reader,
        settings: Callable[[], Settings],
        metrics: AdmissionMetrics,
        offload: Offload,
        templates: TemplateValidator,
    ) -> None:
        """``settings``: those in force; ``offload``: decides on large reviews."""
        self._view = view
        self._reader = reader
        self._settings = settings
        self._metrics = metrics
        self._offload = offload
        self._templates = templates

    async def answer(self, route: Route, body: bytes, seconds: float = SECONDS) -> bytes:
        """The AdmissionReview to send back. ``seconds``: that the API server waits. Raises ReviewError when ``body`` is
        none that can be answered, BusyError, WorkerError and NotValidatedError."""
        started = time.perf_counter()
        result = Result.CANCELLED
        try:
            outcome = await self._decided(route, body, started + PART * seconds)
            result = outcome.result
            return outcome.answer or refused(outcome.uid, outcome.refusal, FAILED if outcome.traceback else DENIED)
        except ReviewError:
            result = Result.MALFORMED
            raise
        except BusyError:
            result = Result.BUSY
            raise
        except WorkerError:
            result = Result.FAILED
            raise
        except NotValidatedError:
            result = Result.UNVALIDATED
            raise
        finally:
            self._metrics.requests.labels(route.path, result).inc()
            self._metrics.seconds.labels(route.path).observe(time.perf_counter() - started)

    async def _decided(self, route: Route, body: bytes, end: float) -> Outcome:
        outcome = await self._decided_with_all_queues(route, body)
        if outcome.validation.templates and not outcome.traceback:
            outcome = await self._with_templates(outcome, max(0.0, end - time.perf_counter()))
        where = {"path": route.path, "namespace": outcome.namespace, "name": outcome.name}
        if outcome.traceback:
            log.error("a review could not be decided", exception=outcome.traceback, **where)
        elif outcome.refusal:
            log.info("refused", operation=outcome.operation, reason=outcome.refusal[:1024], **where)
        return outcome

    async def _decided_with_all_queues(self, route: Route, body: bytes) -> Outcome:
        """A decision that refuses is repeated with the queues that it lacked, as far as they exist."""
        settings, known = self._settings(), dict[str, Queue]()
        outcome = await self._decide(route, body, known, settings)
        deadline = asyncio.get_running_loop().time() + READ_SECONDS
        for _ in range(MOST_READS):
            left = deadline - asyncio.get_running_loop().time()
            if not outcome.refusal or not outcome.missed or left <= 0:
                break
            found = await self._reader.read(outcome.missed[:MOST_READS], left)
            if not found:
                break
            known.update(found)
            outcome = await self._decide(route, body, known, settings)
        return outcome

    async def _with_templates(self, outcome: Outcome, seconds: float) -> Outcome:
        """The outcome with what the API server says of the Pod templates. Raises NotValidatedError when nothing else is
        wrong with the object and they are not all known to be valid."""
        validation = outcome.validation
        findings = await self._templates.validate(validation.templates, seconds)
        gap = findings.gap(validation)
        if gap:
            log.warning("Pod templates were not validated", why=gap, answer=findings.answer)
        refusal = validation.text(findings.problems) if any(findings.problems) else outcome.refusal
        if gap and not refusal:
            raise NotValidatedError(gap)
        if not refusal:
            return outcome
        return replace(outcome, result=Result.DENIED, answer=b"", refusal=f"{refusal} {gap}".strip())

    async def _decide(self, route: Route, body: bytes, known: Mapping[str, Queue], settings: Settings) -> Outcome:
        if is_small(body):
            return decide(route, body, CompletedView(self._view, known), settings)
        return await self._offload.decide(route.path, body, known.values(), settings)
