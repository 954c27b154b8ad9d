"""The decision on one review: a function of the request's body, the cluster and the settings, without effects.

Its time and memory grow with the body, so a large review is decided in a worker process (``offload``) and a small one
on the event loop. Both call ``decide``; an Outcome is plain data that msgspec carries from one process to the other.
"""

import traceback
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.cluster.kube.admission.review import allowed, read_review
from scheduler.cluster.kube.admission.view import CompletedView
from scheduler.webhooks.contract import Json, Request, Settings
from scheduler.webhooks.fields import truncated
from scheduler.webhooks.routes import Route
from scheduler.webhooks.validation_result import ValidationResult

LOGGED: Final = 256
"""Characters of a name."""


class Result(StrEnum):
    """What became of a review, as the metrics name it."""

    ALLOWED = "allowed"
    DENIED = "denied"
    ERROR = "error"
    """The function of the path raised: a bug."""
    MALFORMED = "malformed"
    BUSY = "busy"
    FAILED = "failed"
    """The worker process died, or took too long."""
    UNVALIDATED = "unvalidated"
    """The API server did not say whether Pod templates are valid."""
    CANCELLED = "cancelled"
    """The client went away."""


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """The decision, and what the log says of it."""

    uid: str
    operation: str
    namespace: str
    name: str
    result: Result
    answer: bytes = b""
    """The AdmissionReview to send; empty unless the write is allowed."""
    refusal: str = ""
    """As far as it is known before Pod templates are validated."""
    validation: ValidationResult = ValidationResult()
    """With the Pod templates that are still to be validated."""
    missed: list[str] = []
    """Queues that the decision looked up and that are not known."""
    traceback: str = ""


def decide(route: Route, body: bytes, view: CompletedView, settings: Settings) -> Outcome:
    """Decode the review, ask the function of the path, and encode the patch. Raises ReviewError, and MemoryError."""
    asked = read_review(body, route)
    request = asked.request
    result, answer, refusal, validation, trace = Result.ALLOWED, b"", "", ValidationResult(), ""
    try:
        new, validation = _ask(route, request, view, settings)
        refusal = validation.text()
        if refusal:
            result = Result.DENIED
        else:
            answer = allowed(asked.uid, request.object, new)
    except MemoryError:  # of this process, not of this review
        raise
    except Exception as error:  # a bug: the write is refused, and does not hang
        result = Result.ERROR
        refusal = f"{route.path} failed on {request.kind.name} {request.name}: {type(error).__name__}: {error}"
        trace = traceback.format_exc(limit=-20)
    return Outcome(
        asked.uid,
        str(request.operation),
        request.namespace[:LOGGED],
        request.name[:LOGGED],
        result,
        answer,
        truncated(refusal),
        validation,
        sorted(view.missed),
        truncated(trace),
    )


def _ask(route: Route, request: Request, view: CompletedView, settings: Settings) -> tuple[Json, ValidationResult]:
    """The object as it is to be stored, and why it is refused."""
    if route.mutate:
        return route.mutate(request, view, settings), ValidationResult()
    found = route.validate(request, view, settings) if route.validate else ""
    return request.object, found if isinstance(found, ValidationResult) else ValidationResult([found])
