"""Kinds of Pods on real nodes: init and sidecar containers, volumes, resizing in place."""

from typing import Any

import pytest

from scheduler.api.kinds import POD, POD_GROUP, object_path
from scheduler.api.names import GROUP_NAME
from tests.node.stage import BUSYBOX, Stage, container_status, limit_of

pytestmark = pytest.mark.node


def test_init_containers_run_first_and_a_sidecar_does_not_keep_a_job_running(stage: Stage) -> None:
    mounts = [{"name": "marks", "mountPath": "/marks"}]
    resources = {"requests": {"cpu": "50m", "memory": "16Mi"}}

    def container(name: str, script: str) -> dict[str, object]:
        command = ["sh", "-c", script]
        return {"name": name, "image": BUSYBOX, "command": command, "volumeMounts": mounts, "resources": resources}

    first = container("first", "echo first >> /marks/order")
    sidecar = {**container("sidecar", "echo sidecar >> /marks/order; sleep 3600"), "restartPolicy": "Always"}
    script = "until grep -q sidecar /marks/order; do sleep 0.1; done; echo main >> /marks/order"
    stage.submit("ordered", stage.task("worker", script, initContainers=[first, sidecar]))
    stage.reaches("ordered", "Completed")
    assert stage.marked("order").split() == ["first", "sidecar", "main"]


def test_a_failed_init_container_fails_the_job(stage: Stage) -> None:
    init = {"name": "init", "image": BUSYBOX, "command": ["false"]}
    stage.submit("broken", stage.task("worker", "true", initContainers=[init]), maxRetry=1)
    stage.reaches("broken", "Failed")


def test_containers_of_a_pod_share_an_empty_directory(stage: Stage) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    reader = {
        "name": "reader",
        "image": BUSYBOX,
        "command": ["sh", "-c", "until cat /shared/file; do sleep 0.2; done"],
        "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
    }
    writer = stage.task(
        "writer",
        "echo shared > /shared/file",
        container={"volumeMounts": mounts},
        containers=[reader],
        volumes=[{"name": "shared", "emptyDir": {"medium": "Memory"}}],
    )
    stage.submit("both", writer)
    stage.reaches("both", "Completed")
    assert stage.log("both-writer-0", "reader").splitlines()[-1] == "shared"


def test_a_pod_that_is_resized_in_place_has_its_new_limit_and_counts_with_it(stage: Stage) -> None:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    task = stage.task("worker", "sleep 3600", container={"resources": {"requests": amounts, "limits": amounts}})
    stage.submit("elastic", task)
    stage.reaches("elastic", "Running")
    larger = {"cpu": "300m", "memory": "64Mi"}
    body = {"spec": {"containers": [{"name": "worker", "resources": {"requests": larger, "limits": larger}}]}}
    stage.api.patch(f"{object_path(POD, stage.namespace, 'elastic-worker-0')}/resize", body, "strategic")
    pod = stage.until(lambda: found if (found := stage.pod("elastic-worker-0")) and resized(found, "300m") else None)
    node = stage.cluster.nodes[pod["spec"]["nodeName"]]
    quotas = [limit_of(pid, "cpu", "cpu.cfs_quota_us", "cpu.max") for pid in node.container_processes(pod)]
    assert any(quota.split()[0] == "30000" for quota in quotas)
    assert container_status(pod)["restartCount"] == 0
    group = stage.api.get(object_path(POD_GROUP, stage.namespace, pod["metadata"]["annotations"][GROUP_NAME]))
    assert group["status"]["phase"] == "Running"


def resized(pod: dict[str, Any], cpu: str) -> bool:
    held = (container_status(pod).get("resources") or {}).get("limits") or {}
    return bool(held.get("cpu") == cpu)
