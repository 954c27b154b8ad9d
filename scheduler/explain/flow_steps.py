"""The steps of a JobFlow: which job it waits for now, and which steps wait for which."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.api.batch import FINISHED_PHASES, Job, JobFlow, JobPhase
from scheduler.api.flow_order import order_problem
from scheduler.api.kinds import JOB_TEMPLATE, VCJOB
from scheduler.cluster.memory import MemoryCluster
from scheduler.controllers.jobflow.status import FAILED, SUCCEED, gone_completed, read_status
from scheduler.controllers.jobflow.steps import job_name, order_text
from scheduler.controllers.owners import manages
from scheduler.explain.owned_groups import owned_by, waiting_groups

Raw = dict[str, Any]
ENDED_FLOWS: Final = (SUCCEED, FAILED)
"""Phases in which a JobFlow creates no more jobs."""
_SHOWN: Final = 3


class FlowSteps(msgspec.Struct, frozen=True):
    """The steps of a JobFlow at a time."""

    waiting: tuple[str, ...]
    """Names of the vcjobs that wait, in the order of their steps."""
    unfinished: tuple[str, ...]
    """Names of all vcjobs that have not finished."""
    text: str
    """Which steps have no job, and what they wait for; "": none."""


def steps_of(cluster: MemoryCluster, raw: Raw) -> FlowSteps:
    """Looks at the jobs of a JobFlow. ``raw``: the JobFlow."""
    try:
        flow = msgspec.convert(raw, JobFlow)
        owned = [msgspec.convert(job, Job) for job in cluster.server.of(VCJOB) if _belongs(job, raw)]
    except msgspec.ValidationError:
        return FlowSteps((), (), "")  # an Event says what is malformed
    namespace = flow.metadata.namespace
    jobs = {job.metadata.name: job for job in owned if manages(flow, job)}
    done = {name for name, job in jobs.items() if job.status.state.phase == JobPhase.COMPLETED}
    done |= set(gone_completed(read_status(flow), list(jobs.values())))
    unfinished, waits, blocked = list[str](), list[str](), list[str]()
    for step in flow.spec.flows or ():
        name = job_name(flow, step.name)
        job = jobs.get(name)
        if job is not None:
            if job.status.state.phase not in FINISHED_PHASES:
                unfinished.append(name)
                groups = owned_by(cluster, namespace, [job.metadata.uid]).groups
                if not groups or waiting_groups(cluster, namespace, groups):
                    waits.append(name)
            continue
        if name in done:
            continue
        targets = dict.fromkeys((step.depends_on.targets if step.depends_on is not None else None) or ())
        missing = [target for target in targets if job_name(flow, target) not in done]
        if missing:
            blocked.append(f"step {step.name} waits for {_listed(_target(flow, jobs, target) for target in missing)}")
        elif cluster.server.find(JOB_TEMPLATE, namespace, step.name) is None:
            blocked.append(f"step {step.name} waits for JobTemplate {namespace}/{step.name}, which does not exist")
    problem = order_problem(flow.spec.flows or ())
    text = _limited(blocked, "; ", "steps wait") if problem is None else order_text(problem)
    return FlowSteps(tuple(waits), tuple(unfinished), text)


def _belongs(job: Raw, flow: Raw) -> bool:
    meta = job["metadata"]
    references = meta.get("ownerReferences") or ()
    return meta.get("namespace") == flow["metadata"]["namespace"] and any(
        owner.get("uid") == flow["metadata"]["uid"] for owner in references
    )


def _target(flow: JobFlow, jobs: dict[str, Job], target: str) -> str:
    """A step with the state of its job, unless that has not been created."""
    job = jobs.get(job_name(flow, target))
    return target if job is None else f"{target} ({job.status.state.phase or JobPhase.PENDING})"


def _listed(names: Iterable[str]) -> str:
    return _limited(list(names), ", ", "")


def _limited(texts: list[str], separator: str, of: str) -> str:
    more = f" and {len(texts) - _SHOWN} more {of}".rstrip() if len(texts) > _SHOWN else ""
    return separator.join(texts[:_SHOWN]) + more
