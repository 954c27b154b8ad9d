"""The status of a job: how it follows from counts and phases, when it is written, and its patch."""

from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.batch import IDLE_PHASES, JobPhase
from scheduler.api.kinds import VCJOB
from scheduler.api.names import CONDITION_UNSCHEDULABLE
from scheduler.api.times import format_duration, format_timestamp, parse_timestamp
from scheduler.controllers.effects import Patch, diff
from scheduler.controllers.job.pods import JobPodCounts
from scheduler.controllers.job.state import ReconcileState

SETTLE: Final = 0.2
"""Seconds that counts wait for others to change with them."""
SPACING: Final = 1.0
"""Seconds between two writes of nothing but counts and messages."""
MESSAGE_SPACING: Final = 10.0
"""Seconds before one message replaces another. The first message, and its removal, do not wait."""
MESSAGE_LENGTH: Final = 1024
"""Maximum characters of a message."""


def entered(status: batch.JobStatus, job: batch.Job, phase: JobPhase, now: float, reason: str = "") -> batch.JobStatus:
    """The status once the job has entered a phase. Each phase is listed once in the conditions, the latest last; only
    the latest may have a message."""
    moment = format_timestamp(now)
    earlier = (condition for condition in status.conditions or () if condition.status != phase)
    conditions = [msgspec.structs.replace(condition, reason="", message="") for condition in earlier]
    created = parse_timestamp(job.metadata.creation_timestamp)
    lasted = format_duration(int(now) - created) if phase in IDLE_PHASES and created is not None else None
    return msgspec.structs.replace(
        status,
        state=batch.JobState(phase=phase, reason=reason, last_transition_time=moment),
        conditions=[*conditions, batch.JobCondition(status=phase, last_transition_time=moment)],
        running_duration=lasted,
    )


def counted(status: batch.JobStatus, counts: JobPodCounts, min_available: int) -> batch.JobStatus:
    """The status with these counts."""
    tasks = {task: batch.TaskState(phase=phases) for task, phases in counts.tasks.items()}
    return msgspec.structs.replace(
        status,
        min_available=min_available,
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        unknown=counts.unknown,
        terminating=counts.terminating,
        task_status_count=tasks or None,
    )


def explained(status: batch.JobStatus, message: str) -> batch.JobStatus:
    """The status with a message that says what the job waits for; "": it waits for nothing. The condition of the
    current phase has the message too."""
    if len(message) > MESSAGE_LENGTH:
        message = f"{message[: MESSAGE_LENGTH - 3]}..."
    if message == status.state.message:
        return status
    reason = CONDITION_UNSCHEDULABLE if message else ""
    conditions = [
        msgspec.structs.replace(condition, reason=reason, message=message)
        if condition.status == status.state.phase
        else condition
        for condition in status.conditions or ()
    ]
    state = msgspec.structs.replace(status.state, message=message)
    return msgspec.structs.replace(status, state=state, conditions=conditions or None)


def message_due_in(old: str, new: str, state: ReconcileState, now: float) -> float:
    """Seconds until a message may replace another; 0: now."""
    if not old or not new or old == new:
        return 0.0
    return max(0.0, state.explained + MESSAGE_SPACING - now)


def due_in(
    old: batch.JobStatus, new: batch.JobStatus, state: ReconcileState, now: float, *, at_once: bool = False
) -> float | None:
    """Seconds until the new status is written; None if it is unchanged. Only counts and messages wait, for others to
    change with them, unless ``at_once``."""
    if new == old:
        state.stale = None
        return None
    if state.stale is None:
        state.stale = now
    due = max(state.stale + SETTLE, state.written + SPACING)
    if not (at_once or _decisive(old, new)) and now < due:
        return due - now
    state.stale, state.written = None, now
    if old.state.message != new.state.message:
        state.explained = now
    return 0.0


def _decisive(old: batch.JobStatus, new: batch.JobStatus) -> bool:
    """Whether more has changed than counts, lists and messages."""
    if len(new.controlled_resources or ()) < len(old.controlled_resources or ()):
        return True
    state = msgspec.structs.replace(new.state, message=old.state.message)
    return (old.state, old.version, old.retry_count) != (state, new.version, new.retry_count)


def _is_new(old: batch.JobStatus, new: batch.JobStatus) -> bool:
    return not old.state.phase and new.state.phase == JobPhase.PENDING and new.version == old.version


def patch(job: batch.Job, status: batch.JobStatus) -> Patch:
    """The patch that writes the status. Counts, and the first ``Pending`` of a new job, are deferrable: when a thousand
    jobs are created at once, their Pods are created first."""
    body = diff({"status": msgspec.to_builtins(job.status)}, {"status": msgspec.to_builtins(status)})
    return Patch(
        VCJOB,
        job.metadata.namespace,
        job.metadata.name,
        body,
        job.metadata.uid,
        subresource="status",
        deferrable=_is_new(job.status, status) or not _decisive(job.status, status),
    )
