"""The state machine of a vcjob: which phase an action leads to, and which one its Pods lead to.

As Volcano's, with the differences named here. An action is carried out by writing the status that it leads to; the
Pods to delete then follow from the status (``kill``), in this process or after a restart.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.batch import FINISHED_PHASES, Action, JobPhase

ENDING_PHASES: Final[Mapping[JobPhase, JobPhase]] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}
"""Phases that last until no Pod is alive, and the phase that follows each."""
OVER_PHASES: Final = FINISHED_PHASES | {JobPhase.ABORTED}
"""Phases that a job leaves only on request."""
IDLE_PHASES: Final = OVER_PHASES | ENDING_PHASES.keys()
"""Phases in which no Pod is to be alive and no PodGroup is to exist."""
TARGETED: Final = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})
"""Actions that concern some of the Pods."""
ACTIONS: Final = TARGETED | {
    Action.RESTART_JOB,
    Action.ABORT_JOB,
    Action.TERMINATE_JOB,
    Action.COMPLETE_JOB,
    Action.RESUME_JOB,
    Action.SYNC_JOB,
}
"""Actions that a job supports."""


class StatusStep(msgspec.Struct, frozen=True):
    """The effect of an action on the status."""

    phase: JobPhase
    kill_all: bool = False
    """The version goes up, which makes every Pod there is one of the past."""
    kill_target: bool = False
    retry: bool = False
    """It is counted in ``status.retryCount``."""


_RESTART: Final = StatusStep(JobPhase.RESTARTING, kill_all=True, retry=True)
_RESTART_TARGET: Final = StatusStep(JobPhase.RESTARTING, kill_target=True, retry=True)
_END: Final = {
    Action.ABORT_JOB: StatusStep(JobPhase.ABORTING, kill_all=True),
    Action.COMPLETE_JOB: StatusStep(JobPhase.COMPLETING, kill_all=True),
    Action.TERMINATE_JOB: StatusStep(JobPhase.TERMINATING, kill_all=True),
}
_ACTIVE: Final[Mapping[Action, StatusStep]] = (
    _END | {Action.RESTART_JOB: _RESTART} | dict.fromkeys(TARGETED, _RESTART_TARGET)
)
_STEPS: Final[Mapping[JobPhase, Mapping[Action, StatusStep]]] = {
    JobPhase.PENDING: _ACTIVE,
    JobPhase.RUNNING: _ACTIVE,
    # Volcano restarts a restarting job once more where it is to be aborted, completed or terminated.
    JobPhase.RESTARTING: {action: replace(step, retry=False) for action, step in _ACTIVE.items()},
    JobPhase.ABORTING: {Action.RESUME_JOB: _RESTART},
    JobPhase.ABORTED: {Action.RESUME_JOB: _RESTART},
}


def step_for(phase: JobPhase, action: Action) -> StatusStep | None:
    """What an action does in a phase; None: nothing beyond the usual reconciliation."""
    return _STEPS.get(phase, {}).get(action)


class PhaseInputs(msgspec.Struct, frozen=True):
    """The inputs of ``next_phase``: numbers of Pods unless noted otherwise."""

    replicas: int
    """The replicas of all tasks together."""
    min_available: int
    min_success: int | None
    minimums: Mapping[str, int | None]
    """Task -> its minAvailable, if it has one."""
    minimum: int
    """The sum over all tasks; a task without minAvailable needs all its replicas."""
    retries: int
    """Restarts after failures."""
    max_retries: int
    pending: int
    running: int
    succeeded: int
    failed: int
    terminating: int
    """The Pods that terminate, and those that are to be deleted."""
    to_delete: int
    """The Pods to be deleted that were not terminating when the reconciliation began."""
    succeeded_of: Mapping[str, int]
    """Task -> Pods that succeeded; a task without any Pod is missing."""


def next_phase(phase: JobPhase, now: PhaseInputs) -> JobPhase:
    """The phase that follows from how the job's Pods are."""
    if phase is JobPhase.PENDING:
        started = now.running + now.succeeded + now.failed
        return JobPhase.RUNNING if now.min_available <= started else phase
    if phase is JobPhase.RUNNING:
        return _after_running(now)
    if phase is JobPhase.RESTARTING:
        if 0 < now.retries >= now.max_retries:  # no failure counts against a maxRetry of 0 if there was none
            return JobPhase.FAILED
        # Volcano would wait for ever where fewer replicas are left than are needed.
        room = now.replicas - now.terminating >= now.min_available or not now.terminating
        return JobPhase.PENDING if room and not now.to_delete else phase
    if not now.terminating:
        return ENDING_PHASES.get(phase, phase)
    return phase


def _after_running(now: PhaseInputs) -> JobPhase:
    if not now.replicas:
        return JobPhase.RUNNING
    if now.min_success is not None and now.succeeded >= now.min_success:
        return JobPhase.COMPLETED
    if now.succeeded + now.failed == now.replicas:
        short = now.min_available >= now.minimum and any(
            least is not None and now.succeeded_of.get(task, least) < least for task, least in now.minimums.items()
        )
        if short or now.min_success is not None or now.succeeded < now.min_available:
            return JobPhase.FAILED
        return JobPhase.COMPLETED
    return JobPhase.PENDING if now.pending > now.replicas - now.min_available else JobPhase.RUNNING
