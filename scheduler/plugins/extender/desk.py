"""Where the extender is asked: one question after the other, and what its answers come to.

An extender that does not answer several questions in a row is left alone for the rest of the session, so that one that
hangs costs a few time-outs and no more.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from scheduler.framework.outside import Outside, Reply, Request
from scheduler.plugins.extender.settings import Settings

AT_A_TIME: Final = 16
"""Questions side by side."""
PATIENCE: Final = 3
"""Questions in a row that may go without an answer."""
_GIVEN_UP: Final = "it is not asked again in this session"
A = TypeVar("A", bound=msgspec.Struct)


class NoAnswerError(Exception):
    """It did not answer, or not with what was asked for; the message says why."""


class Desk:
    """The extender, for one session."""

    def __init__(self, outside: Outside, settings: Settings, tell: Callable[[str], None]) -> None:
        """``tell`` is told what goes wrong, each thing once."""
        self._outside = outside
        self._settings = settings
        self._tell = tell
        self._told: set[str] = set()
        self._silences = 0

    def ask(self, verb: str, question: object, answer: type[A]) -> A:
        """One question; what msgspec encodes goes out as JSON. Raises NoAnswerError."""
        (found,) = self.ask_all(verb, [question], answer)
        if isinstance(found, NoAnswerError):
            raise found
        return found

    def ask_all(self, verb: str, questions: Sequence[object], answer: type[A]) -> list[A | NoAnswerError]:
        """The answer to each question, in their order."""
        found: list[A | NoAnswerError] = []
        for start in range(0, len(questions), AT_A_TIME):
            part = [msgspec.json.encode(question) for question in questions[start : start + AT_A_TIME]]
            found += [self._read(verb, reply, answer) for reply in self._post(verb, part)]
        return found

    def notify(self, verb: str, message: object) -> None:
        """Tell it something; the answer is nobody's concern. Raises NoAnswerError."""
        (reply,) = self._post(verb, [msgspec.json.encode(message)])
        if reply.problem:
            raise self._failure(verb, reply.problem)

    def _post(self, verb: str, bodies: Sequence[bytes]) -> Sequence[Reply]:
        url = f"{self._settings.prefix}/{verb}"
        if not self._settings.prefix:
            return [Reply(problem="extender.urlPrefix is missing")] * len(bodies)
        if self._silences >= PATIENCE:
            return [Reply(problem=_GIVEN_UP)] * len(bodies)
        replies = self._outside.post([Request(url, body, self._settings.timeout) for body in bodies])
        for reply in replies:
            self._silences = self._silences + 1 if reply.silent else 0
        return replies

    def _read(self, verb: str, reply: Reply, answer: type[A]) -> A | NoAnswerError:
        if reply.problem:
            return self._failure(verb, reply.problem)
        try:
            fields: Any = msgspec.json.decode(reply.body)
            # Go, in which Volcano reads these, takes no notice of capitals in the names of fields.
            fields = {} if fields is None else fields
            lowered = {key.lower(): value for key, value in fields.items() if value is not None}
            return msgspec.convert(lowered, answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError, RecursionError) as error:
            return self._failure(verb, f"not the answer that was expected: {str(error)[:200]}")

    def _failure(self, verb: str, problem: str) -> NoAnswerError:
        text = f"extender {self._settings.prefix}/{verb}: {problem}"
        if text not in self._told:
            self._told.add(text)
            self._tell(text)
        return NoAnswerError(text)
