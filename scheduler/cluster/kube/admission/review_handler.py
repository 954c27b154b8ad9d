"""Handles reviews: decides on each in this process or in the worker process, reads the queues that the watch has not
delivered, has Pod templates validated by the API server, looks up the JobTemplates of JobFlows, and compares card
quotas with the cards of Nodes."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from msgspec.structs import replace

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.cluster_reader import ClusterReader
from scheduler.cluster.kube.admission.decision import DecisionView, Result, ReviewOutcome, WatchedView, decide
from scheduler.cluster.kube.admission.review import DENIED, FAILED, ReviewError, allowed, refused
from scheduler.cluster.kube.admission.review_queue import QueueFullError, ReviewQueue, is_small
from scheduler.cluster.kube.admission.templates import NotValidatedError, TemplateValidator
from scheduler.cluster.kube.admission.worker_process import WorkerError
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.contract import CardOverGrant, WebhookSettings
from scheduler.webhooks.fields import truncated
from scheduler.webhooks.jobflow import missing_templates
from scheduler.webhooks.routes import Route

READ_SECONDS = 3.0
"""Seconds for reading missing queues; the API server waits for ten."""
DEFAULT_TIMEOUT = 10.0
"""Seconds that the API server waits for an answer by default."""
VALIDATION_SHARE = 0.8
"""The share of that time after which no more Pod templates are validated."""
MAX_READS = 8
"""The maximum number of queues read for a decision: one chain of ancestors."""
log = structlog.get_logger(__name__)


class ReviewHandler:
    """Belongs to one event loop."""

    def __init__(
        self,
        view: WatchedView,
        reader: ClusterReader,
        settings: Callable[[], WebhookSettings],
        metrics: AdmissionMetrics,
        review_queue: ReviewQueue,
        templates: TemplateValidator,
    ) -> None:
        """``settings``: returns the current settings; ``review_queue``: decides on large reviews."""
        self._view = view
        self._reader = reader
        self._settings = settings
        self._metrics = metrics
        self._review_queue = review_queue
        self._templates = templates

    async def answer(self, route: Route, body: bytes, seconds: float = DEFAULT_TIMEOUT) -> bytes:
        """Returns the AdmissionReview to send back. ``seconds``: the time-out of the API server.

        Raises ReviewError when ``body`` is not a review of the route, BusyError, WorkerError and NotValidatedError.
        """
        started = time.perf_counter()
        result = Result.CANCELLED
        try:
            outcome = await self._decide_and_validate(route, body, started + VALIDATION_SHARE * seconds)
            result = outcome.result
            return outcome.answer or refused(outcome.uid, outcome.refusal, FAILED if outcome.traceback else DENIED)
        except ReviewError:
            result = Result.MALFORMED
            raise
        except QueueFullError:
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

    async def _decide_and_validate(self, route: Route, body: bytes, end: float) -> ReviewOutcome:
        outcome = await self._decide_with_missing_queues(route, body)
        if outcome.validation.templates and not outcome.traceback:
            outcome = await self._validate_templates(outcome, max(0.0, end - time.perf_counter()))
        if outcome.validation.job_templates and outcome.answer:
            outcome = await self._warn_of_missing_templates(outcome, max(0.0, end - time.perf_counter()))
        if outcome.validation.card_quota and outcome.answer:
            outcome = await self._compare_card_quota(outcome, max(0.0, end - time.perf_counter()))
        where = {"path": route.path, "namespace": outcome.namespace, "name": outcome.name}
        if outcome.traceback:
            log.error("deciding on a review failed", exception=outcome.traceback, **where)
        elif outcome.refusal:
            log.info("refused", operation=outcome.operation, reason=outcome.refusal[:1024], **where)
        return outcome

    async def _decide_with_missing_queues(self, route: Route, body: bytes) -> ReviewOutcome:
        """Decides, and repeats a refusing decision with the missing queues that exist."""
        settings, known = self._settings(), dict[str, Queue]()
        outcome = await self._decide(route, body, known, settings)
        deadline = asyncio.get_running_loop().time() + READ_SECONDS
        for _ in range(MAX_READS):
            left = deadline - asyncio.get_running_loop().time()
            if not outcome.refusal or not outcome.missing_queues or left <= 0:
                break
            found = await self._reader.queues(outcome.missing_queues[:MAX_READS], left)
            if not found:
                break
            known.update(found)
            outcome = await self._decide(route, body, known, settings)
        return outcome

    async def _validate_templates(self, outcome: ReviewOutcome, seconds: float) -> ReviewOutcome:
        """Adds the problems of the Pod templates to the outcome. Raises NotValidatedError when the object has no known
        problem and not all templates could be validated."""
        validation = outcome.validation
        findings = await self._templates.validate(validation.templates, seconds)
        unvalidated = findings.unvalidated(validation)
        if unvalidated:
            log.warning("Pod templates were not validated", why=unvalidated, answer=findings.answer)
        refusal = validation.text(findings.problems) if any(findings.problems) else outcome.refusal
        if unvalidated and not refusal:
            raise NotValidatedError(unvalidated)
        if not refusal:
            return outcome
        return replace(outcome, result=Result.DENIED, answer=b"", refusal=f"{refusal} {unvalidated}".strip())

    async def _warn_of_missing_templates(self, outcome: ReviewOutcome, seconds: float) -> ReviewOutcome:
        """Adds warnings about JobTemplates that do not exist to the answer; none if that is not known in time."""
        existing = await self._reader.job_templates(outcome.namespace, min(seconds, READ_SECONDS))
        missing = [] if existing is None else missing_templates(outcome.validation.job_templates, existing)
        return _with_warnings(outcome, missing)

    async def _compare_card_quota(self, outcome: ReviewOutcome, seconds: float) -> ReviewOutcome:
        """Refuses a quota that grants more cards than nodes have, or adds warnings to the answer. Raises
        NotValidatedError when it would be refused and the nodes cannot be read."""
        from scheduler.plugins.capacity_card.over_grant import REFUSED, over_grants  # it loads all plugins

        refuses = self._settings().card_over_grant is CardOverGrant.REFUSE
        cluster = await self._reader.nodes_and_queues(seconds)
        if cluster is None:
            text = "the card quota could not be compared with the cards of the nodes, which could not be read in time"
            if refuses:
                raise NotValidatedError(f"{text}; try again")
            return _with_warnings(outcome, [text])
        nodes, queues = cluster
        raised = outcome.validation.card_quota
        found = await asyncio.to_thread(over_grants, outcome.name, raised, queues, nodes)
        refused = [each.message for each in found if refuses and each.problem in REFUSED]
        if refused:
            return replace(outcome, result=Result.DENIED, answer=b"", refusal=truncated("; ".join(refused)))
        return _with_warnings(outcome, [each.message for each in found])

    async def _decide(
        self, route: Route, body: bytes, known: Mapping[str, Queue], settings: WebhookSettings
    ) -> ReviewOutcome:
        if is_small(body):
            return decide(route, body, DecisionView(self._view, known), settings)
        return await self._review_queue.decide(route.path, body, known.values(), settings)


def _with_warnings(outcome: ReviewOutcome, warnings: Sequence[str]) -> ReviewOutcome:
    """The outcome of an allowed write with more warnings in the answer."""
    return replace(outcome, answer=allowed(outcome.uid, warnings=[*outcome.warnings, *warnings]))
