"""Pods that were evicted, and Pods that had ended before."""

from typing import Any

import msgspec
import pytest

from scheduler.api.kinds import POD
from scheduler.api.objects import Pod
from scheduler.controllers.evictions import is_being_deleted, was_evicted
from scheduler.controllers.store import PodParts, Store

NOON = "2026-01-01T12:00:00Z"
BEFORE = "2026-01-01T11:59:57Z"
JUST_BEFORE = "2026-01-01T11:59:58Z"
AFTER = "2026-01-01T12:00:03Z"
IN_30_SECONDS = "2026-01-01T12:00:30Z"


def pod(
    phase: str,
    deleted: str | None = None,
    grace: int | None = None,
    finished: tuple[str | None, ...] = (),
    condition: tuple[str, str, str] | None = None,
) -> Pod:
    """``deleted``: the deletionTimestamp; ``finished``: when each container finished; ``condition``: status, reason and
    time of DisruptionTarget."""
    names = ("status", "reason", "lastTransitionTime")
    conditions: list[Any] = [{"type": "Ready", "status": "False"}]
    conditions += [{"type": "DisruptionTarget", **dict(zip(names, condition, strict=True))}] if condition else []
    statuses: list[Any] = [
        {"name": f"c{i}", "state": {"terminated": {"exitCode": 0, "finishedAt": time}} if time else {"running": {}}}
        for i, time in enumerate(finished)
    ]
    document = {
        "metadata": {"name": "p", "deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace},
        "spec": {"containers": []},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }
    return PodParts().of(msgspec.convert(document, Pod))


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "Failed", "Succeeded"])
def test_a_pod_that_is_not_deleted_was_not_evicted(phase: str) -> None:
    assert not was_evicted(pod(phase, finished=(BEFORE,)))


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_is_deleted_before_it_has_ended_is_evicted(phase: str) -> None:
    assert was_evicted(pod(phase, IN_30_SECONDS, 30))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize(
    ("deleted", "grace", "finished", "evicted"),
    [
        (IN_30_SECONDS, 30, (AFTER,), True),
        (IN_30_SECONDS, 30, (NOON,), True),
        (IN_30_SECONDS, 30, (BEFORE, AFTER), True),
        (IN_30_SECONDS, 30, (BEFORE,), False),
        (IN_30_SECONDS, 30, (JUST_BEFORE,), True),  # by a clock that is behind
        (IN_30_SECONDS, 30, (BEFORE, None), True),
        (IN_30_SECONDS, 30, (), True),
        (IN_30_SECONDS, None, (), True),
        # The kubelet has confirmed the deletion, or the Pod had ended; a finalizer keeps it.
        (NOON, 0, (AFTER,), True),
        (NOON, 0, (BEFORE,), False),
        (NOON, 0, (JUST_BEFORE,), True),
        (NOON, 0, (), False),
        ("soon", 0, (BEFORE,), False),
    ],
)
def test_the_time_at_which_containers_finished_decides_and_then_the_grace_period(
    phase: str, deleted: str, grace: int | None, finished: tuple[str | None, ...], evicted: bool
) -> None:
    assert was_evicted(pod(phase, deleted, grace, finished)) == evicted


@pytest.mark.parametrize(
    ("reason", "status", "finished", "evicted"),
    [
        ("DeletionByPodGC", "True", (), True),
        ("DeletionByTaintManager", "True", (AFTER,), True),
        ("EvictionByEvictionAPI", "True", (BEFORE,), False),
        ("PreemptionByScheduler", "False", (AFTER,), False),
        # The kubelet ends the Pod and does not delete it: the Pod has failed.
        ("TerminationByKubelet", "True", (AFTER,), False),
    ],
)
def test_an_eviction_begins_with_its_condition(
    reason: str, status: str, finished: tuple[str, ...], evicted: bool
) -> None:
    condition = (status, reason, NOON)
    assert was_evicted(pod("Failed", finished=finished, condition=condition)) == evicted


@pytest.mark.parametrize(
    ("phase", "reason", "message", "evicted"),
    [
        ("Failed", "UnexpectedAdmissionError", "Allocate failed due to NPUSegmentFailed, which is unexpected", True),
        ("Failed", "UnexpectedAdmissionError", "Allocate failed due to NoNPUResource, which is unexpected", True),
        ("Failed", "UnexpectedAdmissionError", "Allocate failed due to not get valid pod", False),
        ("Failed", "Evicted", "NPUSegmentFailed", False),
        ("Running", "UnexpectedAdmissionError", "NPUSegmentFailed", False),
    ],
)
def test_a_pod_whose_virtual_npu_could_not_be_created_was_evicted(
    phase: str, reason: str, message: str, *, evicted: bool
) -> None:
    found = pod(phase)
    found.status.reason, found.status.message = reason, message
    found = PodParts().of(found)
    assert was_evicted(found) is evicted
    assert is_being_deleted(found) is evicted


def test_a_pod_that_runs_with_the_condition_is_not_evicted_until_it_is_deleted() -> None:
    assert not was_evicted(pod("Running", condition=("True", "PreemptionByScheduler", NOON)))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_whose_end_the_kubelet_confirms_later_stays_evicted(phase: str) -> None:
    """The API server then sets another deletionTimestamp, without a grace period."""
    store = Store()
    versions = [
        pod("Running"),
        pod("Running", IN_30_SECONDS, 30),
        pod(phase, IN_30_SECONDS, 30, (AFTER,)),
        pod(phase, "2026-01-01T12:00:20Z", 0, (AFTER,)),
    ]
    for number, version in enumerate(versions):
        version.metadata.uid, version.metadata.resource_version = "u", str(number)
        assert store.upsert(POD, version)[0]
    (last,) = store.all(POD)
    assert was_evicted(last) and was_evicted(versions[-1])
    assert (last.metadata.deletion_timestamp, last.metadata.deletion_grace_period_seconds) == (IN_30_SECONDS, 30)
