"""Why gangs and tasks wait: the messages of conditions and Events, and the condition PodScheduled of Pods."""

from collections.abc import Mapping
from functools import partial

from scheduler.api.decisions import PodsUnschedulable
from scheduler.api.job import Job
from scheduler.api.names import POD_REASON_SCHEDULABLE, POD_REASON_UNSCHEDULABLE
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session


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
