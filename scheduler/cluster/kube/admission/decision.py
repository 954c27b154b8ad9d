"""The decision on one review: a function of the request's body, the cluster and the settings, without effects.

Its time and memory grow with the body, so a large review is decided in a worker process (``review_queue``) and a small
one on the event loop. Both call ``decide``; an Outcome is plain data that msgspec carries from one process to the
other.
"""

import traceback
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.cluster.kube.admission.cluster_view import DecisionView
from scheduler.cluster.kube.admission.review import allowed, read_review
from scheduler.webhooks.contract import AdmissionRequest, Json, WebhookSettings
from scheduler.webhooks.fields import truncated
from scheduler.webhooks.mistakes import warnings_of
from scheduler.webhooks.routes import Route
from scheduler.webhooks.validation_result import ValidationResult

MAX_LOGGED_NAME: Final = 256
"""Characters of a name in the log."""


class Result(StrEnum):
    """The result of a review, as the metrics name it."""

    ALLOWED = "allowed"
    DENIED = "denied"
    ERROR = "error"
    """The function of the path raised an exception: a bug."""
    MALFORMED = "malformed"
    BUSY = "busy"
    FAILED = "failed"
    """The worker process died or timed out."""
    UNVALIDATED = "unvalidated"
    """The API server did not validate the Pod templates."""
    CANCELLED = "cancelled"
    """The client disconnected."""


class ReviewOutcome(msgspec.Struct, frozen=True, tag=True):
    """The decision on a review, and its fields in the log."""

    uid: str
    operation: str
    namespace: str
    name: str
    result: Result
    answer: bytes = b""
    """The AdmissionReview to send; empty unless the write is allowed."""
    refusal: str = ""
    """The refusal without the problems of Pod templates."""
    validation: ValidationResult = ValidationResult()
    """The result with the Pod templates that remain to be validated."""
    warnings: list[str] = []
    """The warnings in the answer."""
    missing_queues: list[str] = []
    """Queues that the decision looked up and that the view does not have."""
    traceback: str = ""


def decide(route: Route, body: bytes, view: DecisionView, settings: WebhookSettings) -> ReviewOutcome:
    """Decodes the review, calls the function of the path, and encodes the patch. Raises ReviewError and MemoryError."""
    review = read_review(body, route)
    request = review.request
    result, answer, refusal, validation, trace = Result.ALLOWED, b"", "", ValidationResult(), ""
    warnings = list[str]()
    try:
        new, validation = _call(route, request, view, settings)
        refusal = validation.text()
        if refusal:
            result = Result.DENIED
        else:
            warnings = warnings_of(request, view, settings) if route.validate else []
            answer = allowed(review.uid, request.object, new, warnings)
    except MemoryError:  # the process is out of memory
        raise
    except Exception as error:  # a bug: the write is refused rather than left without an answer
        result = Result.ERROR
        refusal = f"{route.path} failed on {request.kind.name} {request.name}: {type(error).__name__}: {error}"
        trace = traceback.format_exc(limit=-20)
    return ReviewOutcome(
        review.uid,
        str(request.operation),
        request.namespace[:MAX_LOGGED_NAME],
        request.name[:MAX_LOGGED_NAME],
        result,
        answer,
        truncated(refusal),
        validation,
        warnings,
        sorted(view.missing_queues),
        truncated(trace),
    )


def _call(
    route: Route, request: AdmissionRequest, view: DecisionView, settings: WebhookSettings
) -> tuple[Json, ValidationResult]:
    """The object to store, and the result of validation."""
    if route.mutate:
        return route.mutate(request, view, settings), ValidationResult()
    result = route.validate(request, view, settings) if route.validate else ""
    return request.object, result if isinstance(result, ValidationResult) else ValidationResult([result])
