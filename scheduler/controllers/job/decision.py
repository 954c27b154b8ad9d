"""Decides what becomes of a job: its next phase, its new status, and which of its Pods are marked or deleted.

The state machine is Volcano's, with the differences named here. An action is carried out by writing the status that it
leads to. The Pods to delete follow from the status and the Pods alone: no state is kept, so after a crash the next
reconciliation finds the same Pods. An action on the whole job increases ``status.version``, so it applies to the Pods
of lower versions. An action on some of the Pods marks them as out of sync first. While a job restarts,
``status.state.reason`` names the action.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api import batch
from scheduler.api.batch import (
    ENDING_PHASES,
    FINISHED_PHASES,
    IDLE_PHASES,
    OVER_PHASES,
    PARTIAL_RESTARTS,
    Action,
    JobPhase,
)
from scheduler.api.objects import ENDED_PHASES
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.observation import JobObservation
from scheduler.controllers.job.pods import SUCCEEDED, Member, count_pods
from scheduler.controllers.job.state import PendingAction
from scheduler.controllers.job.status import counted, entered


# --- the state machine ------------------------------------------------------------------------------------------------
class StatusStep(msgspec.Struct, frozen=True):
    """The effect of an action on the status."""

    phase: JobPhase
    kill_all: bool = False
    """The version increases, so all existing Pods are of a lower version."""
    kill_target: bool = False
    retry: bool = False
    """The action is counted in ``status.retryCount``."""


_RESTART: Final = StatusStep(JobPhase.RESTARTING, kill_all=True, retry=True)
_RESTART_TARGET: Final = StatusStep(JobPhase.RESTARTING, kill_target=True, retry=True)
_END: Final = {
    Action.ABORT_JOB: StatusStep(JobPhase.ABORTING, kill_all=True),
    Action.COMPLETE_JOB: StatusStep(JobPhase.COMPLETING, kill_all=True),
    Action.TERMINATE_JOB: StatusStep(JobPhase.TERMINATING, kill_all=True),
}
_ACTIVE: Final[Mapping[Action, StatusStep]] = (
    _END | {Action.RESTART_JOB: _RESTART} | dict.fromkeys(PARTIAL_RESTARTS, _RESTART_TARGET)
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
    restarts_follow: bool = False
    """Whether the scheduler replaces the Pods that failed."""


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
    if now.succeeded + now.failed == now.replicas and not (now.failed and now.restarts_follow):
        short = now.min_available >= now.minimum and any(
            least is not None and now.succeeded_of.get(task, least) < least for task, least in now.minimums.items()
        )
        if short or now.min_success is not None or now.succeeded < now.min_available:
            return JobPhase.FAILED
        return JobPhase.COMPLETED
    return JobPhase.PENDING if now.pending > now.replicas - now.min_available else JobPhase.RUNNING


# --- the decision -----------------------------------------------------------------------------------------------------
class JobDecision(msgspec.Struct, frozen=True):
    """What becomes of a job and its Pods."""

    status: batch.JobStatus
    """The new status, but for the resources that the controller creates and the message."""
    phase: JobPhase
    """The phase of the new status."""
    marked: list[Member]
    """The Pods to mark as out of sync before the status is written. The Pod that caused the restart is marked last:
    after a crash, it shows that the restart is not complete."""
    cause: str
    """The name of that Pod, or ""."""
    to_delete: list[Member]
    """The Pods to delete once the status is written, without those that are being deleted."""
    was_over: bool
    """The job had ended before."""

    @property
    def creates_nothing(self) -> bool:
        """Whether the job has no Pods and needs no other objects: it has ended, or restarts as a whole."""
        return self.phase in IDLE_PHASES or (self.phase is JobPhase.RESTARTING and not _restarts_a_part(self.status))

    @property
    def deletes_group(self) -> bool:
        """Whether the PodGroup is deleted."""
        return self.phase in IDLE_PHASES or _restarts_all(self.status)


def decide(seen: JobObservation, pending: PendingAction | None) -> JobDecision:
    """Decides what becomes of a job. ``pending``: the action to carry out."""
    status, phase, marked = _next_status(seen, pending)
    members = seen.members.values()
    deleted = _pods_to_delete(seen, status, phase)
    to_delete = {member.name: member for member in (*deleted, *marked)}
    counts = count_pods(members, to_delete, idle=phase in IDLE_PHASES)
    # Until Pods may be created, the status keeps the minAvailable that existing Pods were created for.
    follows = seen.phase is None or (phase not in IDLE_PHASES and seen.admitted)
    return JobDecision(
        status=counted(status, counts, seen.job.spec.min_available if follows else status.min_available),
        phase=phase,
        marked=marked,
        cause=pending.request.pod if pending is not None and pending.request is not None else "",
        to_delete=list(to_delete.values()),
        was_over=seen.phase is phase and phase in OVER_PHASES,
    )


def _next_status(seen: JobObservation, pending: PendingAction | None) -> tuple[batch.JobStatus, JobPhase, list[Member]]:
    """The status without its counts, its phase, and the Pods to mark as out of sync."""
    status = seen.job.status
    if seen.phase is None and pending is None:
        return entered(status, seen.job, JobPhase.PENDING, seen.now), JobPhase.PENDING, []
    before = seen.phase or JobPhase.PENDING
    to_delete = _pods_to_delete(seen, status, before)
    action = Action.SYNC_JOB if pending is None or pending.has_no_target else pending.action
    step = step_for(before, action)
    if step is None and before in (JobPhase.PENDING, JobPhase.RUNNING) and _interrupted(to_delete):
        action = Action.RESTART_POD
        step = step_for(before, action)
    if step is None or (action is Action.RESTART_JOB and _restarts_all(status)):
        after = next_phase(before, _phase_inputs(seen, before, to_delete))
        ends = after in FINISHED_PHASES and before in (JobPhase.RUNNING, JobPhase.RESTARTING)
        step, action = StatusStep(after, kill_all=ends), Action.SYNC_JOB
    marked = _targets(pending, seen.members.values()) if step.kill_target and pending is not None else []
    uncounted = step.retry and pending is not None and pending.is_no_failure
    return _stepped(seen, step, action, uncounted=uncounted), step.phase, marked


def _stepped(seen: JobObservation, step: StatusStep, action: Action, *, uncounted: bool) -> batch.JobStatus:
    """The status after a step. ``uncounted``: the step is a restart that uses up no retry."""
    old = seen.job.status
    status = replace(
        old,
        version=old.version + step.kill_all,
        retry_count=old.retry_count + step.retry,
        uncounted_restarts=old.uncounted_restarts + uncounted,
    )
    reason = action if step.phase is JobPhase.RESTARTING else ""
    if old.state.phase != step.phase:
        return entered(status, seen.job, step.phase, seen.now, reason)
    if step.kill_all and old.state.reason != reason:  # the whole job is restarted instead of a part
        return replace(status, state=replace(old.state, reason=reason))
    return status


def _phase_inputs(seen: JobObservation, phase: JobPhase, to_delete: list[Member]) -> PhaseInputs:
    job, parsed_spec = seen.job, seen.parsed_spec
    counts = count_pods(seen.members.values(), {member.name for member in to_delete}, idle=phase in IDLE_PHASES)
    return PhaseInputs(
        replicas=parsed_spec.replicas,
        min_available=job.spec.min_available,
        min_success=job.spec.min_success,
        minimums=parsed_spec.minimums,
        minimum=parsed_spec.minimum,
        retries=job.status.retries,
        max_retries=parsed_spec.max_retries,
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        terminating=counts.terminating,
        to_delete=len(to_delete),
        succeeded_of={task: phases.get(SUCCEEDED, 0) for task, phases in counts.tasks.items()},
        restarts_follow=seen.restarts_follow,
    )


# --- Pods to delete ---------------------------------------------------------------------------------------------------
def _pods_to_delete(seen: JobObservation, status: batch.JobStatus, phase: JobPhase) -> list[Member]:
    """The Pods to delete in a phase, without those that are being deleted."""
    members = [member for member in seen.members.values() if not member.deleting]
    if phase in IDLE_PHASES:
        return [member for member in members if member.phase not in ENDED_PHASES]
    # Pods that ended stay when a job is resumed, and on its last retry, so that one can see why it failed.
    spare_ended = not _restarts_all(status) or 0 < status.retries >= seen.parsed_spec.max_retries
    return [member for member in members if _is_to_delete(member, status.version, spare_ended)]


def _is_to_delete(member: Member, version: int, spare_ended: bool) -> bool:
    if member.out_of_sync or not member.wanted:
        return True
    return member.version < version and not (spare_ended and member.phase in ENDED_PHASES)


def _restarts_all(status: batch.JobStatus) -> bool:
    """Whether the whole job is restarting: its Pods and its PodGroup are deleted."""
    return status.state.phase == JobPhase.RESTARTING and status.state.reason == Action.RESTART_JOB


def _restarts_a_part(status: batch.JobStatus) -> bool:
    """Whether a task, a partition or a Pod is restarting. Meanwhile, each deleted Pod is recreated on its own."""
    return status.state.phase == JobPhase.RESTARTING and status.state.reason in PARTIAL_RESTARTS


def _interrupted(to_delete: Iterable[Member]) -> bool:
    """Whether Pods were marked for a restart that was interrupted before the status was written. Pods that the spec no
    longer requests are marked before they are deleted, too."""
    return any(member.out_of_sync and member.wanted for member in to_delete)


def _targets(pending: PendingAction, members: Iterable[Member]) -> list[Member]:
    """The Pods that a restart of a part of the job concerns, without those that are being deleted."""
    request = pending.request
    if request is None:
        return []
    return [
        member
        for member in members
        if not member.deleting and not member.out_of_sync and _concerns(pending.action, request, member)
    ]


def _concerns(action: Action, request: PolicyRequest, member: Member) -> bool:
    if action is Action.RESTART_POD:
        return member.name == request.pod
    if member.task != request.task:
        return False
    return action is not Action.RESTART_PARTITION or member.partition == request.partition
