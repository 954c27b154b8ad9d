"""The client of the extender: sends requests and decodes the responses.

An extender that leaves several requests in a row without an answer is not called again in the session, so that one that
hangs costs only a few time-outs.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from scheduler.framework.external_calls import ExternalCalls, ExternalReply, ExternalRequest
from scheduler.plugins.extender.settings import ExtenderSettings

BATCH: Final = 16
"""Requests sent concurrently."""
MAX_SILENT: Final = 3
"""Requests in a row without an answer after which the extender is not called again."""
_GIVEN_UP: Final = "it is not asked again in this session"
A = TypeVar("A", bound=msgspec.Struct)


class NoAnswerError(Exception):
    """The extender did not answer, or its answer was invalid; the message says why."""


class ExtenderClient:
    """Calls the extender, for one session."""

    def __init__(
        self, external_calls: ExternalCalls, settings: ExtenderSettings, report: Callable[[str], None]
    ) -> None:
        """``report`` is called with each problem, once."""
        self._external_calls = external_calls
        self._settings = settings
        self._report = report
        self._reported: set[str] = set()
        self._unanswered = 0

    def call(self, verb: str, question: object, answer: type[A]) -> A:
        """Sends one request as JSON and returns the answer. Raises NoAnswerError."""
        (found,) = self.call_all(verb, [question], answer)
        if isinstance(found, NoAnswerError):
            raise found
        return found

    def call_all(self, verb: str, questions: Sequence[object], answer: type[A]) -> list[A | NoAnswerError]:
        """Sends requests and returns their answers in order."""
        found: list[A | NoAnswerError] = []
        for start in range(0, len(questions), BATCH):
            part = [msgspec.json.encode(question) for question in questions[start : start + BATCH]]
            found += [self._read(verb, reply, answer) for reply in self._post(verb, part)]
        return found

    def notify(self, verb: str, message: object) -> None:
        """Sends a notification and ignores the content of the answer. Raises NoAnswerError."""
        (reply,) = self._post(verb, [msgspec.json.encode(message)])
        if reply.problem:
            raise self._failure(verb, reply.problem)

    def _post(self, verb: str, bodies: Sequence[bytes]) -> Sequence[ExternalReply]:
        url = f"{self._settings.prefix}/{verb}"
        if not self._settings.prefix:
            return [ExternalReply(problem="extender.urlPrefix is missing")] * len(bodies)
        if self._unanswered >= MAX_SILENT:
            return [ExternalReply(problem=_GIVEN_UP)] * len(bodies)
        replies = self._external_calls.post([ExternalRequest(url, body, self._settings.timeout) for body in bodies])
        for reply in replies:
            self._unanswered = self._unanswered + 1 if reply.silent else 0
        return replies

    def _read(self, verb: str, reply: ExternalReply, answer: type[A]) -> A | NoAnswerError:
        if reply.problem:
            return self._failure(verb, reply.problem)
        try:
            fields: Any = msgspec.json.decode(reply.body)
            # Volcano decodes these with Go, which ignores the case of field names.
            fields = {} if fields is None else fields
            lowered = {key.lower(): value for key, value in fields.items() if value is not None}
            return msgspec.convert(lowered, answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError, RecursionError) as error:
            return self._failure(verb, f"not the answer that was expected: {str(error)[:200]}")

    def _failure(self, verb: str, problem: str) -> NoAnswerError:
        text = f"extender {self._settings.prefix}/{verb}: {problem}"
        if text not in self._reported:
            self._reported.add(text)
            self._report(text)
        return NoAnswerError(text)
