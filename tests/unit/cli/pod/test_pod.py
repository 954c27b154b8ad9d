"""``pod list``: selection of Pods, and their status as kubectl shows it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from scheduler.cli.pod_state import ListedPod, PodState, pod_state
from tests.unit.cli.cluster import PODS, Cluster, Raw


def pod(name: str, *, labels: Raw | None = None, annotations: Raw | None = None, **status: Any) -> Raw:
    made = datetime.now(UTC) - timedelta(days=5, minutes=1)
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "main"}], "nodeName": "node-1"},
        "status": {"phase": "Running", **status},
    }


def test_a_row_shows_readiness_status_restarts_and_age(cluster: Cluster) -> None:
    up = {"name": "main", "ready": True, "restartCount": 2, "state": {"running": {}}}
    cluster.holds(PODS, pod("train-worker-0", containerStatuses=[up]))

    assert cluster.prints("pod", "list") == (
        "Namespace        Name                  Ready        Status         Restart        Age\n"
        "default          train-worker-0        1/1          Running        2              5d\n"
    )


def test_the_time_of_the_last_restart_follows_the_number_of_restarts(cluster: Cluster) -> None:
    ends = [(datetime.now(UTC) - timedelta(minutes=m, seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ") for m in (300, 12)]
    crashed = [
        {"name": name, "restartCount": 1, "lastState": {"terminated": {"exitCode": 1, "finishedAt": end}}}
        for name, end in zip(("a", "b"), ends, strict=True)
    ]
    cluster.holds(PODS, pod("p", containerStatuses=crashed))

    assert "  2 (12m ago)  " in cluster.prints("pod", "list")


def test_pods_are_selected_by_vcjob_or_queue(cluster: Cluster) -> None:
    mine, other = pod("mine", labels={"volcano.sh/queue-name": "q"}), pod("other")
    plain = pod("plain", annotations={"scheduling.volcano.sh/queue-name": "q"})
    cluster.holds(PODS, mine, other, plain)

    def asked(*flags: str) -> str:
        cluster.prints("pod", "list", *flags)
        return cluster.api.to("GET", PODS)[-1].query.get("labelSelector", "")

    assert asked() == "volcano.sh/job-name"
    assert asked("-j", "train") == "volcano.sh/job-name=train"
    assert asked("-j", "train", "-l", "a=b") == "volcano.sh/job-name=train,a=b"
    assert asked("-q", "q") == ""
    assert cluster.prints("pod", "list", "-q", "q", "-o", "name") == "pod/mine\npod/plain\n"


def test_wide_adds_node_job_and_queue(cluster: Cluster) -> None:
    cluster.holds(PODS, pod("p", labels={"volcano.sh/job-name": "train", "volcano.sh/queue-name": "q"}))

    titles, row = cluster.prints("pod", "list", "-o", "wide").splitlines()

    assert titles.split()[-3:] == ["Node", "Job", "Queue"]
    assert row.split()[-3:] == ["node-1", "train", "q"]


def container(state: Raw, **fields: Any) -> Raw:
    return {"name": "main", "state": state, **fields}


def state_of(status: Raw, *, init: list[Raw] | None = None, **metadata: Any) -> PodState:
    raw = {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main"}], "initContainers": init or []},
        "status": status,
    }
    return pod_state(msgspec.convert(raw, ListedPod))


CRASH = container({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=4)
DONE = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
UP = container({"running": {}}, ready=True)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, PodState(0, 1, "Pending", 0)),
        ({"phase": "Failed", "reason": "Evicted"}, PodState(0, 1, "Evicted", 0)),
        ({"phase": "Running", "containerStatuses": [CRASH]}, PodState(0, 1, "CrashLoopBackOff", 4)),
        ({"phase": "Succeeded", "containerStatuses": [DONE]}, PodState(0, 1, "Completed", 0)),
        ({"phase": "Running", "containerStatuses": [DONE, UP]}, PodState(1, 1, "NotReady", 0)),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 3}})]},
            PodState(0, 1, "ExitCode:3", 0),
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 137, "signal": 9}})]},
            PodState(0, 1, "Signal:9", 0),
        ),
        (
            {"phase": "Pending", "conditions": [GATED]},
            PodState(0, 1, "SchedulingGated", 0),
        ),
    ],
)  # fmt: skip
def test_the_status_is_the_reason_of_the_containers(status: Raw, expected: PodState) -> None:
    assert state_of(status) == expected


def test_the_status_is_that_of_init_containers_until_they_complete() -> None:
    init = [{"name": "a"}, {"name": "b"}]
    done: Raw = {"name": "a", "restartCount": 1, "state": {"terminated": {"exitCode": 0}}}
    statuses = [done, {"name": "b", "state": {"running": {}}}]
    waiting = [done, {"name": "b", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    failed = [done, {"name": "b", "state": {"terminated": {"exitCode": 2}}}]

    def words(statuses: list[Raw], **more: Any) -> PodState:
        return state_of({"phase": "Pending", "initContainerStatuses": statuses, **more}, init=init)

    assert words(statuses) == PodState(0, 1, "Init:1/2", 1)
    assert words(waiting).status == "Init:ImagePullBackOff"
    assert words(failed).status == "Init:ExitCode:2"
    over = words([done, {**done, "name": "b"}], containerStatuses=[UP], phase="Running")
    assert over == PodState(1, 1, "Running", 0)


def test_a_sidecar_counts_as_a_container() -> None:
    init = [{"name": "proxy", "restartPolicy": "Always"}]
    proxy = {"name": "proxy", "started": True, "ready": True, "restartCount": 3, "state": {"running": {}}}

    state = state_of({"phase": "Running", "initContainerStatuses": [proxy], "containerStatuses": [UP]}, init=init)

    assert state == PodState(2, 2, "Running", 3)


def test_a_deleted_pod_is_terminating() -> None:
    going: Raw = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert state_of({"phase": "Running", "containerStatuses": [UP]}, **going).status == "Terminating"
    assert state_of({"phase": "Running", "reason": "NodeLost"}, **going).status == "Unknown"
    assert state_of({"phase": "Succeeded", "containerStatuses": [DONE]}, **going).status == "Completed"
