"""The decision on one review: a function of the request's body, the cluster and the settings, without effects.

Of the cluster, it sees the Queues and Namespaces that watches deliver. A watch lags behind the API server. Before a
write is refused because a queue does not exist, ``cluster_reader`` reads the queue, and the decision is repeated.

Its time and memory grow with the body, so a large review is decided in a worker process (``review_queue``) and a small
one on the event loop. Both call ``decide``; an Outcome is plain data that msgspec carries from one process to the
other.
"""

import traceback
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.api.kinds import NAMESPACE, QUEUE, Kind
from scheduler.api.names import PODS
from scheduler.api.objects import KubeObject, Namespace
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.review import allowed, read_review
from scheduler.webhooks.contract import AdmissionRequest, Json, ValidationResult, WebhookSettings
from scheduler.webhooks.fields import truncated
from scheduler.webhooks.mistakes import warnings_of
from scheduler.webhooks.routes import Route

Keys = set[tuple[str, str]]
"""Kinds and names of objects."""
MAX_LOGGED_NAME: Final = 256
"""Characters of a name in the log."""


class WatchedView:
    """The objects that the informers have delivered."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._changed: Keys | None = None

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        if isinstance(obj, Queue):
            self._queues[obj.metadata.name] = obj
        elif isinstance(obj, Namespace):
            self._namespaces[obj.metadata.name] = obj
        if self._changed is not None:
            self._changed.add((kind.name, obj.metadata.name))

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        (self._queues if kind is QUEUE else self._namespaces).pop(name, None)
        if self._changed is not None:
            self._changed.add((kind.name, name))

    def track_changes(self) -> Keys:
        """Returns the keys of all objects, a set to which the keys of changed objects are added.

        The set is updated until the next call or ``stop_tracking``.
        """
        self._changed = {(QUEUE.name, name) for name in self._queues}
        self._changed |= {(NAMESPACE.name, name) for name in self._namespaces}
        return self._changed

    def stop_tracking(self) -> None:
        self._changed = None

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)


class DecisionView:
    """A ClusterView for one decision: the watched objects and the queues read for it. Records the missing queues."""

    def __init__(self, view: WatchedView, read: Mapping[str, Queue]) -> None:
        self._view = view
        self._read = read
        self.missing_queues: set[str] = set()

    def queue(self, name: str) -> Queue | None:
        found = self._read.get(name) or self._view.queue(name)
        if found is None and name:
            self.missing_queues.add(name)
        return found

    def queues(self) -> Iterable[Queue]:
        watched = self._view.queues()
        if not self._read:
            return watched
        return [*(queue for queue in watched if queue.metadata.name not in self._read), *self._read.values()]

    def namespace(self, name: str) -> Namespace | None:
        return self._view.namespace(name)

    def bound_pods(self, queue: str) -> int:
        """The number in the queue's status, which the scheduler writes. Like Volcano's, the server watches no Pods."""
        found = self.queue(queue)
        allocated = found.status.allocated if found else None
        try:
            return parse_quantity((allocated or {}).get(PODS, 0))
        except QuantityError:
            return 0


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
