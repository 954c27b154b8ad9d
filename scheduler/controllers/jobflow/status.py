"""The status of a JobFlow: its jobs by phase, the history of each, and the phase of the flow."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from scheduler.api.batch import Job, JobFlow, JobPhase, TaskState
from scheduler.api.objects import Wire
from scheduler.api.times import DurationError, format_timestamp, parse_duration, parse_timestamp
from scheduler.controllers.effects import Json

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEED: Final = "Succeed"
FAILED: Final = "Failed"
TERMINATING: Final = "Terminating"
_UNKNOWN: Final = ""
MAX_HISTORY: Final = 100
"""Phases in the history of a job; earlier ones are left out."""
MAX_MESSAGE: Final = 1024
"""Characters of a message."""
_LISTED: Final = frozenset(
    {JobPhase.PENDING, JobPhase.RUNNING, JobPhase.FAILED, JobPhase.COMPLETED, JobPhase.TERMINATED}
)
_UNLISTED: Final = frozenset({JobPhase.COMPLETING, JobPhase.TERMINATING})
"""Jobs in these phases are in no list; those in any other phase are unknown."""


class RunningHistory(Wire):
    """A phase that a job was in, and when that was seen to begin and end."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class JobHistory(Wire):
    """The history of a job, which outlives the job."""

    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: list[RunningHistory] | None = None


class StepCondition(Wire):
    """The condition of a job."""

    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] | None = None


class FlowState(Wire):
    phase: str = ""
    message: str = ""
    """The missing JobTemplates that steps wait for, or why the flow cannot go on. Volcano has no such field."""


class FlowStatus(Wire):
    """The status of a JobFlow. Empty fields are left out."""

    pending_jobs: list[str] | None = None
    running_jobs: list[str] | None = None
    failed_jobs: list[str] | None = None
    completed_jobs: list[str] | None = None
    terminated_jobs: list[str] | None = None
    un_know_jobs: list[str] | None = None
    job_status_list: list[JobHistory] | None = None
    conditions: dict[str, StepCondition] | None = None
    state: FlowState = msgspec.field(default_factory=FlowState)


def read_status(flow: JobFlow) -> FlowStatus:
    """The status as last written. A status that cannot be read counts as empty."""
    try:
        return msgspec.convert(flow.status, FlowStatus)
    except msgspec.ValidationError:
        return FlowStatus()


def gone_completed(status: FlowStatus, jobs: Sequence[Job]) -> list[str]:
    """Completed jobs that were deleted since: their dependents need not wait again."""
    there = {job.metadata.name for job in jobs}
    records = status.job_status_list or ()
    return [r.name for r in records if r.state == JobPhase.COMPLETED and r.name not in there]


def make_status(old: FlowStatus, jobs: Sequence[Job], expected: Collection[str], now: float, message: str = "") -> Json:
    """The status for the current jobs. ``expected``: the names of all jobs of the flow."""
    lists: dict[str, list[str]] = {}
    for name in gone_completed(old, jobs):
        lists.setdefault(JobPhase.COMPLETED, []).append(name)
    for job in jobs:
        phase = job.status.state.phase
        if phase not in _UNLISTED:
            lists.setdefault(phase if phase in _LISTED else _UNKNOWN, []).append(job.metadata.name)
    status = FlowStatus(
        pending_jobs=lists.get(JobPhase.PENDING),
        running_jobs=lists.get(JobPhase.RUNNING),
        failed_jobs=lists.get(JobPhase.FAILED),
        completed_jobs=lists.get(JobPhase.COMPLETED),
        terminated_jobs=lists.get(JobPhase.TERMINATED),
        un_know_jobs=lists.get(_UNKNOWN),
        job_status_list=_records(old, jobs, now) or None,
        conditions={job.metadata.name: _condition(job) for job in jobs} or None,
    )
    status.state.phase = _phase(old.state.phase, status, expected)
    status.state.message = message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."
    written: Json = msgspec.to_builtins(status)
    return written


def _phase(before: str, status: FlowStatus, expected: Collection[str]) -> str:
    """The next phase, as in Volcano; Failed and Terminating are final."""
    completed = set(status.completed_jobs or ())
    broken = bool(status.failed_jobs or status.terminated_jobs)
    if before == RUNNING:
        if completed.issuperset(expected):
            return SUCCEED
        return FAILED if broken else RUNNING
    if before in (SUCCEED, FAILED, TERMINATING):
        return before
    if (status.running_jobs or completed) and not status.failed_jobs:
        return RUNNING
    return FAILED if broken else PENDING


def _records(old: FlowStatus, jobs: Sequence[Job], now: float) -> list[JobHistory]:
    """The existing records, updated, and then those of new jobs."""
    records = {record.name: record for record in old.job_status_list or ()}
    for job in jobs:
        meta, phase = job.metadata, job.status.state.phase
        before = records.get(meta.name)
        records[meta.name] = JobHistory(
            name=meta.name,
            state=phase,
            start_timestamp=meta.creation_timestamp,
            end_timestamp=_end(job),
            restart_count=job.status.retry_count,
            running_histories=_histories(before.running_histories or [] if before else [], phase, now) or None,
        )
    return list(records.values())


def _histories(before: list[RunningHistory], phase: str, now: float) -> list[RunningHistory]:
    if before and before[-1].state == phase:
        return before
    if not before and not phase:
        return []
    moment = format_timestamp(now)
    closed = [*before[:-1], msgspec.structs.replace(before[-1], end_timestamp=moment)] if before else []
    return [*closed[1 - MAX_HISTORY :], RunningHistory(start_timestamp=moment, state=phase)]


def _end(job: Job) -> str | None:
    created = parse_timestamp(job.metadata.creation_timestamp)
    if created is None or job.status.running_duration is None:
        return None
    try:
        return format_timestamp(created + parse_duration(job.status.running_duration))
    except (DurationError, ValueError, OverflowError):
        return None


def _condition(job: Job) -> StepCondition:
    status = job.status
    return StepCondition(
        phase=status.state.phase,
        create_time=job.metadata.creation_timestamp,
        running_duration=status.running_duration,
        task_status_count=status.task_status_count,
    )
