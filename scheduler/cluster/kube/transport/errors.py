"""Why a request to the API server failed: the server refused it, or did not answer."""

import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.answers import inflated
from scheduler.cluster.kube.transport.http_transport import HttpAnswer

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNCERTAIN: Final = frozenset({408, 500, 502, 504})
"""The status codes of a server that gave up waiting for its own store."""


_OTHER_UID: Final = ("UID in precondition", "uid mismatch", "metadata.uid")
"""Parts of the messages with which API servers refuse a write because of the uid that it names."""


class Cause(msgspec.Struct, frozen=True):
    """The problem of one field of an object that was sent."""

    field: str = ""
    message: str = ""


class RequestError(Exception):
    """A request to the API server failed."""

    status: int = 0
    """The HTTP status code; 0: the server did not answer."""
    message: str = ""
    retry_after: float | None = None
    """Seconds to wait, as the server requested, or None."""
    transient: bool = True
    """Whether the same request may succeed later."""
    uncertain: bool = False
    """Whether a write may have taken effect all the same."""


class ApiError(RequestError):
    """The API server refused a request."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        """CamelCase word of the answer (``NotFound``), or ""."""
        self.message = message
        self.retry_after = retry_after
        self.causes = causes
        """What the message is made of, where it is about fields."""
        self.transient = status in _TRANSIENT
        self.uncertain = status in _UNCERTAIN


class TransportError(RequestError):
    """The server did not answer."""

    def __init__(self, message: str, *, sent: bool) -> None:
        """``sent``: whether the request may have reached the server."""
        super().__init__(message)
        self.message = message
        self.sent = self.uncertain = sent


REQUEST_ERRORS: Final = (RequestError, *DECODE_ERRORS)
"""The exceptions of a request and of decoding its answer."""


def status_of(error: Exception) -> int:
    """The status code of a refusal by the API server; 0 for all other errors."""
    return error.status if isinstance(error, RequestError) else 0


def is_namesake(error: RequestError) -> bool:
    """Whether a write that names the uid of its object was refused because another object has the name now. Other
    conflicts, such as "the object has been modified" (a patch that lost against other writes five times), say nothing
    about the object: the write has to be repeated."""
    return error.status in (409, 422) and any(text in error.message for text in _OTHER_UID)


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def error_of(answer: HttpAnswer) -> ApiError:
    """The error that a refusal by the API server means. Its body may be no JSON, or compressed."""
    body = answer.body
    with suppress(zlib.error):
        body = inflated(body)
    try:
        status = msgspec.json.decode(body, type=_Status)
    except DECODE_ERRORS:
        status = _Status("", body[:300].decode("utf-8", "replace").strip())
    causes = (status.details.causes if status.details else None) or ()
    return ApiError(answer.status, status.reason, status.message, _seconds(answer.retry_after), causes)


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header in seconds: a number or a date."""
    if not retry_after:
        return None
    try:
        return min(max(0.0, float(retry_after)), 300.0)
    except ValueError:
        pass
    try:
        return min(max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time()), 300.0)
    except (TypeError, ValueError):
        return None
