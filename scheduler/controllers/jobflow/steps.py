"""The steps of a JobFlow: which jobs can be created now, from which templates, and why others cannot."""

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.batch import Flow, Job, JobFlow, JobPhase, JobTemplate
from scheduler.api.kinds import JOB_FLOW, VCJOB
from scheduler.api.names import CREATED_BY_JOB_FLOW, CREATED_BY_JOB_TEMPLATE
from scheduler.controllers.effects import Create, Json
from scheduler.controllers.owners import manages, owned

_MAX_LABEL_LENGTH: Final = 63


@dataclass(slots=True)
class Steps:
    """What to do for the steps of a JobFlow."""

    creates: dict[str, Create] = field(default_factory=dict)
    """Name of the job -> its creation."""
    foreign: list[Job] = field(default_factory=list)
    """Jobs that have the name of one of the flow's and another owner."""
    missing: list[str] = field(default_factory=list)
    """Missing JobTemplates."""
    patches: list[tuple[int, str]] = field(default_factory=list)
    """Number and job of the steps to create that have a patch."""
    probes: list[tuple[int, str]] = field(default_factory=list)
    """The same of those that have a probe."""


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
