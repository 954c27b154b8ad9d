"""``job view`` and ``job top``: sections, Events, and the progress of a gang."""

import json
from typing import Any

import pytest

from scheduler.cli.layout import bar
from tests.unit.cli.cluster import EVENTS, GROUPS, JOBS, PODS, Cluster, Raw, job, pod_group
from tests.unit.controllers.acjob.jobs import acjob, role

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
    cluster.holds(PODS)

    lines = cluster.prints("job", "top", "-q", "default").splitlines()

    assert [line.split(maxsplit=6) for line in lines[1:]] == [
        ["done", "█" * 10, "3/2/3", "Running", "default", lines[1].split()[5]],
        ["wait", "░" * 6 + "▏" + "░" * 3, "0/2/3", "Pending", "default", lines[2].split()[5], WAITS],
        ["lost", "░" * 6 + "▏" + "░" * 3, "0/2/3", "Failed", "default", lines[3].split()[5], "retries are used up"],
    ]
    assert lines[0].split() == ["Name", "Gang", "Ready/Min/All", "Phase", "Queue", "Age", "Reason"]


def pod(name: str, group: str, phase: str = "Pending", *, why: str = "", **metadata: Any) -> Raw:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": group},
            "labels": {"pod-template-hash": "7d4b9c"},
            **metadata,
        },
        "spec": {"containers": [{"name": "main"}], **({} if phase == "Pending" else {"nodeName": "n1"})},
        "status": {"phase": phase, **({"conditions": [condition]} if why else {})},
    }


def owned(name: str, kind: str, owner: str, phase: str = "Inqueue") -> Raw:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}
    group = pod_group(name, phase=phase)
    return {**group, "metadata": {**group["metadata"], "ownerReferences": [reference]}}


def test_top_shows_workloads_without_a_vcjob_and_why_their_pods_wait(cluster: Cluster) -> None:
    """Given a Deployment that has grown beyond its quota, a StatefulSet that runs, and PodGroups without Pods."""
    cluster.holds(JOBS)
    cluster.holds(
        GROUPS,
        owned("podgroup-1", "ReplicaSet", "web-7d4b9c", "Running"),
        owned("podgroup-2", "StatefulSet", "db", "Running"),
        owned("podgroup-3", "ReplicaSet", "idle-7d4b9c"),
        pod_group("bare"),
    )
    quota = "card NVIDIA-H200 of queue vision: used 3000, requested 1000, limit 3000"
    cluster.holds(
        PODS,
        pod("web-1", "podgroup-1", "Running"),
        pod("web-2", "podgroup-1", why=quota),
        pod("web-0", "podgroup-1", "Failed"),
        pod("web-3", "podgroup-1", "Running", deletionTimestamp="2026-01-02T03:04:05Z"),
        pod("db-0", "podgroup-2", "Running"),
        pod("alone", "bare"),
        {"metadata": {"name": "other-scheduler", "namespace": "default"}},
    )

    lines = cluster.prints("job", "top").splitlines()

    assert [line.split(maxsplit=6) for line in lines[1:]] == [
        ["Deployment/web", "█████░░░░░", "1/2/2", "Running", "default", "<unknown>", quota],
        ["StatefulSet/db", "█" * 10, "1/2/1", "Running", "default", "<unknown>"],
        ["PodGroup/bare", "░" * 10, "0/2/1", "Pending", "default", "<unknown>"],
    ]


def test_the_labels_of_top_select_pods_of_workloads_too(cluster: Cluster) -> None:
    for path in (JOBS, GROUPS, PODS):
        cluster.holds(path)

    cluster.run("job", "top", "-l", "team=a")

    selectors = {call.path: call.query.get("labelSelector") for call in cluster.api.calls}
    assert selectors == {JOBS: "team=a", GROUPS: None, PODS: "team=a,!volcano.sh/job-name"}


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


# --- restarts after faults ---
STATE = "/api/v1/namespaces/volcano-system/configmaps"
HISTORY = "/api/v1/namespaces/mindx-dl/configmaps"
KEY = "default/train-uid"


def section(cluster: Cluster) -> list[str]:
    """The section about restarts, without its heading."""
    lines = cluster.prints("job", "view", "-N", "train").splitlines()
    start = lines.index("Rescheduling:") + 1
    return [line.strip() for line in lines[start : next(i for i in range(start, len(lines)) if lines[i][0] != " ")]]


def faulty_job(cluster: Cluster, **labels: str) -> None:
    raw = job("train")
    raw["metadata"]["labels"] = {"fault-scheduling": "force", **labels}
    cluster.holds(JOBS, raw)
    cluster.holds(GROUPS, pod_group("train-uid", owner="train"))
    cluster.holds(EVENTS)


def test_the_restarts_of_a_job_are_shown_with_their_reasons_and_the_retries_that_remain(cluster: Cluster) -> None:
    faulty_job(cluster, **{"fault-retry-times": "2"})
    pods = [{"uid": f"u{i}", "name": f"train-t-{i}"} for i in range(4)]
    extents = [{"number": 2, "pods": 4, "whole": True}, {"number": 1, "pods": 4, "names": ["a", "b", "c"]}]
    restart = {"uid": "o", "number": 2, "time": 1, "force": True, "whole": True, "pods": pods, "extents": extents}
    data = {
        "remain-retry-times": json.dumps({KEY: {"UUID": "o", "Times": 1}}),
        "restarts": json.dumps({KEY: restart}),
    }
    cluster.holds(STATE, {"metadata": {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"}, "data": data})
    reasons = [
        {"RescheduleReason": kind, "PodName": pod, "NodeName": node, "NodeRankIndex": rank}
        for kind, pod, node, rank in (("CardUnhealthy", "train-t-0", "a", "0"), ("pod-failed", "train-t-3", "", ""))
    ]
    records = [{"RescheduleTimeStamp": 1_000_000_000, "ReasonOfTask": [reason]} for reason in reasons]
    history = {"JobID": KEY, "TotalRescheduleTimes": 2, "RescheduleRecords": records}
    data = {"recent-reschedule-records": json.dumps({KEY: history})}
    cluster.holds(HISTORY, {"metadata": {"name": "job-reschedule-reason", "namespace": "mindx-dl"}, "data": data})

    lines = section(cluster)

    assert lines[:4] == [
        "Strategy:           force",
        "Retries Left:       1 of 2",
        "Restarts:           2",
        "In Progress:        restart 2: all Pods are deleted and replaced (train-t-0, train-t-1, train-t-2 and 1 more)",
    ]
    assert [line.partition(" ago: ")[2] for line in lines[4:]] == [
        "CardUnhealthy of Pod train-t-0 on node a (rank 0)",
        "all 4 Pods were replaced",
        "pod-failed of Pod train-t-3",
        "4 Pods (a, b, c and 1 more) were replaced",
    ]
    assert [line.partition(":")[0] for line in lines[4:]] == ["Restart 2"] * 2 + ["Restart 1"] * 2


@pytest.mark.parametrize(
    ("extent", "strategy", "text"),
    [
        ({"pods": 1, "whole": True}, "grace", "the only Pod was replaced"),
        ({"pods": 1, "names": ["train-t-1"]}, "force", "Pod train-t-1 was replaced"),
        ({"pods": 2, "names": ["a", "b"]}, "external-grace", "2 Pods (a, b) were marked"),
    ],
)
def test_a_restart_says_which_pods_it_concerned(cluster: Cluster, extent: Raw, strategy: str, text: str) -> None:
    faulty_job(cluster, **{"fault-scheduling": strategy})
    restarted(cluster, "default/train-uid", {"number": 1, **extent})
    assert section(cluster)[-1].endswith(f" ago: {text}")


def restarted(cluster: Cluster, key: str, *extents: Raw) -> None:
    """The restarts of a PodGroup, as the scheduler keeps them."""
    restart = {"uid": "o", "number": len(extents), "time": 1, "extents": extents}
    data = {"restarts": json.dumps({key: restart})}
    cluster.holds(STATE, {"metadata": {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"}, "data": data})
    records = [{"RescheduleTimeStamp": 1_000_000_000, "ReasonOfTask": []} for _ in extents]
    history = {"JobID": key, "TotalRescheduleTimes": len(extents), "RescheduleRecords": records}
    data = {"recent-reschedule-records": json.dumps({key: history})}
    cluster.holds(HISTORY, {"metadata": {"name": "job-reschedule-reason", "namespace": "mindx-dl"}, "data": data})


def test_the_restarts_of_a_job_that_has_no_podgroup_at_the_moment_are_shown(cluster: Cluster) -> None:
    faulty_job(cluster)
    cluster.holds(GROUPS)
    restarted(cluster, "default/train-uid-train", {"number": 1, "pods": 2, "whole": True})
    assert section(cluster)[-1].endswith("all 2 Pods were replaced")


# --- AscendJobs ---
ACJOBS = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"


def ascend_job(cluster: Cluster, **status: Any) -> None:
    """An AscendJob ``train``; there is no vcjob of this name."""
    policy = {"schedulingPolicy": {"queue": "research", "minAvailable": 3}, "backoffLimit": 4, "cleanPodPolicy": "All"}
    raw = acjob({"Master": role(), "Worker": role(2)}, labels={"fault-scheduling": "force"}, run_policy=policy)
    cluster.holds(JOBS)
    cluster.api.answer("GET", f"{JOBS}/train", {"reason": "NotFound", "message": "not found"}, 404)
    cluster.holds(ACJOBS, raw | {"status": status})
    group = pod_group("train-uid-train", why=WAITS)
    reference = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "train", "uid": "uid-train"}
    group["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    cluster.holds(GROUPS, group)
    cluster.holds(EVENTS)


def test_an_ascend_job_is_shown_with_its_roles_conditions_and_restarts(cluster: Cluster) -> None:
    conditions = [
        {"type": "Created", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        {"type": "Running", "status": "True", "reason": "JobRunning", "message": "Job default/train is running."},
    ]
    ascend_job(cluster, conditions=conditions, replicaStatuses={"Master": {"active": 1}, "Worker": {}})
    restarted(cluster, "default/train-uid-train", {"number": 1, "pods": 3, "whole": True})

    lines = cluster.prints("job", "view", "train").splitlines()

    start = lines.index("Spec:")
    resources = [
        "      Requests:       cpu=1,huawei.com/Ascend910=8",
        "      Limits:         cpu=1,huawei.com/Ascend910=8",
    ]
    assert lines[start : lines.index("PodGroup:")] == [
        "Spec:",
        "  Framework:          pytorch",
        "  Queue:              research",
        "  Min Available:      3",
        "  Backoff Limit:      4",
        "  Clean Pod Policy:   All",
        "  Scheduler Name:     volcano",
        "  Roles:",
        "    Master:",
        "      Replicas:       1",
        "      Container:      ascend (x)",
        *resources,
        "    Worker:",
        "      Replicas:       2",
        "      Container:      ascend (x)",
        *resources,
        "Status:",
        "  Phase:              Running",
        "  Reason:             JobRunning",
        "  Message:            Job default/train is running.",
        "  Role Master:        active=1",
        "  Role Worker:        <none>",
        "  Condition:          Created is True since 2026-01-02T03:04:05Z",
        "  Condition:          Running is True since <unknown>",
    ]
    assert f"  Waits:              {WAITS}" in lines
    assert section(cluster)[-1].endswith("all 3 Pods were replaced")
    fields = [call.query.get("fieldSelector") for call in cluster.api.calls if call.path == EVENTS]
    assert fields[0] == "involvedObject.kind=AscendJob,involvedObject.name=train"
    assert json.loads(cluster.prints("job", "view", "train", "-o", "json"))["kind"] == "AscendJob"


FAULTS = "Ascend910-3 of node a is unhealthy (Pod train-w-0); Ascend910-5 of node a is unhealthy (Pod train-w-0)"


def with_faults(group: Raw, status: str = "True") -> Raw:
    """The PodGroup with the condition about failed devices."""
    found = {"type": "DeviceUnhealthy", "status": status, "reason": "DeviceUnhealthy", "message": FAULTS}
    return {**group, "status": {**group["status"], "phase": "Running", "conditions": [found]}}


def test_devices_that_have_failed_are_rows_of_the_job(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train", status={"state": {"phase": "Running"}}))
    cluster.holds(GROUPS, with_faults(pod_group("train-uid", owner="train")))
    cluster.holds(EVENTS)
    cluster.holds(PODS)

    lines = cluster.prints("job", "view", "train").splitlines()

    assert [line for line in lines if "Device Fault" in line] == [
        f"  Device Fault:       {text}" for text in FAULTS.split("; ")
    ]
    assert FAULTS in cluster.prints("job", "top", "--no-watch")
    cluster.holds(GROUPS, with_faults(pod_group("train-uid", owner="train"), "False"))
    assert "Ascend910-3" not in cluster.prints("job", "view", "train") + cluster.prints("job", "top", "--no-watch")


@pytest.mark.parametrize("others", [{}, {"team": "vision"}])
def test_the_copy_of_the_object_that_kubectl_apply_keeps_is_not_shown(cluster: Cluster, others: Raw) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": '{"kind":"Job"}', **others}
    shown = f"Annotations:          {'team=vision' if others else '<none>'}"
    raw = job("train")
    raw["metadata"]["annotations"] = annotations
    cluster.holds(JOBS, raw)
    cluster.holds(GROUPS)
    cluster.holds(EVENTS)
    assert shown in cluster.prints("job", "view", "train").splitlines()
    assert json.loads(cluster.prints("job", "view", "train", "-o", "json"))["metadata"]["annotations"] == annotations

    ascend_job(cluster)
    raw = acjob({"Master": role()})
    raw["metadata"]["annotations"] = annotations
    cluster.holds(ACJOBS, raw)
    assert shown in cluster.prints("job", "view", "train").splitlines()


def test_an_ascend_job_without_a_status_waits(cluster: Cluster) -> None:
    ascend_job(cluster)
    for path, name in ((STATE, "vcjob-fault-npu-cm"), (HISTORY, "job-reschedule-reason")):
        cluster.api.answer("GET", f"{path}/{name}", {"reason": "NotFound", "message": "not found"}, 404)
    assert "  Phase:              Pending" in cluster.prints("job", "view", "train").splitlines()


def test_without_a_job_of_the_name_the_error_is_about_the_vcjob(cluster: Cluster) -> None:
    for path in (JOBS, ACJOBS):
        cluster.api.answer("GET", f"{path}/train", {"reason": "NotFound", "message": f"{path} not found"}, 404)
    assert f"{JOBS} not found" in cluster.refuses("job", "view", "train")


def test_names_of_ascend_jobs_are_completed_too(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train-1"))
    assert cluster.completes("job", "view", "tr") == ["train-1"]
    cluster.holds(ACJOBS, acjob({"Master": role()}))
    assert cluster.completes("job", "view", "tr") == ["train-1", "train"]


def test_a_job_that_never_restarted_has_none(cluster: Cluster) -> None:
    faulty_job(cluster)
    for path, name in ((STATE, "vcjob-fault-npu-cm"), (HISTORY, "job-reschedule-reason")):
        cluster.api.answer("GET", f"{path}/{name}", {"reason": "NotFound", "message": "not found"}, 404)
    assert section(cluster) == ["Strategy:           force", "Restarts:           0"]


def test_a_history_that_may_not_be_read_does_not_hide_the_job(cluster: Cluster) -> None:
    faulty_job(cluster)
    refusal = {"reason": "Forbidden", "message": 'configmaps is forbidden: User "u" cannot get'}
    cluster.api.answer("GET", f"{STATE}/vcjob-fault-npu-cm", refusal, 403)
    _, history = section(cluster)
    assert history.startswith("History:            not readable: get ConfigMap vcjob-fault-npu-cm")


def test_a_malformed_history_is_shown_as_a_warning(cluster: Cluster) -> None:
    faulty_job(cluster)
    for path, name in ((STATE, "vcjob-fault-npu-cm"), (HISTORY, "job-reschedule-reason")):
        data = {"restarts": "{", "recent-reschedule-records": "[1]"}
        cluster.holds(path, {"metadata": {"name": name, "namespace": "x"}, "data": data})
    assert section(cluster)[1].startswith(
        "Warning:            ConfigMap volcano-system/vcjob-fault-npu-cm: data[restarts]"
    )


def test_the_alternatives_of_a_job_are_shown_with_what_the_scheduler_wrote_about_them(cluster: Cluster) -> None:
    listed = [
        {"card": "NVIDIA-H200", "resource": "nvidia.com/gpu", "count": 8},
        {"card": "Ascend-910B", "resource": "huawei.com/Ascend910", "image": "cann:8", "replicas": 2},
        {"card": "PPU-ZW810E", "resource": "example.com/ppu"},
    ]
    annotations = {"volcano.sh/card.alternatives": json.dumps(listed)}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    cluster.holds(JOBS, job("train", tasks=[{"name": "worker", "replicas": 4, "template": template}]))
    group = pod_group("train-uid", owner="train")
    message = "NVIDIA-H200: 0 of 4 Pods find a node\nAscend-910B: chosen"
    group["status"]["conditions"] = [{"type": "AlternativeChosen", "status": "True", "message": message}]
    cluster.holds(GROUPS, group)
    cluster.holds(EVENTS)

    lines = cluster.prints("job", "view", "train").splitlines()

    assert lines[lines.index("Alternatives:") : -1] == [
        "Alternatives:",
        "  NVIDIA-H200:        0 of 4 Pods find a node",
        "    Task worker:      8 nvidia.com/gpu",
        "  Ascend-910B:        chosen",
        "    Task worker:      1 huawei.com/Ascend910, cann:8, 2 Pods",
        "  PPU-ZW810E:         not tried",
        "    Task worker:      1 example.com/ppu",
    ]
