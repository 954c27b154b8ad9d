"""The end of a session: what PodGroups, Pods and Queues are told about it.

Statuses are written only where they differ from what the API server has, apart from times and transition ids, so an
unchanged cluster causes no writes. A gang that was placed is never called unschedulable, and an Event and a condition
of the same session carry the same numbers (docs/differences.md).
"""

from collections.abc import Mapping

from scheduler.api.decisions import PodGroupStatusUpdate, PodUnschedulable, QueueAllocated
from scheduler.api.job import INQUEUE, Job
from scheduler.api.moment import format_moment
from scheduler.api.names import (
    CONDITION_UNSCHEDULABLE,
    EVENT_FAILED_SCHEDULING,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_UNSCHEDULABLE,
    EVENT_WARNING,
    POD_REASON_SCHEDULABLE,
    POD_REASON_UNSCHEDULABLE,
    REASON_QUEUE_NOT_FOUND,
    ROOT_QUEUE,
)
from scheduler.api.objects import PodGroupCondition
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.extension import CLOSE
from scheduler.framework.held_devices import held_devices
from scheduler.framework.session import Session, group_ref, pod_ref

PENDING, RUNNING, UNKNOWN, COMPLETED = "Pending", "Running", "Unknown", "Completed"
GROUP_READY = "pod group is ready"
_ORDER = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.FAILED,
    TaskStatus.PENDING,
    TaskStatus.PIPELINED,
    TaskStatus.RELEASING,
    TaskStatus.RUNNING,
    TaskStatus.SUCCEEDED,
    TaskStatus.UNKNOWN,
)


def close_session(session: Session) -> None:
    """Let plugins close, then add status updates and Events to the session's decisions."""
    session.ask(CLOSE)
    for job in session.jobs.values():
        _close_job(session, job)
    _close_queues(session)


# --- PodGroups ---
def group_phase(job: Job) -> str:
    """The PodGroup's phase from its tasks (Volcano's getPodGroupPhase); tasks on their way do not count yet."""
    by_status = job.by_status
    succeeded = len(by_status.get(TaskStatus.SUCCEEDED, ()))
    failed = len(by_status.get(TaskStatus.FAILED, ()))
    running = len(by_status.get(TaskStatus.RUNNING, ()))
    if running and any(c[0] == CONDITION_UNSCHEDULABLE for c in job.new_conditions):
        return UNKNOWN
    scheduled = succeeded + failed + running + len(by_status.get(TaskStatus.BOUND, ()))
    releasing = by_status.get(TaskStatus.RELEASING)
    if releasing:
        scheduled += sum(1 for task in releasing.values() if task.node)
    if scheduled >= job.min_member:
        return COMPLETED if scheduled == succeeded + failed else RUNNING
    return INQUEUE if job.phase == INQUEUE else PENDING


def _close_job(session: Session, job: Job) -> None:
    if job.queue not in session.queues:
        _refuse_queue(session, job)
        return
    phase = group_phase(job)
    if job.refusals and not job.by_status:
        reasons = "; ".join(dict.fromkeys(r.message for r in job.refusals))
        job.new_conditions.append((CONDITION_UNSCHEDULABLE, "True", job.refusals[0].reason, reasons))
    conditions = _conditions(session, job)
    _tell_refusals(session, job)
    counts = (job.count(TaskStatus.RUNNING), job.count(TaskStatus.SUCCEEDED), job.count(TaskStatus.FAILED))
    if phase != job.stored_phase or counts != job.counts or conditions is not job.conditions:
        session.decisions.pod_groups.append(
            PodGroupStatusUpdate(
                job.namespace,
                job.name,
                job.uid,
                phase,
                conditions,
                *counts,
                admits=phase == INQUEUE and job.stored_phase != INQUEUE,
            )
        )
        if phase == RUNNING and job.stored_phase != RUNNING:
            session.event(group_ref(job), EVENT_NORMAL, EVENT_SCHEDULED, GROUP_READY)
    for type_, _, _, message in job.new_conditions:
        if type_ == CONDITION_UNSCHEDULABLE and conditions is not job.conditions and job.by_status:
            session.event(group_ref(job), EVENT_WARNING, EVENT_UNSCHEDULABLE, message)
    if (
        TaskStatus.PENDING in job.by_status
        or TaskStatus.ALLOCATED in job.by_status
        or TaskStatus.PIPELINED in job.by_status
    ):
        _explain_tasks(session, job)


def _tell_refusals(session: Session, job: Job) -> None:
    """An Event for each refusal that is not yet written on the PodGroup or on a Pod that waits. The condition of Pods
    with scheduling gates is not ours to write: of a job of such Pods alone, only what the PodGroup keeps is told."""
    if not job.refusals:
        return
    pending = job.of(TaskStatus.PENDING).values()
    waiting = next((task for task in pending if not task.gated), None)
    all_gated = bool(pending) and waiting is None
    told = [c.message for c in job.conditions] + ([waiting.message] if waiting else [])
    for refusal in dict.fromkeys(job.refusals):
        lasting = not all_gated or any(refusal.message in message for _, _, _, message in job.new_conditions)
        if lasting and not any(refusal.message in text for text in told):
            session.event(group_ref(job), EVENT_WARNING, refusal.reason, refusal.message)


def _refuse_queue(session: Session, job: Job) -> None:
    """A job whose queue does not exist waits, and is told so; its phase is not touched."""
    message = f"queue {job.queue} does not exist"
    session.refuse(job, Refusal(REASON_QUEUE_NOT_FOUND, message))
    job.new_conditions = [(CONDITION_UNSCHEDULABLE, "True", REASON_QUEUE_NOT_FOUND, message)]
    conditions = _conditions(session, job)
    if conditions is not job.conditions:
        session.decisions.pod_groups.append(
            PodGroupStatusUpdate(job.namespace, job.name, job.uid, job.stored_phase, conditions, *job.counts)
        )
        session.event(group_ref(job), EVENT_WARNING, EVENT_UNSCHEDULABLE, message)
    _explain_tasks(session, job)


def _conditions(session: Session, job: Job) -> tuple[PodGroupCondition, ...]:
    """The PodGroup's conditions after this session; the very same tuple if none changed."""
    conditions = job.conditions
    for type_, status, reason, message in job.new_conditions:
        old = next((c for c in conditions if c.type == type_), None)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            continue
        new = PodGroupCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            transition_id=f"{int(session.now * 1000):x}",
            last_transition_time=format_moment(session.now),
        )
        if old is None:
            conditions = (*conditions, new)
        else:
            conditions = tuple(new if c is old else c for c in conditions)
    return conditions


# --- why a gang waits ---
def gang_message(job: Job) -> str:
    """``pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is ...``"""
    ready = job.ready_count + job.pending_best_effort >= job.min_member
    parts = sorted(
        [f"{len(job.by_status[status])} {status.value}" for status in _ORDER if status in job.by_status]
        + [f"{job.min_member} minAvailable"]
    )
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(parts)}"
    pending = job.of(TaskStatus.PENDING)
    if pending:
        schedulable = sum(1 for uid in pending if job.transaction.get(uid, (None,))[0] is TaskStatus.ALLOCATED)
        reasons = ((schedulable, POD_REASON_SCHEDULABLE), (len(pending) - schedulable, POD_REASON_UNSCHEDULABLE))
        text += "; Pending: " + ", ".join(sorted(f"{number} {reason}" for number, reason in reasons if number))
    origin = origin_reason(job)
    return f"{text}. Origin reason is{origin}" if origin else text


def origin_reason(job: Job) -> str:
    """What stands behind a gang that waits: a refusal of the job as a whole, else the first task that fits nowhere."""
    if job.refusals:
        return f": {'; '.join(dict.fromkeys(r.message for r in job.refusals))}"
    for task in job.of(TaskStatus.PENDING).values():
        errors = job.fit_errors.get(task.cls.id)
        if errors is not None and task.uid not in job.transaction:
            return f" {task.name}: {errors.message()}"
    return ""


def _explain_tasks(session: Session, job: Job) -> None:
    """Set PodScheduled=False with the reason on tasks that wait, where the message is not there already."""
    shared: str | None = None
    told = {cls: errors.message() for cls, errors in job.fit_errors.items()}
    for status in (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED):
        for task in job.of(status).values():
            if task.gated or not task.ours:
                continue
            reason, message = _task_reason(session, job, task, status, told)
            if not message:
                shared = gang_message(job) if shared is None else shared
                message = shared
            nominated = session.nodes.names[job.placed[task.uid]] if task.uid in job.nominated else ""
            if message != task.message or nominated not in ("", task.nominated):
                session.decisions.pods.append(PodUnschedulable(task, reason, message, nominated))
            if message != task.message:
                session.event(pod_ref(task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, message)


def _task_reason(
    session: Session, job: Job, task: Task, status: TaskStatus, told: Mapping[int, str]
) -> tuple[str, str]:
    """Reason and message of a waiting task ("": only its job can say). ``told``: class id -> why it fits nowhere."""
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
    return POD_REASON_UNSCHEDULABLE, told.get(task.cls.id, "")


# --- Queues ---
def _close_queues(session: Session) -> None:
    """status.allocated of every queue: what its jobs hold, and what the queues below it hold."""
    dimensions, queues = session.dimensions, session.queues
    own: dict[str, Vector] = {name: dimensions.zeros() for name in queues}
    for job in session.jobs.values():
        total = own.get(job.queue)
        if total is not None:
            total += job.allocated
    sums = {name: total.copy() for name, total in own.items()}
    for name, total in own.items():
        for ancestor in ancestors(queues, name):
            sums[ancestor] += total
    devices = held_devices(
        session.jobs.values(), session.snapshot.resource_claims, lambda name: (name, *ancestors(queues, name))
    )
    for name, queue in queues.items():
        allocated = {**dimensions.to_list(sums[name]), **devices.get(name, {})}
        if allocated != queue.allocated:
            session.decisions.queues.append(QueueAllocated(name, allocated))


def ancestors(queues: Mapping[str, Queue], name: str) -> list[str]:
    """The queues above one, nearest first; a cycle of parents or a parent that does not exist ends the list."""
    result: list[str] = []
    seen = {name}
    while name != ROOT_QUEUE:
        name = queues[name].parent or ROOT_QUEUE
        if name in seen or name not in queues:
            break
        seen.add(name)
        result.append(name)
    return result
