"""The one door out of a session, for plugins that ask other programs.

A session does no I/O: it passes requests to its driver, and waits for the replies. What was asked and answered
can be kept and played back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """JSON to be posted."""

    url: str
    body: bytes
    timeout: float
    """Seconds until the whole reply must be there."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    body: bytes = b""
    problem: str = ""
    """Why there is no body; "": there is one."""
    silent: bool = False
    """There was no answer at all, not even a refusal."""


class ExternalCalls(Protocol):
    """Carries requests out."""

    def post(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """The reply to each request, in their order; they may be sent side by side. Blocks, and raises nothing."""


class _NoExternalCalls:
    def post(self, requests: Sequence[Request]) -> Sequence[Reply]:
        return [Reply(problem="other programs are not asked here", silent=True)] * len(requests)


NO_EXTERNAL_CALLS: Final[ExternalCalls] = _NoExternalCalls()
"""Answers no request."""
