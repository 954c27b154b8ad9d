"""The distinct Pod templates of a vcjob.

Each is encoded as JSON, which the API server validates, and decoded as far as Volcano itself validates it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.batch import TaskSpec
from scheduler.api.objects import ResourceList, Wire
from scheduler.webhooks.contract import Json, WebhookSettings
from scheduler.webhooks.decoding import DecodingError, decode
from scheduler.webhooks.job.decoding import decode_job
from scheduler.webhooks.job.mutate import with_defaults
from scheduler.webhooks.validation_result import TemplateCheck, ValidationResult

MAX_TEMPLATES: Final = 2000
"""Distinct templates of a job. The API server validates 400 or more in a second, and a review times out in ten."""
_encode = msgspec.json.Encoder(order="deterministic").encode


class _Resources(Wire):
    requests: ResourceList = msgspec.field(default_factory=dict)
    limits: ResourceList = msgspec.field(default_factory=dict)


class _Container(Wire):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Metadata(Wire):
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _PodSpec(Wire):
    containers: list[_Container] = msgspec.field(default_factory=list)
    init_containers: list[_Container] = msgspec.field(default_factory=list)


class PodTemplate(Wire):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


@dataclass(slots=True)
class Templates:
    """The distinct templates of a job."""

    of_task: list[int] = field(default_factory=list)
    """The index of each task's template in the other lists."""
    typed: list[PodTemplate] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)

    def __getitem__(self, task: int) -> PodTemplate:
        return self.typed[self.of_task[task]]


def decode_templates(tasks: Sequence[TaskSpec]) -> Templates:
    """Returns the distinct templates. Raises DecodingError."""
    templates, known = Templates(), dict[bytes, int]()
    for index, task in enumerate(tasks):
        try:
            encoded = _encode(task.template)
            number = known.setdefault(encoded, len(known))
            if number == len(templates.typed):
                templates.typed.append(decode(task.template, PodTemplate))
                templates.encoded.append(encoded)
        except DecodingError as error:
            raise DecodingError(f"spec.tasks[{index}].template.{error}") from None
        except (TypeError, ValueError) as error:  # in a manifest: a key that is not a string
            raise DecodingError(f"spec.tasks[{index}].template: {error}") from None
        templates.of_task.append(number)
    return templates


def template_checks(job: Json, settings: WebhookSettings) -> ValidationResult:
    """The template checks of a new job, without the other checks of ``validate``; none if it cannot be decoded."""
    try:
        tasks = decode_job(with_defaults(job, settings)).spec.tasks
        templates = decode_templates(tasks)
    except (DecodingError, RecursionError):
        return ValidationResult()
    checks = [TemplateCheck(number, index) for index, number in enumerate(templates.of_task)]
    return ValidationResult([*checks], templates.encoded)
