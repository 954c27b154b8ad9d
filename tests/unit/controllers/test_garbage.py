"""The controller gc-controller over a cluster in memory, and its plans."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from scheduler.api.batch import Job
from scheduler.api.kinds import VCJOB
from scheduler.api.times import format_timestamp
from scheduler.controllers.effects import Delete, Plan, RecordEvent
from scheduler.controllers.job.garbage import GarbageController
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.jobs import in_phase, job

NOW = datetime.fromisoformat("2026-01-31T09:00:00Z").timestamp()
KEY = ("default", "j")


def expiring(ttl: Any, phase: str = "Completed", ended: str = "2026-01-31T08:59:50Z", **metadata: Any) -> Job:
    raw = job("j", phase, ended=ended, **metadata)
    raw["spec"]["ttlSecondsAfterFinished"] = ttl
    return msgspec.convert(raw, Job)


def plan(found: Job) -> Plan:
    store = Store()
    controller = GarbageController(store)
    store.upsert(VCJOB, found)
    controller.observe(VCJOB, None, found, NOW)
    return controller.plan(KEY, NOW)


def asked(old: Job | None, new: Job | None) -> bool:
    return bool(GarbageController(Store()).observe(VCJOB, old, new, NOW))


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
@pytest.mark.parametrize("ttl", [10, 9, 0, -5])
def test_a_finished_job_is_deleted_with_all_it_owns_when_its_time_is_over(phase: str, ttl: int) -> None:
    assert plan(expiring(ttl, phase)).stages == [[Delete(VCJOB, "default", "j", "uid-j", foreground=True)]]


def test_a_job_whose_time_is_not_over_is_checked_again_when_it_is() -> None:
    assert plan(expiring(25)) == Plan(after=15.0)


def test_a_time_to_live_of_ages_is_waited_for_in_parts() -> None:
    assert plan(expiring(2**31 - 1)) == Plan(after=30 * 86400.0)


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Aborted", "Completing", "Terminating", "Restarting"])
def test_a_job_that_has_not_finished_stays(phase: str) -> None:
    assert plan(expiring(0, phase)) == Plan()
    assert not asked(None, expiring(0, phase))


def test_a_job_without_a_time_to_live_stays() -> None:
    assert plan(expiring(None)) == Plan()
    assert not asked(None, expiring(None))


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    assert plan(expiring(0, deletionTimestamp="2026-01-31T08:59:55Z")) == Plan()


@pytest.mark.parametrize(("ended", "shown"), [("", "None"), ("yesterday", "'yesterday'")])
def test_a_job_that_does_not_say_when_it_finished_is_kept_and_reported(ended: str, shown: str) -> None:
    [[effect]] = plan(expiring(0, ended=ended)).stages
    assert isinstance(effect, RecordEvent)
    assert (effect.event.type, effect.event.reason) == ("Warning", "Malformed")
    assert effect.event.message == (
        f"status.state.lastTransitionTime: {shown} does not say when the job finished, so it is kept; ignored"
    )


def test_a_finished_job_is_checked_again_only_if_its_end_or_its_time_to_live_changes() -> None:
    before, later, longer = expiring(10), expiring(10, ended="2026-01-31T09:30:00Z"), expiring(20)
    assert asked(None, before)
    assert not asked(before, before)
    assert asked(before, later)
    assert asked(before, longer)
    assert asked(expiring(10, "Running"), before)
    assert not asked(before, None)


def test_a_job_goes_when_its_time_comes() -> None:
    cluster = Controlled(lambda store: [GarbageController(store)])
    raw = job("j", "Running")
    raw["spec"]["ttlSecondsAfterFinished"] = 5
    cluster.create(raw)
    cluster.wait(60)
    cluster.patch(VCJOB, "j", in_phase("Completed", format_timestamp(cluster.cluster.now)))
    cluster.wait(4)
    assert cluster.find(VCJOB, "j") is not None
    cluster.wait(1)
    assert cluster.find(VCJOB, "j") is None
    assert cluster.events() == []
