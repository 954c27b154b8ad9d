"""The state machine, row by row."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.batch import Action, JobPhase
from scheduler.controllers.job.decision import PhaseInputs, StatusStep, next_phase, step_for

P, A = JobPhase, Action
FULL_RESTART = StatusStep(P.RESTARTING, kill_all=True, retry=True)
PART_RESTART = StatusStep(P.RESTARTING, kill_target=True, retry=True)
ENDS = {A.ABORT_JOB: P.ABORTING, A.COMPLETE_JOB: P.COMPLETING, A.TERMINATE_JOB: P.TERMINATING}
PARTS = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)
PHASE_INPUTS = PhaseInputs(
    replicas=4,
    min_available=3,
    min_success=None,
    minimums={"w": None},
    minimum=4,
    retries=0,
    max_retries=3,
    pending=0,
    running=0,
    succeeded=0,
    failed=0,
    terminating=0,
    to_delete=0,
    succeeded_of={},
)


def after(phase: JobPhase, **now: Any) -> JobPhase:
    """The phase that follows, of a job of four Pods of which three are needed."""
    return next_phase(phase, replace(PHASE_INPUTS, **now))


@pytest.mark.parametrize("phase", [P.PENDING, P.RUNNING])
def test_a_pending_or_running_job_is_restarted_or_ended_by_actions(phase: JobPhase) -> None:
    assert step_for(phase, A.RESTART_JOB) == FULL_RESTART
    assert {step_for(phase, action) for action in PARTS} == {PART_RESTART}
    assert {action: step_for(phase, action) for action in ENDS} == {
        action: StatusStep(end, kill_all=True) for action, end in ENDS.items()
    }
    assert step_for(phase, A.RESUME_JOB) is None
    assert step_for(phase, A.SYNC_JOB) is None


def test_what_restarts_a_restarting_job_is_no_further_retry() -> None:
    assert step_for(P.RESTARTING, A.RESTART_JOB) == replace(FULL_RESTART, retry=False)
    assert {step_for(P.RESTARTING, action) for action in PARTS} == {replace(PART_RESTART, retry=False)}
    assert step_for(P.RESTARTING, A.RESUME_JOB) is None


@pytest.mark.parametrize("action", ENDS)
def test_a_restarting_job_can_be_ended(action: Action) -> None:
    assert step_for(P.RESTARTING, action) == StatusStep(ENDS[action], kill_all=True)


@pytest.mark.parametrize("phase", [P.ABORTING, P.ABORTED])
def test_an_aborted_job_is_resumed_and_nothing_else(phase: JobPhase) -> None:
    assert step_for(phase, A.RESUME_JOB) == FULL_RESTART
    assert {step_for(phase, action) for action in Action if action is not A.RESUME_JOB} == {None}


@pytest.mark.parametrize("phase", [P.COMPLETING, P.TERMINATING, P.COMPLETED, P.TERMINATED, P.FAILED])
def test_nothing_is_asked_of_a_job_that_ends(phase: JobPhase) -> None:
    assert {step_for(phase, action) for action in Action} == {None}


@pytest.mark.parametrize("phase", [P.ABORTED, P.COMPLETED, P.TERMINATED, P.FAILED])
def test_a_job_that_has_ended_stays_so(phase: JobPhase) -> None:
    assert after(phase, running=4) is phase


def test_a_job_runs_once_enough_pods_have_started() -> None:
    assert after(P.PENDING, running=1, succeeded=1) is P.PENDING
    assert after(P.PENDING, running=1, succeeded=1, failed=1) is P.RUNNING


def test_a_restarting_job_is_pending_once_there_is_room_for_enough_pods() -> None:
    assert after(P.RESTARTING, terminating=2) is P.RESTARTING
    assert after(P.RESTARTING, terminating=1) is P.PENDING
    assert after(P.RESTARTING, terminating=1, to_delete=1) is P.RESTARTING
    assert after(P.RESTARTING, replicas=1) is P.PENDING


def test_a_restarting_job_fails_when_its_retries_are_used_up() -> None:
    assert after(P.RESTARTING, retries=2) is P.PENDING
    assert after(P.RESTARTING, retries=3, terminating=4) is P.FAILED


@pytest.mark.parametrize(
    ("phase", "end"),
    [(P.ABORTING, P.ABORTED), (P.COMPLETING, P.COMPLETED), (P.TERMINATING, P.TERMINATED)],
)
def test_what_ends_has_ended_when_no_pod_is_left(phase: JobPhase, end: JobPhase) -> None:
    assert after(phase, terminating=1) is phase
    assert after(phase) is end


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        ({"replicas": 0}, P.RUNNING),
        ({"running": 4}, P.RUNNING),
        ({"running": 3, "pending": 1}, P.RUNNING),
        ({"running": 2, "pending": 2}, P.PENDING),
        ({"running": 1, "terminating": 3}, P.RUNNING),
        ({"succeeded": 3, "running": 1}, P.RUNNING),
        ({"succeeded": 3, "failed": 1}, P.COMPLETED),
        ({"succeeded": 2, "failed": 2}, P.FAILED),
        ({"succeeded": 4}, P.COMPLETED),
        ({"succeeded": 2, "running": 2, "min_success": 2}, P.COMPLETED),
        ({"succeeded": 1, "running": 3, "min_success": 2}, P.RUNNING),
        ({"succeeded": 3, "failed": 1, "min_success": 4}, P.FAILED),
    ],
)
def test_a_running_job_goes_by_its_pods(now: dict[str, Any], phase: JobPhase) -> None:
    assert after(P.RUNNING, **now) is phase


def test_a_job_fails_when_one_task_has_too_few_successes_for_its_own_minimum() -> None:
    tasks: dict[str, Any] = {"minimums": {"a": 2, "b": 1}, "minimum": 3, "succeeded": 3, "failed": 1}

    assert after(P.RUNNING, **tasks, succeeded_of={"a": 2, "b": 1}) is P.COMPLETED
    assert after(P.RUNNING, **tasks, succeeded_of={"a": 1, "b": 2}) is P.FAILED
    assert after(P.RUNNING, **tasks, succeeded_of={"b": 2}) is P.COMPLETED
    assert after(P.RUNNING, **tasks | {"minimum": 4}, succeeded_of={"a": 1, "b": 2}) is P.COMPLETED
