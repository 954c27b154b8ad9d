"""The Pod templates of a vcjob: each distinct one once, as JSON for the API server to validate, and typed as far as
Volcano itself looks into it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.batch import TaskSpec
from scheduler.api.objects import ResourceList, Wire
from scheduler.webhooks.contract import Json, Settings
from scheduler.webhooks.job.mutate import defaulted
from scheduler.webhooks.job.reading import read_job
from scheduler.webhooks.reading import UnreadableError, read
from scheduler.webhooks.verdict import TemplateCheck, Verdict

MOST_TEMPLATES: Final = 2000
"""Distinct templates of one job: 400 or more are validated in a second, and a review has ten seconds."""
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
    """Those of a job."""

    of_task: list[int] = field(default_factory=list)
    """For each task the index of its template in the other lists."""
    typed: list[PodTemplate] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)

    def __getitem__(self, task: int) -> PodTemplate:
        return self.typed[self.of_task[task]]


def read_templates(tasks: Sequence[TaskSpec]) -> Templates:
    """Raises UnreadableError."""
    templates, known = Templates(), dict[bytes, int]()
    for index, task in enumerate(tasks):
        try:
            encoded = _encode(task.template)
            number = known.setdefault(encoded, len(known))
            if number == len(templates.typed):
                templates.typed.append(read(task.template, PodTemplate))
                templates.encoded.append(encoded)
        except UnreadableError as error:
            raise UnreadableError(f"spec.tasks[{index}].template.{error}") from None
        except (TypeError, ValueError) as error:  # in a manifest: a key that is no text, half a surrogate pair
            raise UnreadableError(f"spec.tasks[{index}].template: {error}") from None
        templates.of_task.append(number)
    return templates


def template_verdict(job: Json, settings: Settings) -> Verdict:
    """What the API server has to say before a new job can be created, and nothing else of ``validate``."""
    try:
        tasks = read_job(defaulted(job, settings)).spec.tasks
        templates = read_templates(tasks)
    except (UnreadableError, RecursionError):
        return Verdict()
    checks = [TemplateCheck(number, index) for index, number in enumerate(templates.of_task)]
    return Verdict([*checks], templates.encoded)
