"""Pod templates, validated by the API server: a dry run creates a PodTemplate of each, and stores nothing.

The dry run is in one namespace of our own choice, so its answer tells nothing of the namespace of the job, and the
quotas and limits there do not matter. The PodTemplate has a generated name, so none that exists is in its way.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from scheduler.cluster.kube.transport.client import ApiClient, ApiError, TransportError
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.webhooks.fields import join
from scheduler.webhooks.validation_result import ValidationResult

AT_ONCE: Final = 32
"""Requests in flight."""
AT_ONCE_FOR_ONE: Final = 8
"""Of those for one object, so that one with many templates does not hold up the others."""
KEPT: Final = 10_000
"""Valid templates that are remembered, by their hashes."""
KEPT_SECONDS: Final = 60.0
ATTEMPTS: Final = 3
PAUSE: Final = 0.2
"""Seconds before the second attempt; twice as long before the third."""
_BODY: Final = b'{"apiVersion":"v1","kind":"PodTemplate","metadata":{"generateName":"volcano-py-"},"template":%b}'
_DRY_RUN: Final = {"dryRun": "All", "fieldValidation": "Ignore"}
_UNDECODABLE: Final = "cannot be handled as a PodTemplate: "


class NotValidatedError(Exception):
    """The API server did not say whether a template is valid; the message says why."""

    def __init__(self, reason: str, answer: object = "") -> None:
        super().__init__(reason)
        self.answer = str(answer)


@dataclass(frozen=True, slots=True)
class Findings:
    """What the API server says of some templates."""

    problems: list[str]
    """Of each template, as a refusal has them; "" for one that is valid or was not validated."""
    not_validated: list[int]
    """Indices."""
    reason: str = ""
    """Why they were not validated."""
    answer: str = ""
    """What the API server said then, or why there is no answer: not for a client that has no right to ask it."""

    def gap(self, validation: ValidationResult) -> str:
        """The sentence on the templates of ``validation`` that were not validated, or ""."""
        if not self.not_validated:
            return ""
        count = f"{len(self.not_validated)} of {len(self.problems)} Pod templates could not be validated"
        return f"{count}, the first that of {validation.field_of(self.not_validated[0])}: {self.reason}"


class TemplateValidator:
    """For one event loop."""

    def __init__(self, client: ApiClient, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        """``namespace``: where PodTemplates may be created."""
        self._client = client
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/podtemplates"
        self._clock = clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._valid: OrderedDict[bytes, float] = OrderedDict()
        """Hashes of templates, and when they are forgotten; the oldest first."""

    async def validate(self, templates: Sequence[bytes], seconds: float) -> Findings:
        """Have templates (JSON) validated. ``seconds``: after which the rest is not validated."""
        problems: list[str | None] = ["" if self._is_known(template) else None for template in templates]
        unknown = [index for index, problem in enumerate(problems) if problem is None]
        waiting, reason, answer = iter(unknown), "", ""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE_FOR_ONE, len(unknown))):
                    group.create_task(self._work(waiting, templates, problems))
        except* TimeoutError:
            reason = f"the API server did not answer in the {seconds:.1f} s that were left"
        except* NotValidatedError as errors:
            reason, answer = str(errors.exceptions[0]), getattr(errors.exceptions[0], "answer", "")
        not_validated = [index for index in unknown if problems[index] is None]
        return Findings([problem or "" for problem in problems], not_validated, reason, answer)

    async def _work(self, waiting: Iterator[int], templates: Sequence[bytes], problems: list[str | None]) -> None:
        for index in waiting:
            problems[index] = problem = await self._problems(templates[index])
            if not problem:
                self._remember(templates[index])

    async def _problems(self, template: bytes) -> str:
        """Raises NotValidatedError."""
        failure = ""
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(PAUSE * attempt)
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
        # Not rate-limited: a client is waiting, and how many requests there are at once is limited here.
        await self._client.request(
            "POST", self._path, body=_BODY % template, params=_DRY_RUN, priority=Priority.CONTROL
        )

    def _refusal(self, error: ApiError) -> str:
        """What is wrong with the template. Raises NotValidatedError if the error is about something else."""
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

    # --- what is known ------------------------------------------------------------------------------------------------
    def _is_known(self, template: bytes) -> bool:
        return self._valid.get(_hash(template), 0.0) > self._clock()

    def _remember(self, template: bytes) -> None:
        key = _hash(template)
        self._valid[key] = self._clock() + KEPT_SECONDS
        self._valid.move_to_end(key)
        if len(self._valid) > KEPT:
            self._valid.popitem(last=False)


def _hash(template: bytes) -> bytes:
    return sha256(template).digest()
