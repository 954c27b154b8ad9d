"""``job logs``: prefixes of lines, selection of Pods, and Pods that have not started."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cli.cluster import JOBS, PODS, Cluster, Raw, job
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal


def pod(task: str, index: int, *containers: str, **annotations: str) -> Raw:
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    metadata = {"name": f"train-{task}-{index}", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [{"name": name} for name in containers or ("main",)]}}


def writes(cluster: Cluster, name: str, text: str) -> None:
    async def log(call: Call, request: object) -> Answer:
        return web.Response(text=text)

    cluster.api.on("GET", f"{PODS}/{name}/log", log)


def test_lines_of_several_pods_are_grouped_and_begin_with_the_name_of_the_pod(cluster: Cluster) -> None:
    cluster.holds(PODS, pod("worker", 10), pod("worker", 2), pod("master", 0))
    writes(cluster, "train-master-0", "start\ndone\n")
    writes(cluster, "train-worker-2", "two")
    writes(cluster, "train-worker-10", "ten\n")

    assert cluster.prints("job", "logs", "train") == (
        "[train-master-0] start\n[train-master-0] done\n[train-worker-2] two\n[train-worker-10] ten\n"
    )


def test_lines_of_a_single_pod_have_no_prefix(cluster: Cluster) -> None:
    cluster.holds(PODS, pod("worker", 0))
    writes(cluster, "train-worker-0", "one\n\ntwo\n")

    assert cluster.prints("job", "logs", "-N", "train") == "one\n\ntwo\n"


def test_task_index_and_tail_are_selected_by_the_server(cluster: Cluster) -> None:
    cluster.holds(PODS, pod("worker", 1))
    writes(cluster, "train-worker-1", "")

    cluster.prints("job", "logs", "train", "--task", "worker", "--index", "1", "--tail", "5")

    selector = "volcano.sh/job-name=train,volcano.sh/task-spec=worker,volcano.sh/task-index=1"
    assert cluster.api.to("GET", PODS)[0].query["labelSelector"] == selector
    asked = cluster.api.to("GET", f"{PODS}/train-worker-1/log")[0].query
    assert asked == {"tailLines": "5", "container": "main"}


def test_the_named_else_the_default_else_the_first_container_is_read(cluster: Cluster) -> None:
    default = {"kubectl.kubernetes.io/default-container": "b"}
    cluster.holds(PODS, pod("worker", 0, "a", "b", "c", **default), pod("worker", 1, "a", "b"))
    for name in ("train-worker-0", "train-worker-1"):
        writes(cluster, name, "")

    cluster.prints("job", "logs", "train")
    cluster.prints("job", "logs", "train", "-c", "a")

    first = [call.query["container"] for call in cluster.api.to("GET", f"{PODS}/train-worker-0/log")]
    second = [call.query["container"] for call in cluster.api.to("GET", f"{PODS}/train-worker-1/log")]
    assert (first, second) == (["b", "a"], ["a", "a"])


def test_a_pod_that_has_not_started_is_reported_and_other_logs_are_printed(cluster: Cluster) -> None:
    cluster.holds(PODS, pod("worker", 0), pod("worker", 1))
    said = 'container "main" in pod "train-worker-0" is waiting to start: ContainerCreating'

    async def waits(call: Call, request: object) -> Answer:
        return refusal(400, "BadRequest", said)

    cluster.api.on("GET", f"{PODS}/train-worker-0/log", waits)
    writes(cluster, "train-worker-1", "one\n")

    result = cluster.run("job", "logs", "train")

    assert (result.exit_code, result.stdout) == (1, "[train-worker-1] one\n")
    assert result.stderr == f"Failed to job logs: read the log of Pod train-worker-0 in namespace default: {said}\n"


def status(raw: Raw, phase: str, *, node: str = "", **more: Any) -> Raw:
    return {**raw, "spec": {**raw["spec"], "nodeName": node}, "status": {"phase": phase, **more}}


PENDING = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available."}
BACK_OFF = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            status(pod("worker", 0), "Pending", conditions=[PENDING]),
            "its phase is Pending, and it has no node: 0/3 nodes are available.",
        ),
        (status(pod("worker", 0), "Pending"), "its phase is Pending, and it has no node"),
        (
            status(pod("worker", 0), "Pending", node="n1", containerStatuses=[{"name": "main", "state": BACK_OFF}]),
            "its phase is Pending, and container main has not started on node n1: ImagePullBackOff: Back-off pulling "
            'image "x"',
        ),
        (
            status(
                pod("worker", 0), "Running", node="n1", containerStatuses=[{"name": "main", "state": {"running": {}}}]
            ),
            "its phase is Running, and container main has written nothing",
        ),
        (
            status(pod("worker", 0), "Failed", node="n1", reason="Evicted", message="The node was low on memory."),
            "its phase is Failed, and container main has not started on node n1: Evicted: The node was low on memory.",
        ),
    ],
)
def test_a_pod_without_logs_is_named_with_its_phase_and_the_cause(cluster: Cluster, given: Raw, said: str) -> None:
    cluster.holds(PODS, given)
    writes(cluster, "train-worker-0", "")

    result = cluster.run("job", "logs", "train")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"note: Pod train-worker-0 has no logs: {said}\n"
    assert cluster.run("job", "logs", "train", "--tail", "0").stderr == ""


def test_the_cause_replaces_the_refusal_of_the_api_server(cluster: Cluster) -> None:
    cluster.holds(PODS, status(pod("worker", 0), "Pending", conditions=[PENDING]))

    async def waits(call: Call, request: object) -> Answer:
        return refusal(400, "BadRequest", "pod train-worker-0 does not have a host assigned")

    cluster.api.on("GET", f"{PODS}/train-worker-0/log", waits)

    assert cluster.refuses("job", "logs", "train") == (
        "Failed to job logs: Pod train-worker-0 has no logs: its phase is Pending, and it has no node: "
        "0/3 nodes are available.\n"
    )


def test_a_job_that_has_no_pods_yet_says_what_it_waits_for(cluster: Cluster) -> None:
    cluster.holds(PODS)
    cluster.holds(JOBS, job("train", status={"state": {"phase": "Pending", "message": "queue research is full"}}))

    assert cluster.refuses("job", "logs", "train").endswith(
        "has no Pods with the labels volcano.sh/job-name=train (its phase is Pending: queue research is full)\n"
    )


def test_following_waits_until_a_pod_has_started(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cli.job.logs._RETRY_SECONDS", 0.05)
    cluster.holds(PODS, pod("worker", 0))
    answers = [
        refusal(400, "BadRequest", "pod train-worker-0 does not have a host assigned"),
        web.Response(text="up\n"),
    ]

    async def log(call: Call, request: object) -> Answer:
        assert call.query["follow"] == "true"
        return answers.pop(0)

    cluster.api.on("GET", f"{PODS}/train-worker-0/log", log)

    result = cluster.run("job", "logs", "train", "-f")

    assert result.stdout == "up\n"
    assert result.stderr.endswith("pod train-worker-0 does not have a host assigned; waiting\n")


def test_a_job_without_pods_and_a_missing_job_have_different_errors(cluster: Cluster) -> None:
    cluster.holds(PODS)
    cluster.holds(JOBS, job("train"))
    gone = json.dumps({"reason": "NotFound", "message": 'jobs.batch.volcano.sh "lost" not found'})

    async def lost(call: Call, request: object) -> Answer:
        return web.Response(text=gone, status=404)

    cluster.api.on("GET", f"{JOBS}/lost", lost)

    assert "job train in namespace default has no Pods with the labels volcano.sh/job-name=train" in cluster.refuses(
        "job", "logs", "train"
    )
    assert 'jobs.batch.volcano.sh "lost" not found' in cluster.refuses("job", "logs", "lost")
