"""Schedules of faults depend on their seed alone, and cover all kinds of faults."""

import msgspec

from tests.faults.schedule import QUOTA, FaultKind, Role, StepKind, Target, schedule_of


def test_a_seed_gives_the_same_schedule_again() -> None:
    for seed in range(50):
        first, second = (msgspec.json.encode(schedule_of(seed)) for _ in range(2))
        assert first == second


def test_twenty_seeds_have_each_fault_of_processes_and_nodes_at_least_twice() -> None:
    kinds = [step.kind for seed in range(1, 21) for step in schedule_of(seed).steps]
    assert all(kinds.count(kind) >= 2 for kind in StepKind)


def test_five_hundred_seeds_have_each_fault_of_requests_of_each_role() -> None:
    windows = [window for seed in range(1, 501) for window in schedule_of(seed).windows]
    assert {window.fault.kind for window in windows} == set(FaultKind)
    assert {window.target for window in windows} == set(Target) - {Target.EVENT}
    assert {window.role for window in windows} == set(Role)
    statuses = {window.fault.status for window in windows if window.fault.kind is FaultKind.REFUSED}
    assert statuses == {409, 410, 429, 500, 503}


def test_each_gang_fits_into_the_quota() -> None:
    for seed in range(200):
        assert all(work.pods * work.chips <= QUOTA for work in schedule_of(seed).work)


def test_a_schedule_without_faults_of_processes_has_the_same_kinds_of_work() -> None:
    schedule = schedule_of(3, processes=False)
    assert not schedule.steps
    assert {work.name for work in schedule.work} >= {"npu-0", "gpu-0", "fails", "single-0", "single-1"}
