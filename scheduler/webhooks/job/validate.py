"""Validation of vcjobs (Volcano's /jobs/validate)."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from scheduler.api import batch
from scheduler.webhooks.cards import name_problems, request_problems
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, Operation, WebhookSettings
from scheduler.webhooks.decoding import DecodingError
from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH, join
from scheduler.webhooks.job.decoding import decode_job, number_problems
from scheduler.webhooks.job.mutate import with_defaults
from scheduler.webhooks.job.policies import duration_problems, policy_problems, timeout_problems
from scheduler.webhooks.job.references import mpi_problems, plugin_problems, queue_problems, volume_problems
from scheduler.webhooks.job.starting import TOO_FEW_REPLICAS, starting_problems
from scheduler.webhooks.job.tasks import dependency_problems, tasks_problems
from scheduler.webhooks.job.templates import MAX_TEMPLATES, Templates, decode_templates
from scheduler.webhooks.job.update import update_problems
from scheduler.webhooks.names import qualified_name
from scheduler.webhooks.podgroup import topology_problem
from scheduler.webhooks.validation_result import TemplateCheck, ValidationResult

_MAX_PREFIX_LENGTH: Final = 58
"""Characters of ``generateName`` that the API server keeps."""
_TOO_MANY_TEMPLATES: Final = (
    "spec.tasks: the tasks have {} different Pod templates, of which the API server can validate {} in the time that a "
    "review has: let tasks share templates, or split the job"
)


def validate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> ValidationResult:
    """All problems of a new job, or the first problem of an update."""
    try:
        if request.operation is not Operation.UPDATE:
            name = request.name or _generated_name(request.object)
            return _validate_creation(request.object, name, cluster, settings)
        text = _update_problem(with_defaults(request.old, settings), with_defaults(request.object, settings))
    except DecodingError as error:
        text = str(error)
    except RecursionError:
        text = "the object is nested too deeply"
    return ValidationResult([text])


def _generated_name(job: Json) -> str:
    """A name like the one that the API server generates, which truncates a long prefix."""
    metadata = job.get("metadata")
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{prefix[:_MAX_PREFIX_LENGTH]}xxxxx" if isinstance(prefix, str) and prefix else ""


def _validate_creation(raw: Json, name: str, cluster: ClusterView, settings: WebhookSettings) -> ValidationResult:
    """All problems of a new job. Raises DecodingError."""
    job = decode_job(raw)
    spec = job.spec
    if not spec.tasks:
        return ValidationResult(["No task specified in job spec"])
    problem = mpi_problems(spec)
    if problem:
        return ValidationResult([problem])
    templates = decode_templates(spec.tasks)
    if len(templates.encoded) > MAX_TEMPLATES:
        return ValidationResult([_TOO_MANY_TEMPLATES.format(len(templates.encoded), MAX_TEMPLATES)])
    text = ""
    job_name_problems = qualified_name(name)
    if job_name_problems:
        text += f"create job with name {name} validate failed [{' '.join(job_name_problems)}]"
    if sum(task.replicas for task in spec.tasks) < spec.min_available:
        text += TOO_FEW_REPLICAS
    text += policy_problems(spec.policies or [], "spec.policies")
    text += plugin_problems(spec.plugins or {}, settings.job_plugins)
    text += volume_problems(spec.volumes or [])
    text += queue_problems(spec.queue, cluster)
    text += dependency_problems(spec.tasks)
    additional = join(_additional_problems(job, templates), "; ")
    of_tasks = tasks_problems(spec.tasks, templates, name)
    parts, length = list[str | TemplateCheck](), 0
    for part in chain([topology_problem(spec.network_topology)], of_tasks, [text, f" {additional}"]):
        parts.append(part)
        length += len(part if isinstance(part, str) else part.problems)
        if length > MAX_MESSAGE_LENGTH:  # the problems of templates would not fit into the answer
            return ValidationResult(parts)
    return ValidationResult(parts, templates.encoded)


def _additional_problems(job: batch.Job, templates: Templates) -> Iterator[str]:
    """The problems that Volcano's admission does not check."""
    spec = job.spec
    yield from number_problems(spec)
    yield from request_problems(job.metadata.annotations)
    yield from starting_problems(spec)
    for index in range(len(spec.tasks)):
        for problem in name_problems(templates[index].metadata.annotations):
            yield f"spec.tasks[{index}].template.{problem}"
    yield from timeout_problems(spec.policies or [], "spec.policies")
    for index, task in enumerate(spec.tasks):
        yield from timeout_problems(task.policies or [], f"spec.tasks[{index}].policies")
    if spec.running_estimate is not None:
        yield from duration_problems(spec.running_estimate, "spec.runningEstimate")


def _update_problem(old: Json, new: Json) -> str:
    """The first problem of an update. Raises DecodingError.

    An unchanged spec is not validated again: a job with an invalid spec can still be labelled, and its finalizers
    removed.
    """
    job = None
    if old.get("spec") != new.get("spec"):
        job = decode_job(new)
        problem = update_problems(old, new, job)
        if problem:
            return problem
    if _annotations(old) == _annotations(new):
        return ""
    job = job or decode_job({"metadata": new.get("metadata")})
    return join(request_problems(job.metadata.annotations), "; ").strip()


def _annotations(job: Json) -> object:
    metadata = job.get("metadata")
    return metadata.get("annotations") if isinstance(metadata, dict) else metadata
