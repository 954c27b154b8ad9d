"""Why gangs and tasks wait: the messages of conditions and Events, the condition PodScheduled of Pods, and Warnings
about requested resources that no node has, but whose names resemble one that nodes have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from scheduler.api.decisions import PodsUnschedulable
from scheduler.api.job import Job
from scheduler.api.messages import similar_resource
from scheduler.api.names import POD_REASON_SCHEDULABLE, POD_REASON_UNSCHEDULABLE
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session

_MAX_MISSPELT: Final = 100
"""The largest number of Warnings of one session."""
_LIKENESS: Final = 0.85
"""How much names must resemble each other, from 0 to 1. It is high because nodes with further resources may be added
later."""
_CONSEQUENCE: Final = "the Pod waits until a node has it"


def gang_message(job: Job) -> str:
    """``pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is ...``"""
    ready = job.missing <= 0
    parts = sorted(
        [f"{len(tasks)} {status.value}" for status, tasks in job.by_status.items()] + [f"{job.min_member} minAvailable"]
    )
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(parts)}"
    pending = job.of(TaskStatus.PENDING)
    if pending:
        schedulable = tried_with_success(job)
        reasons = ((schedulable, POD_REASON_SCHEDULABLE), (len(pending) - schedulable, POD_REASON_UNSCHEDULABLE))
        text += "; Pending: " + ", ".join(sorted(f"{number} {reason}" for number, reason in reasons if number))
    origin = origin_reason(job)
    return f"{text}. Origin reason is{origin}" if origin else text


def tried_with_success(job: Job) -> int:
    """Returns the number of pending tasks that found a node in this session, which they gave back."""
    pending = job.of(TaskStatus.PENDING)
    return sum(1 for uid, (status, _) in job.transaction.items() if status is TaskStatus.ALLOCATED and uid in pending)


def origin_reason(job: Job) -> str:
    """Returns why a gang waits: a refusal of the whole job, or else the message of the first task by name that fits
    nowhere."""
    if job.refusals:
        return f": {'; '.join(dict.fromkeys(r.message for r in job.refusals))}"
    pending = job.remember("pending by name", None, partial(_by_name, job)) if job.fit_errors else []
    misfits = (task for task in pending if task.cls.id in job.fit_errors and task.uid not in job.transaction)
    first = next(misfits, None)
    return "" if first is None else f" {first.name}: {job.fit_errors[first.cls.id].message()}"


def _by_name(job: Job) -> list[Task]:
    """Returns the pending tasks by the number in their name, then by name."""
    return sorted(job.of(TaskStatus.PENDING).values(), key=lambda task: (task.index, task.name))


def report_tasks(session: Session, job: Job) -> None:
    """Sets PodScheduled=False with the reason on waiting tasks, unless they have this message."""
    shared: str | None = None
    messages = {cls: errors.message() for cls, errors in job.fit_errors.items()}
    if not job.placed and not job.transaction:  # equal tasks have one message
        for (cls, before), tasks in job.waiting_by_message().items():
            message = messages.get(cls, "")
            if not message:
                shared = gang_message(job) if shared is None else shared
                message = shared
            if message != before:
                session.decisions.pods.append(PodsUnschedulable(tasks, POD_REASON_UNSCHEDULABLE, message))
        return
    for status in (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED):
        for task in job.of(status).values():
            if task.gated or not task.ours:
                continue
            reason, message = _task_reason(session, job, task, status, messages)
            if not message:
                shared = gang_message(job) if shared is None else shared
                message = shared
            new = message != task.message
            nominated = session.nodes.names[job.placed[task.uid]] if task.uid in job.nominated else ""
            if new or (nominated and nominated != task.nominated):
                session.decisions.pods.append(PodsUnschedulable((task,), reason, message, nominated, new))


def _task_reason(
    session: Session, job: Job, task: Task, status: TaskStatus, messages: Mapping[int, str]
) -> tuple[str, str]:
    """Returns the reason and the message of a waiting task; "": only its job has one. ``messages``: class id -> why it
    fits nowhere."""
    row = job.placed.get(task.uid)
    given = job.transaction.get(task.uid)
    if row is not None:
        given = (status, session.nodes.names[row])
    if given is not None and given[0] is TaskStatus.ALLOCATED:
        where = f"Pod {task.key} can possibly be assigned to {given[1]}"
        return POD_REASON_SCHEDULABLE, f"{where}, once minAvailable is satisfied"
    if given is not None:
        where = f"Pod {task.key} can possibly be assigned to {given[1]}"
        return POD_REASON_UNSCHEDULABLE, f"{where}, once resource is released and minAvailable is satisfied"
    return POD_REASON_UNSCHEDULABLE, messages.get(task.cls.id, "")


# --- misspelt resources ---
def report_misspelt_resources(session: Session) -> None:
    """Records a Warning for a waiting Pod of each class of a job, or else for its PodGroup; a hundred at most."""
    meant = _meant(session)
    if meant:
        for malformed in islice(_misspelt(session, meant), _MAX_MISSPELT):
            session.malformed_field(malformed)


def _misspelt(session: Session, meant: dict[int, tuple[str, str]]) -> Iterator[Malformed]:
    positions = list(meant)
    for job in session.active_jobs.values():
        if job.pending[positions].any():
            requests = {task.cls.id: (task.name, task.cls.request) for task in job.of(TaskStatus.PENDING).values()}
            for name, request in requests.values():
                at = Malformed("Pod", job.namespace, name, "spec.containers[].resources", "", _CONSEQUENCE)
                yield from _misspelt_amounts(meant, request, at)
        elif job.min_resources is not None and not job.size:
            at = Malformed("PodGroup", job.namespace, job.name, "spec.minResources", "", _CONSEQUENCE)
            yield from _misspelt_amounts(meant, job.min_resources, at)


def _meant(session: Session) -> dict[int, tuple[str, str]]:
    """Returns the position of each resource that no node has -> its name, and the name of the resource that it
    resembles."""
    names, nodes = session.dimensions.names, session.nodes
    absent = np.flatnonzero(session.total[: len(names)] == 0)
    if not len(absent) or not len(nodes):
        return {}
    absent = absent[nodes.capacity[absent].max(axis=1) == 0]
    unknown = {names[position] for position in absent}
    known = [name for name in names if name not in unknown]
    found = {int(position): similar_resource(names[position], known, _LIKENESS) for position in absent}
    return {position: (names[position], name) for position, name in found.items() if name}


def _misspelt_amounts(meant: dict[int, tuple[str, str]], amounts: Vector, at: Malformed) -> Iterator[Malformed]:
    """Yields a report for each requested resource that is misspelt. ``at``: the field with the amounts."""
    for position, (resource, other) in meant.items():
        if amounts[position] > 0:
            problem = f"no node has this resource; did you mean {other!r}?"
            yield replace(at, field=f"{at.field}[{resource}]", problem=problem)
