"""Validation of vcjobs (Volcano's /jobs/validate), and of JobTemplates and CronJobs that create them: their jobs must
be able to start, as far as their own tasks and job plugins decide.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from scheduler.api import batch
from scheduler.api.batch import JobSpec, JobVolume
from scheduler.api.card_alternatives import job_alternatives, with_alternative
from scheduler.api.job_plugins import ArgumentError, SshOptions, argument_problems, parse
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import OPEN
from scheduler.api.start_order import WAITING_PLUGINS, start_problems
from scheduler.framework.ssh_keys import public_key_of
from scheduler.webhooks.cards import name_problems, request_problems
from scheduler.webhooks.contract import (
    AdmissionRequest,
    ClusterView,
    Json,
    Operation,
    TemplateCheck,
    ValidationResult,
    WebhookSettings,
)
from scheduler.webhooks.decoding import DecodingError, validator
from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH, dns_subdomain, join, qualified_name
from scheduler.webhooks.job.mutate import with_defaults
from scheduler.webhooks.job.tasks import (
    dependency_problems,
    duration_problems,
    policy_problems,
    tasks_problems,
    timeout_problems,
)
from scheduler.webhooks.job.templates import MAX_TEMPLATES, Templates, decode_job, decode_templates, number_problems
from scheduler.webhooks.job.update import update_problems
from scheduler.webhooks.podgroup import topology_problem
from scheduler.webhooks.queue.hierarchy import children_of, queue_not_found

_TOO_FEW_REPLICAS: Final = " job 'minAvailable' should not be greater than total replicas in tasks;"
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
    problem = _mpi_problems(spec)
    if problem:
        return ValidationResult([problem])
    templates = decode_templates(spec.tasks)
    alternatives = list(_alternative_checks(job, templates))
    if len(templates.encoded) > MAX_TEMPLATES:
        return ValidationResult([_TOO_MANY_TEMPLATES.format(len(templates.encoded), MAX_TEMPLATES)])
    text = ""
    job_name_problems = qualified_name(name)
    if job_name_problems:
        text += f"create job with name {name} validate failed [{' '.join(job_name_problems)}]"
    if sum(task.replicas for task in spec.tasks) < spec.min_available:
        text += _TOO_FEW_REPLICAS
    text += policy_problems(spec.policies or [], "spec.policies")
    text += _plugin_problems(spec.plugins or {}, settings.job_plugins)
    text += _volume_problems(spec.volumes or [])
    text += _queue_problems(spec.queue, cluster)
    text += dependency_problems(spec.tasks)
    additional = join(_additional_problems(job, templates), "; ")
    of_tasks = tasks_problems(spec.tasks, templates, name)
    parts, length = list[str | TemplateCheck](), 0
    for part in chain([topology_problem(spec.network_topology)], of_tasks, alternatives, [text, f" {additional}"]):
        parts.append(part)
        length += len(part if isinstance(part, str) else part.problems)
        if length > MAX_MESSAGE_LENGTH:  # the problems of templates would not fit into the answer
            return ValidationResult(parts)
    return ValidationResult(parts, templates.encoded)


def _alternative_checks(job: batch.Job, templates: Templates) -> Iterator[TemplateCheck]:
    """Checks of the Pod templates of tasks with each alternative, which are added to ``templates``. Raises
    DecodingError."""
    alternatives = job_alternatives(job.spec)
    if alternatives is None:
        return
    for name in alternatives.names:
        changed = with_alternative(job, alternatives, name)
        for index in alternatives.of_task:
            number = templates.add(changed.spec.tasks[index].template)
            yield TemplateCheck(number, index, field=f"spec.task[{index}] with alternative {name}")


def _alternative_problems(spec: JobSpec) -> Iterator[str]:
    alternatives = job_alternatives(spec)
    for field, problem in alternatives.problems if alternatives is not None else ():
        yield f"{field}: {problem}"


def _additional_problems(job: batch.Job, templates: Templates) -> Iterator[str]:
    """The problems that Volcano's admission does not check."""
    spec = job.spec
    yield from number_problems(spec)
    yield from request_problems(job.metadata.annotations)
    yield from _alternative_problems(spec)
    yield from _starting_problems(spec)
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


# --- jobs that can never start ----------------------------------------------------------------------------------------
def _starting_problems(spec: batch.JobSpec) -> Iterator[str]:
    """The problems that Volcano's admission does not check. ``spec``: with its defaults."""
    yield from argument_problems(spec)
    yield from _key_problems(spec)
    if not dependency_problems(spec.tasks):
        refusal = start_problems(spec).refusal
        if refusal:
            yield f"spec.tasks: {refusal}"


def _key_problems(spec: batch.JobSpec) -> Iterator[str]:
    """The private key of the plugin ``ssh`` that cannot be read, unless its public key comes with it."""
    try:
        options = parse(SshOptions, (spec.plugins or {}).get("ssh") or ())
    except ArgumentError:  # another message names the argument
        return
    if options.private_key and not options.public_key:
        try:
            public_key_of(options.private_key)
        except ArgumentError as error:
            yield f"spec.plugins: plugin ssh: {error}"


def starting_warnings(spec: Json, *, stored: bool) -> Iterator[str]:
    """Why tasks can never, or perhaps not, start. ``spec``: of any shape; ``stored``: whether controllers take it as it
    is. A new one gets the defaults of admission, which refuses a job that can never start."""
    plugins = spec.get("plugins")
    if not isinstance(plugins, dict) or not WAITING_PLUGINS & plugins.keys():
        return  # tasks that only depend on each other are refused
    try:
        raw = {"spec": spec}
        problems = start_problems(decode_job(raw if stored else with_defaults(raw, WebhookSettings())).spec)
    except (DecodingError, RecursionError):  # other messages say what is malformed
        return
    if problems.refusal and stored:
        yield problems.refusal
    yield from problems.warnings


@validator(batch.JobTemplate, of_spec=True)
def validate_template(
    template: batch.JobTemplate, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings
) -> str:
    """Why no job made from a JobTemplate can start, or "". Volcano has no such webhook."""
    return template_problem(template.spec, settings)


def template_problem(spec: Json, settings: WebhookSettings) -> str:
    """Why no job with a spec can ever start, or "", as far as its tasks and plugins say. The rest is checked when a job
    is created; resource definitions say that there are tasks."""
    try:
        job = decode_job(with_defaults({"spec": spec}, settings)).spec
    except DecodingError as error:
        return str(error)
    except RecursionError:
        return "the object is nested too deeply"
    if not job.tasks:
        return ""
    total = sum(task.replicas for task in job.tasks)
    problems = (
        _mpi_problems(job),
        _TOO_FEW_REPLICAS if total < job.min_available else "",
        _plugin_problems(job.plugins or {}, settings.job_plugins),
        dependency_problems(job.tasks),
        *_alternative_problems(job),
        *_starting_problems(job),
    )
    return "; ".join(problem.strip(" ;") for problem in problems if problem)


_MPI: Final = "mpi"
_MPI_FLAGS: Final = ("master", "worker", "port")
_DEFAULT_MASTER: Final = "master"


# --- references to plugins, queues and claims -------------------------------------------------------------------------
def _plugin_problems(plugins: Mapping[str, object], known: Collection[str]) -> str:
    """The unknown job plugins, sorted by name."""
    return "".join(f" unable to find job plugin: {name};" for name in sorted(plugins) if name not in known)


def _mpi_problems(spec: JobSpec) -> str:
    """The master of an mpi job must be one of its tasks."""
    plugins = spec.plugins or {}
    if _MPI not in plugins or any(task.name == _mpi_master(plugins[_MPI] or ()) for task in spec.tasks):
        return ""
    return "The specified mpi master task was not found"


def _mpi_master(arguments: Sequence[str]) -> str:
    """The master that the flags name; parsing stops at the first argument that is not a flag of the plugin."""
    master, remaining = _DEFAULT_MASTER, iter(arguments)
    for argument in remaining:
        flag, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or flag not in _MPI_FLAGS:
            break
        value = value if equals else next(remaining, "")
        if flag == "master":
            master = value
    return master


def _queue_problems(name: str, cluster: ClusterView) -> str:
    """Why the queue does not accept vcjobs, or ""."""
    queue = cluster.queue(name)
    if queue is None:
        return f" unable to find job queue: {queue_not_found(name)};"
    text = ""
    if queue.status.state not in (OPEN, ""):  # "": a new queue, which the controller has not opened yet
        state = queue.status.state
        text = f" can only submit job to queue with state `{OPEN}`, queue `{name}` status is `{state}`;"
    if name == ROOT_QUEUE:
        return f"{text} can not submit job to root queue;"
    children = len(children_of(name, cluster))
    if children:
        text += f" can only submit job to leaf queue, queue `{name}` has {children} child queues;"
    return text


def _volume_problems(volumes: list[JobVolume]) -> str:
    """The problem of the first invalid volume, as in Volcano's validateIO."""
    mount_paths: set[str] = set()
    for volume in volumes:
        path, name = volume.mount_path, volume.volume_claim_name
        if not path:
            return " mountPath is required;"
        if path in mount_paths:
            return f" duplicated mountPath: {path};"
        if volume.volume_claim is None and not name:
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if name:
            if volume.volume_claim is not None:
                return (
                    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
                )
            problems = dns_subdomain(name)
            if problems:
                return f"invalid VolumeClaimName {name} : [{' '.join(problems)}]"
        mount_paths.add(path)
    return ""
