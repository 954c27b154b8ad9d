"""The replies of other programs to the plugins of a session: recorded, and replayed for equal requests.

Requests are identified by a digest that ignores the order of fields. So a session that sends its requests in another
order, fewer of them, or one of them again, receives the recorded replies.
"""

import hashlib
from collections import deque
from collections.abc import Sequence

import msgspec

from scheduler.framework.external_calls import ExternalCalls, ExternalReply, ExternalRequest
from scheduler.record.frames import Answered

_DIGEST = 16
"""Bytes."""
_UNKNOWN = ExternalReply(problem="not asked when this was recorded", silent=True)


class RecordedExternalCalls:
    """Passes requests on and records the replies."""

    def __init__(self, external_calls: ExternalCalls, answered: Answered) -> None:
        """``answered`` is added to."""
        self._external_calls = external_calls
        self._answered = answered

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        replies = self._external_calls.post(requests)
        for request, reply in zip(requests, replies, strict=True):
            self._answered.questions.append(_question(request))
            self._answered.replies.append((reply.body, reply.problem, reply.silent))
        return replies


class ReplayedExternalCalls:
    """Replies as recorded; a request that was not recorded gets no answer."""

    def __init__(self, answered: Answered) -> None:
        replies = [ExternalReply(*reply) for reply in answered.replies]
        self._to: dict[bytes, deque[ExternalReply]] = {}
        for question, reply in zip(answered.questions, replies, strict=False):
            self._to.setdefault(question, deque()).append(reply)
        self._in_order = iter([] if answered.questions else replies)
        """The replies of a recording that was made before requests were recorded."""

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: ExternalRequest) -> ExternalReply:
        replies = self._to.get(_question(request))
        if replies is None:
            return next(self._in_order, _UNKNOWN)
        return replies.popleft() if len(replies) > 1 else replies[0]


def _question(request: ExternalRequest) -> bytes:
    try:
        asked = msgspec.json.encode(msgspec.json.decode(request.body), order="sorted")
    except (msgspec.MsgspecError, RecursionError):
        asked = request.body
    return hashlib.blake2b(b"%b\n%b" % (request.url.encode(), asked), digest_size=_DIGEST).digest()
