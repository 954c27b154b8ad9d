"""Requests of plugins to other programs.

A session does no I/O: it passes requests to its driver and waits for the replies. Requests and replies can be recorded
and replayed.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec


class ExternalRequest(msgspec.Struct, frozen=True):
    """A POST request with a JSON body."""

    url: str
    body: bytes
    timeout: float
    """The seconds within which the whole reply must arrive."""


class ExternalReply(msgspec.Struct, frozen=True):
    """The reply to a request."""

    body: bytes = b""
    problem: str = ""
    """Why there is no body; "": there is a body."""
    silent: bool = False
    """Whether there was no answer at all, not even a refusal."""


class ExternalCalls(Protocol):
    """Carries out requests."""

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        """Returns the reply to each request, in their order. Requests may be sent concurrently. The call blocks until
        all have arrived, and raises no exception."""


class _NoExternalCalls:
    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        return [ExternalReply(problem="other programs are not asked here", silent=True)] * len(requests)


NO_EXTERNAL_CALLS: Final[ExternalCalls] = _NoExternalCalls()
"""Answers no request."""
