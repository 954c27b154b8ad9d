"""The client of the extender: its settings, its requests, and the answers that are decoded.

An extender that leaves several requests in a row without an answer is not called again in the session, so that one that
hangs costs only a few time-outs.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.external_calls import ExternalCalls, ExternalReply, ExternalRequest

BATCH: Final = 16
"""Requests sent concurrently."""
MAX_SILENT: Final = 3
"""Requests in a row without an answer after which the extender is not called again."""
_GIVEN_UP: Final = "it is not asked again in this session"
_TIMEOUT: Final = 1.0
_MAX_TIMEOUT: Final = 60.0
UNSCHEDULABLE: Final = 2
"""The code of a rejection that evictions can resolve."""
A = TypeVar("A", bound=msgspec.Struct)


class ExtenderSettings:
    """The arguments, with Volcano's names. A verb is the last path segment of the URL; a call without a verb is
    disabled."""

    def __init__(self, arguments: Arguments) -> None:
        def verb(key: str) -> str:
            return arguments.text(f"extender.{key}", "")

        self.session_open = verb("onSessionOpenVerb")
        self.session_close = verb("onSessionCloseVerb")
        self.predicate = verb("predicateVerb")
        self.prioritize = verb("prioritizeVerb")
        self.preemptable = verb("preemptableVerb")
        self.reclaimable = verb("reclaimableVerb")
        self.queue_overused = verb("queueOverusedVerb")
        self.job_enqueueable = verb("jobEnqueueableVerb")
        self.job_enqueued = verb("jobEnqueuedVerb")
        self.job_ready = verb("jobReadyVerb")
        self.allocate = verb("allocateFuncVerb")
        self.deallocate = verb("deallocateFuncVerb")
        self.ignorable = arguments.boolean("extender.ignorable", False)
        """Whether a call without an answer is ignored."""
        self.prefix = _prefix(arguments)
        self.timeout = _timeout(arguments)
        """The time limit of a request, in seconds."""
        self._resources = _resources(arguments)

    def manages(self, cls: TaskClass) -> bool:
        """Whether the extender is called for tasks of the class: they request one of its resources, or it manages
        all."""
        if not self._resources:
            return True
        containers = (*cls.spec.containers, *(cls.spec.init_containers or ()))
        return any(
            name in self._resources
            for container in containers
            if container.resources is not None
            for name in (*(container.resources.requests or ()), *(container.resources.limits or ()))
        )


def _prefix(arguments: Arguments) -> str:
    text = arguments.text("extender.urlPrefix", "")
    try:
        valid = urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        valid = False
    return (
        text.rstrip("/") if valid else arguments.set_aside("extender.urlPrefix", text, "not an http or https URL", "")
    )


def _timeout(arguments: Arguments) -> float:
    key = "extender.httpTimeout"
    seconds = arguments.duration(key, _TIMEOUT)
    if seconds <= 0:
        return arguments.set_aside(key, arguments[key], "not above 0", _TIMEOUT)
    if seconds > _MAX_TIMEOUT:
        return arguments.set_aside(key, arguments[key], "longer than a session may wait", _MAX_TIMEOUT)
    return seconds


def _resources(arguments: Arguments) -> frozenset[str]:
    key = "extender.managedResources"
    listed = arguments.get(key)
    if listed is None:
        return frozenset()
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return frozenset(listed)
    return arguments.set_aside(key, listed, "not a list of names", frozenset())


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


# --- answers: fields have Volcano's names in lower case, and defaults ---
class Predicate(msgspec.Struct):
    """Whether the task can run on the node."""

    status: str = ""
    """Why the node is rejected, or ""."""
    code: int = 0


class Prioritize(msgspec.Struct):
    """The scores of the nodes for the task."""

    nodescore: dict[str, float] | None = None
    errormessage: str = ""


class Victims(msgspec.Struct):
    """Which of the tasks may be evicted."""

    status: int = 0
    """0 for an abstention."""
    victims: list[dict[str, Any]] = []

    @property
    def uids(self) -> set[str]:
        found = (value for victim in self.victims for key, value in victim.items() if key.lower() == "uid")
        return {uid for uid in found if isinstance(uid, str)}


class VoteResponse(msgspec.Struct):
    """Whether the job may be enqueued: above 0 for yes, below 0 for no, 0 for an abstention."""

    status: int = 0


class Overused(msgspec.Struct):
    """Whether the queue is overused."""

    overused: bool = False


class Ready(msgspec.Struct):
    """Whether the job is ready."""

    status: bool = False


class EventResponse(msgspec.Struct):
    """The response to an allocation or deallocation of a task."""

    errormessage: str = ""
    """Why the extender rejects it, or ""."""
