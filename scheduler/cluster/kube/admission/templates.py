"""Validation of Pod templates by the API server: a dry run creates a PodTemplate for each and stores nothing.

All dry runs use one configured namespace. So the answer reveals nothing about the namespace of the job, and quotas and
limits there have no effect. The PodTemplate has a generated name, which does not conflict with an existing one.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.webhooks.contract import ValidationResult
from scheduler.webhooks.fields import join

MAX_IN_FLIGHT: Final = 32
"""Requests in flight."""
MAX_IN_FLIGHT_PER_JOB: Final = 8
"""Requests in flight for one object, so that one with many templates does not block the others."""
CACHE_SIZE: Final = 10_000
"""Hashes of valid templates in the cache."""
CACHE_SECONDS: Final = 60.0
ATTEMPTS: Final = 3
RETRY_DELAY: Final = 0.2
"""Seconds before the second attempt; twice as long before the third."""
_BODY: Final = b'{"apiVersion":"v1","kind":"PodTemplate","metadata":{"generateName":"volcano-py-"},"template":%b}'
_DRY_RUN: Final = {"dryRun": "All", "fieldValidation": "Ignore"}
_UNDECODABLE: Final = "cannot be handled as a PodTemplate: "


class NotValidatedError(Exception):
    """The API server did not validate a template; the message has the reason."""

    def __init__(self, reason: str, answer: object = "") -> None:
        super().__init__(reason)
        self.answer = str(answer)


class Findings(msgspec.Struct, frozen=True):
    """The result of validating some templates."""

    problems: list[str]
    """For each template the text of its problems; "" for one that is valid or was not validated."""
    not_validated: list[int]
    """Indices of the templates that were not validated."""
    reason: str = ""
    """Why they were not validated."""
    answer: str = ""
    """The error of the API server or of the connection. For the log, not for clients, who may not be authorized to see
    it."""

    def unvalidated(self, validation: ValidationResult) -> str:
        """A message about the templates of ``validation`` that were not validated, or ""."""
        if not self.not_validated:
            return ""
        count = f"{len(self.not_validated)} of {len(self.problems)} Pod templates could not be validated"
        return f"{count}, the first that of {validation.field_of(self.not_validated[0])}: {self.reason}"


class TemplateValidator:
    """Belongs to one event loop."""

    def __init__(self, client: ApiClient, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        """``namespace``: where the client may create PodTemplates."""
        self._client = client
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/podtemplates"
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._valid: OrderedDict[bytes, float] = OrderedDict()
        """Hashes of templates with the times when they expire; the oldest first."""

    async def validate(self, templates: Sequence[bytes], seconds: float) -> Findings:
        """Validates templates (JSON). ``seconds``: the time after which the rest is left unvalidated."""
        problems: list[str | None] = ["" if self._is_known(template) else None for template in templates]
        unknown = [index for index, problem in enumerate(problems) if problem is None]
        remaining, reason, answer = iter(unknown), "", ""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for _ in range(min(MAX_IN_FLIGHT_PER_JOB, len(unknown))):
                    group.create_task(self._work(remaining, templates, problems))
        except* TimeoutError:
            reason = f"the API server did not answer in the {seconds:.1f} s that were left"
        except* NotValidatedError as errors:
            reason, answer = str(errors.exceptions[0]), getattr(errors.exceptions[0], "answer", "")
        not_validated = [index for index in unknown if problems[index] is None]
        return Findings([problem or "" for problem in problems], not_validated, reason, answer)

    async def _work(self, remaining: Iterator[int], templates: Sequence[bytes], problems: list[str | None]) -> None:
        for index in remaining:
            problems[index] = problem = await self._problems(templates[index])
            if not problem:
                self._remember(templates[index])

    async def _problems(self, template: bytes) -> str:
        """Returns the problems of a template. Raises NotValidatedError."""
        failure = ""
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(RETRY_DELAY * attempt)
            try:
                async with self._slots:
                    await self._create(template)
            except ApiError as error:
                if not error.transient or attempt + 1 == ATTEMPTS:
                    return self._refusal(error)
            except TransportError as error:
                failure = str(error)
            else:
                return ""
        raise NotValidatedError("the API server does not answer", failure)

    async def _create(self, template: bytes) -> None:
        # Not rate-limited: a client waits for the answer, and this class limits the requests in flight.
        await self._client.request(
            "POST", self._path, body=_BODY % template, params=_DRY_RUN, priority=CallPriority.CONTROL
        )

    def _refusal(self, error: ApiError) -> str:
        """The problems of the template. Raises NotValidatedError if the error has another cause."""
        if error.status == 422:
            problems = [f"{cause.field}: {cause.message}" for cause in error.causes if cause.field]
            return join(problems or [f"template: {error.message}"], ". ")
        if error.status == 400:
            _, undecodable, problem = error.message.partition(_UNDECODABLE)
            return f"template: {problem if undecodable else error.message}. "
        if error.status == 403:
            reason = f"PodTemplates may not be created in namespace {self._namespace}, not even in a dry run (403)"
        elif error.status == 404:
            reason = f"there is no namespace {self._namespace} (404)"
        else:
            reason = f"the API server answered {error.status} {error.reason}".rstrip()
        raise NotValidatedError(reason, error)

    # --- cache --------------------------------------------------------------------------------------------------------
    def _is_known(self, template: bytes) -> bool:
        return self._valid.get(_hash(template), 0.0) > self._clock()

    def _remember(self, template: bytes) -> None:
        key = _hash(template)
        self._valid[key] = self._clock() + CACHE_SECONDS
        self._valid.move_to_end(key)
        if len(self._valid) > CACHE_SIZE:
            self._valid.popitem(last=False)


def _hash(template: bytes) -> bytes:
    return sha256(template).digest()
