"""The steps of a JobFlow: which jobs can be created now, from which templates, and why others cannot."""

import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.batch import Flow, Job, JobFlow, JobPhase, JobTemplate
from scheduler.api.kinds import JOB_FLOW, VCJOB
from scheduler.api.names import CREATED_BY_JOB_FLOW, CREATED_BY_JOB_TEMPLATE, EVENT_SYNC_JOB_FLOW
from scheduler.controllers.effects import Create, Json, RecordEvent, malformed, warning
from scheduler.controllers.owners import foreign_job, manages, owned

_MAX_LABEL_LENGTH: Final = 63


@dataclass(slots=True)
class Steps:
    """What to do for the steps of a JobFlow."""

    creates: dict[str, Create] = field(default_factory=dict)
    """By the name of the job."""
    events: list[RecordEvent] = field(default_factory=list)
    foreign: list[RecordEvent] = field(default_factory=list)
    """Events about jobs that have the name of one of the flow's and another owner."""
    missing: list[str] = field(default_factory=list)
    """Missing JobTemplates."""


def job_name(flow: JobFlow, step: str) -> str:
    """``<flow>-<template>``."""
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
    """``gone``: jobs that completed and were deleted since. The callables find by name in the flow's namespace."""
    steps = Steps()
    for number, step in enumerate(flow.spec.flows or ()):
        name = job_name(flow, step.name)
        job = find_job(name)
        if job is not None and not manages(flow, job):
            steps.foreign.append(foreign_job(JOB_FLOW, flow, job))
        if job is not None or name in gone or name in steps.creates:
            continue
        targets = (step.depends_on.targets if step.depends_on is not None else None) or ()
        if not all(_is_completed(flow, job_name(flow, target), gone, find_job) for target in targets):
            continue
        template = find_template(step.name)
        if template is None:
            steps.missing.append(step.name)
            continue
        steps.creates[name] = Create(VCJOB, _manifest(flow, step, template))
        steps.events += _unused(flow, number, step)
    return steps


def sync_failure(flow: JobFlow, error: str) -> RecordEvent:
    """Volcano's Event about a JobFlow whose next step fails."""
    message = (
        f"SyncJobFlow JobFlow failed for sync jobflow {flow.metadata.name} failed for {error}, "
        "event is OutOfSync, action is SyncJobFlow"
    )
    return warning(JOB_FLOW, flow, EVENT_SYNC_JOB_FLOW, message)


def template_missing(flow: JobFlow, template: str) -> RecordEvent:
    return sync_failure(flow, f'jobtemplate.flow.volcano.sh "{template}" not found')


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


def _unused(flow: JobFlow, number: int, step: Flow) -> Iterator[RecordEvent]:
    """Fields that the API has and that neither Volcano nor we act on."""
    if step.patch:
        problem = f"job {job_name(flow, step.name)} is made of its JobTemplate as it is"
        yield malformed(JOB_FLOW, flow, f"spec.flows[{number}].patch", problem)
    if step.depends_on is not None and step.depends_on.probe:
        problem = f"job {job_name(flow, step.name)} waits for its targets alone"
        yield malformed(JOB_FLOW, flow, f"spec.flows[{number}].dependsOn.probe", problem)
