"""Why a vcjob is refused (Volcano's /jobs/validate)."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from scheduler.api import batch
from scheduler.webhooks.cards import name_problems, request_problems
from scheduler.webhooks.contract import ClusterView, Json, Operation, Request, Settings
from scheduler.webhooks.fields import LONGEST_ANSWER, join
from scheduler.webhooks.job.claims import volume_problems
from scheduler.webhooks.job.mutate import defaulted
from scheduler.webhooks.job.plugins import mpi_problems, plugin_problems
from scheduler.webhooks.job.policies import duration_problems, policy_problems, timeout_problems
from scheduler.webhooks.job.queues import queue_problems
from scheduler.webhooks.job.reading import number_problems, read_job
from scheduler.webhooks.job.tasks import dependency_problems, tasks_problems
from scheduler.webhooks.job.templates import MOST_TEMPLATES, Templates, read_templates
from scheduler.webhooks.job.update import update_problems
from scheduler.webhooks.names import qualified_name
from scheduler.webhooks.reading import UnreadableError
from scheduler.webhooks.topology import topology_problem
from scheduler.webhooks.verdict import TemplateCheck, Verdict

_LONGEST_PREFIX: Final = 58
"""Characters of a name that an API server keeps of a prefix."""
_TOO_MANY: Final = (
    "spec.tasks: the tasks have {} different Pod templates, of which the API server can validate {} in the time that a "
    "review has: let tasks share templates, or split the job"
)


def validate(request: Request, cluster: ClusterView, settings: Settings) -> Verdict:
    """Everything that is wrong with a new job, or the first thing that is wrong with a change."""
    try:
        if request.operation is not Operation.UPDATE:
            name = request.name or _generated_name(request.object)
            return _creation_verdict(request.object, name, cluster, settings)
        text = _change_problems(defaulted(request.old, settings), defaulted(request.object, settings))
    except UnreadableError as error:
        text = str(error)
    except RecursionError:
        text = "the object is nested too deeply"
    return Verdict([text])


def _generated_name(job: Json) -> str:
    """What the API server's name will look like: it shortens a prefix that is too long."""
    metadata = job.get("metadata")
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{prefix[:_LONGEST_PREFIX]}xxxxx" if isinstance(prefix, str) and prefix else ""


def _creation_verdict(raw: Json, name: str, cluster: ClusterView, settings: Settings) -> Verdict:
    """Raises UnreadableError."""
    job = read_job(raw)
    spec = job.spec
    if not spec.tasks:
        return Verdict(["No task specified in job spec"])
    problem = mpi_problems(spec)
    if problem:
        return Verdict([problem])
    templates = read_templates(spec.tasks)
    if len(templates.encoded) > MOST_TEMPLATES:
        return Verdict([_TOO_MANY.format(len(templates.encoded), MOST_TEMPLATES)])
    text = ""
    wrong = qualified_name(name)
    if wrong:
        text += f"create job with name {name} validate failed [{' '.join(wrong)}]"
    if sum(task.replicas for task in spec.tasks) < spec.min_available:
        text += " job 'minAvailable' should not be greater than total replicas in tasks;"
    text += policy_problems(spec.policies or [], "spec.policies")
    text += plugin_problems(spec.plugins or {}, settings.job_plugins)
    text += volume_problems(spec.volumes or [])
    text += queue_problems(spec.queue, cluster)
    text += dependency_problems(spec.tasks)
    own = join(_own_problems(job, templates), "; ")
    of_tasks = tasks_problems(spec.tasks, templates, name)
    parts, length = list[str | TemplateCheck](), 0
    for part in chain([topology_problem(spec.network_topology)], of_tasks, [text, f" {own}"]):
        parts.append(part)
        length += len(part if isinstance(part, str) else part.problems)
        if length > LONGEST_ANSWER:  # nothing that the API server says of templates would be read
            return Verdict(parts)
    return Verdict(parts, templates.encoded)


def _own_problems(job: batch.Job, templates: Templates) -> Iterator[str]:
    """What Volcano's admission does not look at."""
    spec = job.spec
    yield from number_problems(spec)
    yield from request_problems(job.metadata.annotations)
    for index in range(len(spec.tasks)):
        for problem in name_problems(templates[index].metadata.annotations):
            yield f"spec.tasks[{index}].template.{problem}"
    yield from timeout_problems(spec.policies or [], "spec.policies")
    for index, task in enumerate(spec.tasks):
        yield from timeout_problems(task.policies or [], f"spec.tasks[{index}].policies")
    if spec.running_estimate is not None:
        yield from duration_problems(spec.running_estimate, "spec.runningEstimate")


def _change_problems(old: Json, new: Json) -> str:
    """Raises UnreadableError. A spec that stays as it is was admitted once: whatever it is, the job can be labelled and
    its finalizers be taken away."""
    job = None
    if old.get("spec") != new.get("spec"):
        job = read_job(new)
        problem = update_problems(old, new, job)
        if problem:
            return problem
    if _annotations(old) == _annotations(new):
        return ""
    job = job or read_job({"metadata": new.get("metadata")})
    return join(request_problems(job.metadata.annotations), "; ").strip()


def _annotations(job: Json) -> object:
    metadata = job.get("metadata")
    return metadata.get("annotations") if isinstance(metadata, dict) else metadata
