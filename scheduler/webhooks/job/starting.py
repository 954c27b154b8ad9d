"""Jobs that can never start because of their own tasks and job plugins, whatever else the cluster has.

Admission refuses such vcjobs, and JobTemplates and CronJobs that create them.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.api.batch import JobSpec
from scheduler.api.job_plugins import argument_problems
from scheduler.api.start_order import WAITING_PLUGINS, start_problems
from scheduler.webhooks.contract import Json, WebhookSettings
from scheduler.webhooks.decoding import DecodingError
from scheduler.webhooks.job.decoding import decode_job
from scheduler.webhooks.job.mutate import with_defaults
from scheduler.webhooks.job.references import mpi_problems, plugin_problems
from scheduler.webhooks.job.tasks import dependency_problems

TOO_FEW_REPLICAS: Final = " job 'minAvailable' should not be greater than total replicas in tasks;"


def starting_problems(spec: JobSpec) -> Iterator[str]:
    """The problems that Volcano's admission does not check. ``spec``: with its defaults."""
    yield from argument_problems(spec)
    if not dependency_problems(spec.tasks):
        refusal = start_problems(spec).refusal
        if refusal:
            yield f"spec.tasks: {refusal}"


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
        mpi_problems(job),
        TOO_FEW_REPLICAS if total < job.min_available else "",
        plugin_problems(job.plugins or {}, settings.job_plugins),
        dependency_problems(job.tasks),
        *starting_problems(job),
    )
    return "; ".join(problem.strip(" ;") for problem in problems if problem)
