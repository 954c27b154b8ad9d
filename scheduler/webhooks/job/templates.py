"""Decodes a vcjob into typed structs, and its distinct Pod templates.

Each template is encoded as JSON, which the API server validates, and decoded as far as Volcano itself validates it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.objects import ResourceList, Wire
from scheduler.webhooks.contract import Json, TemplateCheck, ValidationResult, WebhookSettings
from scheduler.webhooks.decoding import DecodingError, decode
from scheduler.webhooks.fields import invalid
from scheduler.webhooks.job.mutate import with_defaults

_INT32: Final = range(-(2**31), 2**31)


def decode_job(raw: Json) -> batch.Job:
    """Decodes a vcjob. Raises DecodingError."""
    job = decode(_without_null_arguments(raw), batch.Job)
    for path, number, _ in _numbers(job.spec):
        if number is not None and number not in _INT32:
            raise DecodingError(f"spec.{path}: expected a number that fits in 32 bits")
    return job


def _without_null_arguments(raw: Json) -> Json:
    """Replaces null arguments of plugins by empty lists: decoding removes nulls, but the job still names the plugin."""
    spec = raw.get("spec")
    plugins = spec.get("plugins") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(plugins, dict):
        return raw
    arguments_of = {name: [] if arguments is None else arguments for name, arguments in plugins.items()}
    return {**raw, "spec": {**spec, "plugins": arguments_of}}


def number_problems(spec: batch.JobSpec) -> Iterator[str]:
    """Numbers below their minimum. The schema of the CustomResourceDefinition refuses them too, where it is
    installed."""
    for path, number, minimum in _numbers(spec):
        if number is not None and number < minimum:
            yield invalid(f"spec.{path}", number, f"must be greater than or equal to {minimum}")


def _numbers(spec: batch.JobSpec) -> Iterator[tuple[str, int | None, int]]:
    """Each number of the spec with its path and its minimum."""
    yield "minAvailable", spec.min_available, 0
    yield "maxRetry", spec.max_retry, 0
    yield "ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0
    yield "minSuccess", spec.min_success, 1
    yield from _exit_codes(spec.policies, "policies")
    for index, task in enumerate(spec.tasks):
        path = f"tasks[{index}]"
        yield f"{path}.replicas", task.replicas, 0
        yield f"{path}.minAvailable", task.min_available, 0
        yield f"{path}.maxRetry", task.max_retry, 0
        yield from _exit_codes(task.policies, f"{path}.policies")
        if task.partition_policy is not None:
            yield f"{path}.partitionPolicy.totalPartitions", task.partition_policy.total_partitions, _INT32.start
            yield f"{path}.partitionPolicy.partitionSize", task.partition_policy.partition_size, _INT32.start
            yield f"{path}.partitionPolicy.minPartitions", task.partition_policy.min_partitions, 0


def _exit_codes(policies: list[batch.LifecyclePolicy] | None, path: str) -> Iterator[tuple[str, int | None, int]]:
    for index, policy in enumerate(policies or ()):
        yield f"{path}[{index}].exitCode", policy.exit_code, _INT32.start


MAX_TEMPLATES: Final = 2000
"""Distinct templates of a job. The API server validates 400 or more in a second, and a review times out in ten."""
_encode = msgspec.json.Encoder(order="deterministic").encode


# --- Pod templates ----------------------------------------------------------------------------------------------------
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

    def add(self, template: Json) -> int:
        """Adds a template that no task has. Returns its index. Raises DecodingError."""
        self.typed.append(decode(template, PodTemplate))
        self.encoded.append(_encode(template))
        return len(self.encoded) - 1


def decode_templates(tasks: Sequence[batch.TaskSpec]) -> Templates:
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
