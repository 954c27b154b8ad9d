"""The status of a task, from the phase, deletion and node of its Pod."""

import pytest

from scheduler.api.task import TaskStatus, index_in_name, pod_status


@pytest.mark.parametrize(
    ("phase", "deleting", "node", "expected"),
    [
        ("Running", False, "n", TaskStatus.RUNNING),
        ("Running", True, "n", TaskStatus.RELEASING),
        ("Pending", False, "", TaskStatus.PENDING),
        ("", False, "", TaskStatus.PENDING),
        ("Pending", False, "n", TaskStatus.BOUND),
        ("Pending", True, "n", TaskStatus.RELEASING),
        ("Pending", True, "", TaskStatus.RELEASING),
        ("Succeeded", False, "n", TaskStatus.SUCCEEDED),
        ("Succeeded", True, "n", TaskStatus.SUCCEEDED),
        ("Failed", False, "n", TaskStatus.FAILED),
        ("Failed", True, "", TaskStatus.FAILED),
        ("Unknown", False, "n", TaskStatus.UNKNOWN),
        ("Nonsense", True, "", TaskStatus.UNKNOWN),
    ],
)
def test_status_of_a_pod(phase: str, deleting: bool, node: str, expected: TaskStatus) -> None:
    assert pod_status(phase, deleting, node) is expected


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job-worker-3", 3),
        ("a-b-c-12", 12),
        ("worker-3", -1),
        ("worker", -1),
        ("job-worker-x", -1),
        ("job-worker-", -1),
        ("job--3", 3),
        ("job-worker-12345678901", -1),
    ],
)
def test_the_index_is_the_trailing_number_of_a_name_with_three_parts(name: str, index: int) -> None:
    assert index_in_name(name) == index
