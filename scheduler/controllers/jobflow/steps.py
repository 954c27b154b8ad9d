"""The steps of a JobFlow: which jobs can be created now, from which templates, why others cannot, and the Events that
report it.

One Event reports all steps to which the same happens at once. It has the first names and their number, so that a flow
with many steps does not cause as many Events.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.batch import MAX_FLOW_STEPS, Flow, Job, JobFlow, JobPhase, JobTemplate
from scheduler.api.kinds import JOB_FLOW, VCJOB
from scheduler.api.names import (
    CREATED_BY_JOB_FLOW,
    CREATED_BY_JOB_TEMPLATE,
    EVENT_CREATED,
    EVENT_FOREIGN_JOB,
    EVENT_MALFORMED,
    EVENT_SYNC_JOB_FLOW,
)
from scheduler.api.start_order import OrderProblem
from scheduler.controllers.effects import Create, Json, RecordEvent, malformed, normal, warning
from scheduler.controllers.owners import foreign_job, manages, owned
from scheduler.framework.remedies.adjustments import join_names

_MAX_LABEL_LENGTH: Final = 63


@dataclass(slots=True)
class Steps:
    """The decisions about the steps of a JobFlow."""

    creates: dict[str, Create] = field(default_factory=dict)
    """Name of the job -> its creation."""
    foreign: list[Job] = field(default_factory=list)
    """Jobs that have the name of a job of the flow, and another owner."""
    missing: list[str] = field(default_factory=list)
    """Missing JobTemplates."""
    patches: list[tuple[int, str]] = field(default_factory=list)
    """Number and job of the steps to create that have a patch."""
    probes: list[tuple[int, str]] = field(default_factory=list)
    """Number and job of the steps to create that have a probe."""


def job_name(flow: JobFlow, step: str) -> str:
    """The name of the job of a step: ``<flow>-<template>``."""
    return f"{flow.metadata.name}-{step}"


def job_names(flow: JobFlow) -> list[str]:
    """The names of all jobs of the flow."""
    return list(dict.fromkeys(job_name(flow, step.name) for step in flow.spec.flows or ()))


def plan_steps(
    flow: JobFlow,
    gone: Collection[str],
    find_job: Callable[[str], Job | None],
    find_template: Callable[[str], JobTemplate | None],
) -> Steps:
    """Decides about each step. ``gone``: jobs that completed and were deleted since. The callables return objects of
    the flow's namespace by name."""
    steps = Steps()
    completed: dict[str, bool] = {}
    """Step that others depend on -> whether it is completed. Thousands may depend on one step."""

    def is_completed(step: str) -> bool:
        known = completed.get(step)
        if known is None:
            known = completed[step] = _is_completed(flow, job_name(flow, step), gone, find_job)
        return known

    for number, step in enumerate(flow.spec.flows or ()):
        name = job_name(flow, step.name)
        job = find_job(name)
        if job is not None and not manages(flow, job):
            steps.foreign.append(job)
        if job is not None or name in gone or name in steps.creates:
            continue
        targets = (step.depends_on.targets if step.depends_on is not None else None) or ()
        if not all(map(is_completed, targets)):
            continue
        template = find_template(step.name)
        if template is None:
            steps.missing.append(step.name)
            continue
        steps.creates[name] = Create(VCJOB, _manifest(flow, step, template))
        if step.patch:
            steps.patches.append((number, name))
        if step.depends_on is not None and step.depends_on.probe:
            steps.probes.append((number, name))
    return steps


def _is_completed(flow: JobFlow, name: str, gone: Collection[str], find_job: Callable[[str], Job | None]) -> bool:
    job = find_job(name)
    if job is None:
        return name in gone
    return manages(flow, job) and job.status.state.phase == JobPhase.COMPLETED


def _manifest(flow: JobFlow, step: Flow, template: JobTemplate) -> Json:
    namespace = flow.metadata.namespace
    marks = {
        CREATED_BY_JOB_TEMPLATE: f"{namespace}.{step.name}",
        CREATED_BY_JOB_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    manifest = owned(VCJOB, job_name(flow, step.name), JOB_FLOW, flow, spec=copy.deepcopy(template.spec))
    labels = {key: value for key, value in marks.items() if len(value) <= _MAX_LABEL_LENGTH}
    manifest["metadata"] |= {"annotations": marks} | ({"labels": labels} if labels else {})
    return manifest


# --- Events -----------------------------------------------------------------------------------------------------------
def created(flow: JobFlow, jobs: Sequence[str]) -> list[RecordEvent]:
    """Volcano's Event about a job that was created, or one about several."""
    if not jobs:
        return []
    text = (
        f"create a job named {jobs[0]}!" if len(jobs) == 1 else f"create {len(jobs)} jobs named {join_names([*jobs])}!"
    )
    return [normal(JOB_FLOW, flow, EVENT_CREATED, text)]


def sync_failure(flow: JobFlow, error: str) -> RecordEvent:
    """Volcano's Event about a JobFlow whose next step fails."""
    message = (
        f"SyncJobFlow JobFlow failed for sync jobflow {flow.metadata.name} failed for {error}, "
        "event is OutOfSync, action is SyncJobFlow"
    )
    return warning(JOB_FLOW, flow, EVENT_SYNC_JOB_FLOW, message)


def templates_missing(flow: JobFlow, templates: Sequence[str]) -> list[RecordEvent]:
    """The Event about JobTemplates that do not exist."""
    return [sync_failure(flow, not_found(templates))] if templates else []


def not_found(templates: Sequence[str]) -> str:
    """Which JobTemplates do not exist; "" if there are none. The text about a single one is Volcano's."""
    if not templates:
        return ""
    if len(templates) == 1:
        return f'jobtemplate.flow.volcano.sh "{templates[0]}" not found'
    names = join_names([f'"{name}"' for name in templates])
    return f"{len(templates)} jobtemplates.flow.volcano.sh: {names} not found"


def foreign_jobs(flow: JobFlow, jobs: Sequence[Job]) -> list[RecordEvent]:
    """The Event about jobs that have the names of jobs of the flow, and other owners."""
    if len(jobs) < 2:
        return [foreign_job(JOB_FLOW, flow, job) for job in jobs]
    names = join_names([job.metadata.name for job in jobs])
    text = f"{len(jobs)} Jobs exist but are not owned by this JobFlow: {names}"
    return [warning(JOB_FLOW, flow, EVENT_FOREIGN_JOB, text)]


def unused_patches(flow: JobFlow, steps: Sequence[tuple[int, str]]) -> list[RecordEvent]:
    """The Event about patches, which have no effect, as in Volcano. ``steps``: the number of each step, and its job."""
    if len(steps) == 1:
        problem = f"job {steps[0][1]} is made of its JobTemplate as it is"
    else:
        problem = f"{len(steps)} jobs are made of their JobTemplates as they are: {_jobs(steps)}"
    return [malformed(JOB_FLOW, flow, f"spec.flows[{_number(steps)}].patch", problem)] if steps else []


def unused_probes(flow: JobFlow, steps: Sequence[tuple[int, str]]) -> list[RecordEvent]:
    """Returns Events about probes that have no effect, as ``unused_patches`` does about patches."""
    if len(steps) == 1:
        problem = f"job {steps[0][1]} waits for its targets alone"
    else:
        problem = f"{len(steps)} jobs wait for their targets alone: {_jobs(steps)}"
    return [malformed(JOB_FLOW, flow, f"spec.flows[{_number(steps)}].dependsOn.probe", problem)] if steps else []


def too_many_steps(flow: JobFlow) -> RecordEvent:
    """The Event about a flow that is too large, of which no job is created."""
    problem = f"{len(flow.spec.flows or ())} steps, at most {MAX_FLOW_STEPS} are run for one flow"
    return malformed(JOB_FLOW, flow, "spec.flows", problem)


def order_text(problem: OrderProblem) -> str:
    """Why steps can never start."""
    if problem.cycle:
        names = join_names([*problem.cycle[1:]])
        if len(problem.cycle) == 2:
            return f"spec.flows: step {names} waits for itself"
        return f"spec.flows: steps {names} wait for each other, so none of them can start"
    step, target = problem.undefined
    return f'spec.flows: step {step} waits for "{target}", which is no step of the flow'


def no_order(flow: JobFlow, text: str) -> RecordEvent:
    """The Event about a flow whose steps cannot be ordered. ``text``: the reason."""
    return warning(JOB_FLOW, flow, EVENT_MALFORMED, f"{text}; no more jobs are created")


def _number(steps: Sequence[tuple[int, str]]) -> str:
    return str(steps[0][0]) if len(steps) == 1 else "*"


def _jobs(steps: Sequence[tuple[int, str]]) -> str:
    return join_names([job for _, job in steps])
