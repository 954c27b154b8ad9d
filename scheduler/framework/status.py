"""Closes a session: computes the status of PodGroups, and their Events. ``queue_status`` computes the status of Queues,
``waiting`` reports on Pods.

A status is written only if it differs from that on the API server by more than times and transition ids, so an
unchanged cluster causes no writes. A placed gang is never reported as unschedulable, and the Event and the condition of
one session have the same numbers (docs/differences.md).
"""

from collections.abc import Sequence

import numpy as np

from scheduler.api.decisions import PodGroupStatusUpdate, group_ref
from scheduler.api.job import INQUEUE, PENDING, RUNNING, GroupCondition, Job
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_GANGS,
    CARD_REQUEST,
    CONDITION_DEVICE_UNHEALTHY,
    CONDITION_SCHEDULED,
    CONDITION_UNSCHEDULABLE,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_UNSCHEDULABLE,
    EVENT_WARNING,
    ORDERED_TASKS,
    REASON_DEVICES_HEALTHY,
    REASON_GANG_READY,
    REASON_NOT_ENOUGH_RESOURCES,
    REASON_QUEUE_NOT_FOUND,
)
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.scheduling import PodGroupCondition
from scheduler.api.signed_records import AdmissionRecord
from scheduler.api.task import TaskStatus
from scheduler.api.times import format_timestamp, seconds_of
from scheduler.framework.device_faults import faults_of, report_device_faults
from scheduler.framework.extension import CLOSE, DEVICE_FAULTS
from scheduler.framework.queue_status import close_queues
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.session import Session
from scheduler.framework.waiting import report_tasks

UNKNOWN, COMPLETED = "Unknown", "Completed"
GROUP_READY = "pod group is ready"
MAX_MESSAGE_LENGTH = 32_768
"""The longest message of a condition, in characters, as in Kubernetes."""
_TEMPORARY = (CONDITION_UNSCHEDULABLE, CONDITION_DEVICE_UNHEALTHY)
"""Conditions that a session sets to False when their cause is gone."""
_UNSCHEDULABLE_STANDS = 10.0
"""The condition Unschedulable stays True for at least this number of seconds, even if the gang is placed. A gang that
waits a moment for evicted Pods has both conditions, as in Volcano, and a gang that is placed and evicted in turn does
not flap."""


def close_session(session: Session) -> None:
    """Calls the plugins' close functions, then adds status updates and Events to the decisions."""
    session.once(SearchLimit).close()
    session.ask(CLOSE)
    if session.all_functions(DEVICE_FAULTS):
        report_device_faults(session)
    for job in session.active_jobs.values():
        _close_job(session, job)
    close_queues(session)


# --- PodGroups ---
def group_phase(job: Job) -> str:
    """Returns the phase of the PodGroup, computed from its tasks as in Volcano's getPodGroupPhase. Tasks that are being
    bound do not count yet."""
    by_status = job.by_status
    succeeded = len(by_status.get(TaskStatus.SUCCEEDED, ()))
    failed = len(by_status.get(TaskStatus.FAILED, ()))
    running = len(by_status.get(TaskStatus.RUNNING, ()))
    started = succeeded + failed + running
    if started and job.grows and job.stored_phase in (INQUEUE, RUNNING) and sum(job.counts) <= started < job.min_member:
        return RUNNING  # it has lost no task: its minimum has grown
    if running and any(c.type == CONDITION_UNSCHEDULABLE for c in job.new_conditions):
        return UNKNOWN
    scheduled = succeeded + failed + running + len(by_status.get(TaskStatus.BOUND, ()))
    releasing = by_status.get(TaskStatus.RELEASING)
    if releasing:
        scheduled += sum(1 for task in releasing.values() if task.node)
    if scheduled >= job.min_member:
        ends = scheduled == succeeded + failed and not job.annotations.get(ORDERED_TASKS)
        return COMPLETED if ends else RUNNING
    return INQUEUE if job.phase == INQUEUE else PENDING


def _close_job(session: Session, job: Job) -> None:
    if job.queue not in session.queues:
        _refuse_queue(session, job)
        return
    if _runs_as_before(job):
        return
    phase = group_phase(job)
    inqueue = phase == INQUEUE
    if job.claimed_phase and phase == PENDING:
        _set_aside(session, job)
        if job.claimed_phase == INQUEUE and not job.by_status:
            phase = INQUEUE  # another scheduler, whose Pods are not seen before they are bound, may have set it
    if job.refusals and not job.by_status:
        reasons = "; ".join(dict.fromkeys(r.message for r in job.refusals))
        job.new_conditions += (GroupCondition(CONDITION_UNSCHEDULABLE, job.refusals[0].reason, reasons),)
    new_conditions = _new_conditions(job)
    conditions = _conditions(session, job, new_conditions, phase)
    _report_refusals(session, job)
    counts = (job.count(TaskStatus.RUNNING), job.count(TaskStatus.SUCCEEDED), job.count(TaskStatus.FAILED))
    if (
        phase != job.stored_phase
        or counts != job.counts
        or conditions is not job.conditions
        or (job.alternative and job.alternative != job.annotations.get(CARD_ALTERNATIVE))
        or (job.record_lost or job.claimed_phase if inqueue else job.recorded)
    ):
        session.decisions.pod_groups.append(
            PodGroupStatusUpdate(
                job.namespace,
                job.name,
                job.uid,
                phase,
                conditions,
                *counts,
                admits=inqueue and (job.stored_phase != INQUEUE or bool(job.claimed_phase)),
                admission=_admission(job) if inqueue else None,
                removes_record=job.recorded and not inqueue,
                alternative=_alternative(job) if CARD_GANGS in job.annotations else "",
            )
        )
        if phase == RUNNING and job.stored_phase != RUNNING:
            session.event(group_ref(job), EVENT_NORMAL, EVENT_SCHEDULED, GROUP_READY)
    for new in new_conditions:
        if new.type == CONDITION_UNSCHEDULABLE and conditions is not job.conditions and job.by_status:
            session.event(group_ref(job), EVENT_WARNING, EVENT_UNSCHEDULABLE, new.message)
    if (
        TaskStatus.PENDING in job.by_status
        or TaskStatus.ALLOCATED in job.by_status
        or TaskStatus.PIPELINED in job.by_status
    ):
        report_tasks(session, job)


def _alternative(job: Job) -> str:
    """The alternative of a job: the one that this session has chosen, else the one before, or ""."""
    return job.alternative or job.annotations.get(CARD_ALTERNATIVE, "")


def _runs_as_before(job: Job) -> bool:
    """Returns whether all tasks of a job run, its PodGroup is Running, and nothing new was recorded: most jobs of a
    cluster."""
    running = job.by_status.get(TaskStatus.RUNNING)
    return (
        running is not None
        and len(job.by_status) == 1
        and job.stored_phase == RUNNING
        and job.counts == (len(running), 0, 0)
        and len(running) >= job.min_member
        and not (job.new_conditions or job.refusals or job.claimed_phase or job.recorded)
        and not any(c.type in _TEMPORARY and c.status == "True" for c in job.conditions)
    )


def _admission(job: Job) -> AdmissionRecord | None:
    """Returns the admission of a job that is in its queue, in this session or earlier."""
    if job.admission is not None or not job.declares_resources:
        return job.admission
    return AdmissionRecord.of(job.queue, job.min_member, job.min_resource_list, job.annotations.get(CARD_REQUEST, ""))


def _set_aside(session: Session, job: Job) -> None:
    """Reports a phase of the PodGroup that the scheduler has not set. The message stays the same while the PodGroup
    does, so there is one Event."""
    dimensions = session.dimensions
    asked = job.min_resources if job.min_resources is not None else dimensions.zeros()
    amounts = [dimensions.numbers(int(i), asked=asked[i]) for i in np.flatnonzero(asked)]
    if cards := job.annotations.get(CARD_REQUEST):
        amounts.append(f"cards: asked {cards!r:.200}")
    problem = f"the scheduler has no record of having set {job.claimed_phase} for queue {job.queue}"
    consequence = f"nothing is reserved for the group before it is admitted ({'; '.join(amounts)})"
    session.malformed_field(Malformed("PodGroup", job.namespace, job.name, "status.phase", problem, consequence))


def _report_refusals(session: Session, job: Job) -> None:
    """Adds an Event for each refusal that is not yet on the PodGroup or on a waiting Pod. The scheduler does not write
    the condition of Pods with scheduling gates: if a job has only such Pods, only the PodGroup is written."""
    if not job.refusals:
        return
    pending = job.of(TaskStatus.PENDING).values()
    waiting = next((task for task in pending if not task.gated), None)
    all_gated = bool(pending) and waiting is None
    known = [c.message for c in job.conditions] + ([waiting.message] if waiting else [])
    for refusal in dict.fromkeys(job.refusals):
        lasting = not all_gated or any(refusal.message in new.message for new in job.new_conditions)
        if lasting and not any(refusal.message in text for text in known):
            session.event(group_ref(job), EVENT_WARNING, refusal.reason, refusal.message)


def _refuse_queue(session: Session, job: Job) -> None:
    """Refuses a job whose queue does not exist: its conditions say so, and its phase does not change."""
    message = f"queue {job.queue} does not exist"
    session.refuse(job, Refusal(REASON_QUEUE_NOT_FOUND, message))
    job.new_conditions = (GroupCondition(CONDITION_UNSCHEDULABLE, REASON_QUEUE_NOT_FOUND, message),)
    conditions = _conditions(session, job, job.new_conditions)
    if conditions is not job.conditions:
        session.decisions.pod_groups.append(
            PodGroupStatusUpdate(job.namespace, job.name, job.uid, job.stored_phase, conditions, *job.counts)
        )
        session.event(group_ref(job), EVENT_WARNING, EVENT_UNSCHEDULABLE, message)
    report_tasks(session, job)


def _conditions(
    session: Session, job: Job, new_conditions: Sequence[GroupCondition], phase: str = ""
) -> tuple[PodGroupCondition, ...]:
    """Returns the PodGroup's conditions after this session; the same tuple if none changed. ``new_conditions``: at most
    one of each type."""
    conditions = job.conditions
    if not (new_conditions or conditions):  # as for most jobs
        return conditions
    changes = [(new.status, new.type, new.reason, new.message) for new in new_conditions]
    if conditions:
        if _is_schedulable_again(session, job, phase):
            changes.append(("False", CONDITION_UNSCHEDULABLE, REASON_GANG_READY, ""))
        if any(c.type == CONDITION_DEVICE_UNHEALTHY and c.status == "True" for c in conditions) and not faults_of(job):
            changes.append(("False", CONDITION_DEVICE_UNHEALTHY, REASON_DEVICES_HEALTHY, ""))
    for status, type_, reason, text in changes:
        message = text[:MAX_MESSAGE_LENGTH]
        old = next((c for c in conditions if c.type == type_), None) if conditions else None
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            continue
        new = PodGroupCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            transition_id=f"{int(session.now * 1000):x}",
            last_transition_time=format_timestamp(session.now),
        )
        if old is None:
            conditions = (*conditions, new)
        else:
            conditions = tuple(new if c is old else c for c in conditions)
    return conditions


def _new_conditions(job: Job) -> Sequence[GroupCondition]:
    """Returns the last new condition of each type. NotEnoughResources counts only if there is no other reason."""
    if len(job.new_conditions) < 2:  # as for most jobs
        return job.new_conditions
    general = [new for new in job.new_conditions if new.reason == REASON_NOT_ENOUGH_RESOURCES]
    others = [new for new in job.new_conditions if new.reason != REASON_NOT_ENOUGH_RESOURCES]
    return list({new.type: new for new in (*general, *others)}.values())


def unschedulable_message(job: Job) -> str:
    """Returns the message of the PodGroup's condition Unschedulable after the session, or "" if it has none."""
    for new in _new_conditions(job):
        if new.type == CONDITION_UNSCHEDULABLE:
            return new.message
    standing = (c for c in job.conditions if c.type == CONDITION_UNSCHEDULABLE and c.status == "True")
    return next((condition.message for condition in standing), "")


def _is_schedulable_again(session: Session, job: Job, phase: str) -> bool:
    """Returns whether the PodGroup has the condition Unschedulable although its gang runs or is being started."""
    for condition in job.conditions:
        if condition.type == CONDITION_UNSCHEDULABLE and condition.status == "True":
            found = {new.type for new in job.new_conditions}
            placed = phase in (RUNNING, COMPLETED) or CONDITION_SCHEDULED in found
            return (
                placed
                and CONDITION_UNSCHEDULABLE not in found
                and session.now - seconds_of(condition.last_transition_time) >= _UNSCHEDULABLE_STANDS
            )
    return False
