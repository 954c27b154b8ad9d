"""The status of a JobFlow."""

from typing import Any

import msgspec
import pytest

from scheduler.api.batch import Job
from scheduler.controllers.jobflow.status import MAX_HISTORY, FlowStatus, make_status
from tests.unit.controllers.jobs import Raw, job

FIRST, SECOND = 1577836800.0, 1577836860.0
"""The times 2020-01-01T00:00:00Z, and a minute later."""


def jobs(**phases: str) -> list[Job]:
    return [read(job(name, phase, creationTimestamp="2020-01-01T00:00:00Z")) for name, phase in phases.items()]


def read(raw: Raw) -> Job:
    return msgspec.convert(raw, Job)


def after(status: Raw, found: list[Job], now: float = FIRST, expected: str = "a") -> Raw:
    return make_status(msgspec.convert(status, FlowStatus), found, expected.split(), now)


def test_jobs_are_listed_by_phase_and_lists_without_jobs_are_left_out() -> None:
    found = jobs(a="Pending", b="Running", c="Failed", d="Completed", e="Terminated", f="Aborted", g="", h="Completing")
    status = after({}, found)
    lists = {key: value for key, value in status.items() if key not in ("jobStatusList", "conditions", "state")}
    assert lists == {
        "pendingJobs": ["a"],
        "runningJobs": ["b"],
        "failedJobs": ["c"],
        "completedJobs": ["d"],
        "terminatedJobs": ["e"],
        "unKnowJobs": ["f", "g"],
    }


def test_a_flow_whose_jobs_are_still_to_be_made_has_a_phase_and_nothing_else() -> None:
    assert after({}, []) == {"state": {"phase": "Pending"}}


def test_every_job_has_a_condition_and_a_record() -> None:
    raw = job("a", "Completed", creationTimestamp="2020-01-01T00:00:00Z")
    raw["status"] |= {
        "runningDuration": "1m30s",
        "retryCount": 2,
        "taskStatusCount": {"main": {"phase": {"Succeeded": 1}}},
    }
    status = after({}, [read(raw)], SECOND)
    assert status["conditions"] == {
        "a": {
            "phase": "Completed",
            "createTime": "2020-01-01T00:00:00Z",
            "runningDuration": "1m30s",
            "taskStatusCount": {"main": {"phase": {"Succeeded": 1}}},
        }
    }
    assert status["jobStatusList"] == [
        {
            "name": "a",
            "state": "Completed",
            "startTimestamp": "2020-01-01T00:00:00Z",
            "endTimestamp": "2020-01-01T00:01:30Z",
            "restartCount": 2,
            "runningHistories": [{"startTimestamp": "2020-01-01T00:01:00Z", "state": "Completed"}],
        }
    ]


def test_a_change_of_phase_ends_one_history_and_begins_the_next() -> None:
    pending = after({}, jobs(a="Pending"))
    same = after(pending, jobs(a="Pending"), SECOND)
    assert same == pending
    running = after(pending, jobs(a="Running"), SECOND)
    assert running["jobStatusList"][0]["runningHistories"] == [
        {"startTimestamp": "2020-01-01T00:00:00Z", "endTimestamp": "2020-01-01T00:01:00Z", "state": "Pending"},
        {"startTimestamp": "2020-01-01T00:01:00Z", "state": "Running"},
    ]


def test_a_job_that_restarts_for_ever_has_a_history_of_limited_length() -> None:
    status: Raw = {}
    for number in range(2 * MAX_HISTORY):
        status = after(status, jobs(a="Running" if number % 2 else "Restarting"), FIRST + number)
    histories = status["jobStatusList"][0]["runningHistories"]
    assert len(histories) == MAX_HISTORY
    assert [histories[0]["state"], histories[-1]["state"]] == ["Restarting", "Running"]


def test_a_job_without_a_phase_has_no_history_yet() -> None:
    [record] = after({}, jobs(a=""))["jobStatusList"]
    assert record == {"name": "a", "startTimestamp": "2020-01-01T00:00:00Z"}


def test_records_keep_their_order_and_outlive_their_jobs() -> None:
    status = after({}, jobs(b="Running", a="Completed"))
    status = after(status, jobs(c="Pending", b="Running"), SECOND)
    assert [(record["name"], record["state"]) for record in status["jobStatusList"]] == [
        ("b", "Running"),
        ("a", "Completed"),
        ("c", "Pending"),
    ]
    assert status["completedJobs"] == ["a"]
    assert sorted(status["conditions"]) == ["b", "c"]


@pytest.mark.parametrize("duration", ["soon", "9999999h", "2562047h"])
def test_a_duration_that_cannot_be_used_leaves_the_end_open(duration: str) -> None:
    raw = job("a", "Completed", creationTimestamp="9999-01-01T00:00:00Z")
    raw["status"]["runningDuration"] = duration
    [record] = after({}, [read(raw)])["jobStatusList"]
    assert "endTimestamp" not in record


@pytest.mark.parametrize(
    ("before", "phases", "then"),
    [
        ("", {}, "Pending"),
        ("", {"a": "Pending"}, "Pending"),
        ("", {"a": "Running"}, "Running"),
        ("", {"a": "Completed"}, "Running"),
        ("", {"a": "Failed"}, "Failed"),
        ("", {"a": "Terminated"}, "Failed"),
        ("Pending", {"a": "Running", "b": "Failed"}, "Failed"),
        ("Pending", {"a": "Running", "b": "Terminated"}, "Running"),
        ("Pending", {"a": "Aborted"}, "Pending"),
        ("Running", {"a": "Completed"}, "Succeed"),
        ("Running", {"a": "Completed", "b": "Failed"}, "Succeed"),
        ("Running", {"a": "Aborted"}, "Running"),
        ("Running", {"a": "Failed"}, "Failed"),
        ("Running", {"a": "Terminated"}, "Failed"),
        ("Succeed", {"a": "Failed"}, "Succeed"),
        ("Terminating", {"a": "Running"}, "Terminating"),
        ("Confused", {"a": "Running"}, "Running"),
    ],
)
def test_the_phase_follows_from_the_last_and_the_jobs(before: str, phases: dict[str, str], then: str) -> None:
    state: dict[str, Any] = {"state": {"phase": before}}
    assert after(state, jobs(**phases))["state"] == {"phase": then}
