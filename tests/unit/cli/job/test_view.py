"""``job view`` and ``job top``: sections, Events, and the progress of a gang."""

import json

import pytest

from scheduler.cli.job.top import bar
from tests.unit.cli.cluster import EVENTS, GROUPS, JOBS, Cluster, Raw, job, pod_group

WAITS = "3/3 tasks in gang unschedulable: cpu: asked 4, most free on one node 1500m"


def event(reason: str, uid: str, last: str) -> Raw:
    return {
        "metadata": {"name": f"train.{reason}"},
        "type": "Normal",
        "reason": reason,
        "message": f"{reason}!\n",
        "source": {"component": "vc-controller-manager"},
        "firstTimestamp": "2000-01-01T00:00:00Z",
        "lastTimestamp": last,
        "involvedObject": {"kind": "Job", "name": "train", "uid": uid},
    }


def test_a_job_is_shown_with_its_gang_and_its_own_events_in_order(cluster: Cluster) -> None:
    template = {
        "spec": {"containers": [{"name": "main", "image": "repo/image:1", "resources": {"requests": {"cpu": "4"}}}]}
    }
    tasks = [{"name": "worker", "replicas": 3, "minAvailable": 2, "template": template}]
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    status = {"state": {"phase": "Pending"}, "minAvailable": 2, "pending": 3, "retryCount": 1}
    cluster.holds(JOBS, job("train", tasks=tasks, policies=policies, plugins={"svc": [], "ssh": None}, status=status))
    cluster.holds(GROUPS, pod_group("other"), pod_group("train-uid", owner="train", why=WAITS))
    cluster.holds(
        EVENTS,
        event("Later", "uid-train", "2001-01-02T00:00:00Z"),
        event("Sooner", "uid-train", "2001-01-01T00:00:00Z"),
        event("Namesake", "uid-before", "2001-01-01T00:00:00Z"),
    )

    lines = cluster.prints("job", "view", "-N", "train").splitlines()

    assert lines[:-4] == [
        "Name:                 train",
        "Namespace:            default",
        "Labels:               <none>",
        "Annotations:          <none>",
        "API Version:          batch.volcano.sh/v1alpha1",
        "Kind:                 Job",
        "Metadata:",
        "  Creation Timestamp: 2026-01-02T03:04:05Z",
        "  Resource Version:   5",
        "  UID:                uid-train",
        "Spec:",
        "  Queue:              default",
        "  Scheduler Name:     volcano-py",
        "  Min Available:      2",
        "  Max Retry:          3",
        "  Plugins:",
        "    ssh:              <none>",
        "    svc:              <none>",
        "  Policy:             PodEvicted -> RestartJob",
        "  Tasks:",
        "    worker:",
        "      Replicas:       3",
        "      Min Available:  2",
        "      Container:      main (repo/image:1)",
        "      Requests:       cpu=4",
        "Status:",
        "  Phase:              Pending",
        "  Min Available:      2",
        "  Pending:            3",
        "  Retry Count:        1",
        "PodGroup:",
        "  Name:               train-uid",
        "  Phase:              Pending",
        "  Min Member:         2",
        f"  Waits:              {WAITS}",
    ]
    assert [line.split()[:2] for line in lines[-4:]] == [
        ["Events:"],
        ["Type", "Reason"],
        ["Normal", "Sooner"],
        ["Normal", "Later"],
    ]


def test_a_job_with_few_fields_is_shown(cluster: Cluster) -> None:
    cluster.holds(JOBS, {"metadata": {"name": "bare"}, "spec": {"tasks": [{"template": {"spec": {"containers": 3}}}]}})
    cluster.holds(GROUPS)
    cluster.holds(EVENTS)

    lines = cluster.prints("job", "view", "bare").splitlines()

    assert lines[-2:] == ["PodGroup:             <none>", "Events:               <none>"]


def test_json_is_the_whole_object(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train"))

    assert json.loads(cluster.prints("job", "view", "train", "-o", "json")) == job("train")


def test_top_shows_the_progress_of_each_gang_and_why_it_waits(cluster: Cluster) -> None:
    running = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 2, "succeeded": 1}
    failed = {"state": {"phase": "Failed", "message": "retries are used up"}}
    cluster.holds(JOBS, job("done", status=running), job("wait"), job("lost", status=failed), job("x", queue="other"))
    cluster.holds(GROUPS, pod_group("wait-uid", owner="wait", why=WAITS))

    lines = cluster.prints("job", "top", "-q", "default").splitlines()

    assert [line.split(maxsplit=6) for line in lines[1:]] == [
        ["done", "█" * 20, "3/2/3", "Running", "default", lines[1].split()[5]],
        ["wait", "░" * 13 + "▏" + "░" * 6, "0/2/3", "Pending", "default", lines[2].split()[5], WAITS],
        ["lost", "░" * 13 + "▏" + "░" * 6, "0/2/3", "Failed", "default", lines[3].split()[5], "retries are used up"],
    ]
    assert lines[0].split() == ["Name", "Gang", "Ready/Min/All", "Phase", "Queue", "Age", "Reason"]


@pytest.mark.parametrize(
    ("ready", "needed", "total", "drawn"),
    [
        (0, 4, 4, "░░░░░░░░"),
        (1, 2, 4, "██░▏░░░░"),
        (2, 2, 4, "████░░░░"),
        (4, 4, 4, "████████"),
        (9, 4, 4, "████████"),
        (0, 0, 0, "░░░░░░░░"),
    ],
)
def test_a_bar_marks_the_needed_number_until_the_gang_is_complete(
    ready: int, needed: int, total: int, drawn: str
) -> None:
    assert bar(ready, needed, total, cells=8) == drawn
