"""What happens to jobs when a real node is drained, loses its kubelet or containerd, or is switched off and on."""

import time
from typing import Any

import pytest

from scheduler.api.kinds import NODE, object_path
from tests.node.stage import Stage, container_status

pytestmark = pytest.mark.node

RESTART = [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")]
COUNT = 'echo "$NODE" >> "/marks/$HOSTNAME"; '
NODE_NAME = {"env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
NOT_FIRST: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1"]}]}
                ]
            }
        }
    }
}


def ready(stage: Stage, node: str) -> bool:
    conditions = stage.api.get(object_path(NODE, "", node))["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_job_of_a_drained_node_restarts_on_others(stage: Stage) -> None:
    stage.submit(
        "moved", stage.task("worker", COUNT + "sleep 3600", container=NODE_NAME, **NOT_FIRST), policies=RESTART
    )
    first = stage.until(lambda: stage.marked("moved-worker-0").strip())
    try:
        stage.cluster.plane.kubectl("drain", first, "--ignore-daemonsets", "--force", "--delete-emptydir-data")
        nodes = stage.until(lambda: found if len(found := stage.marked("moved-worker-0").split()) == 2 else None)
        assert nodes[1] != first
    finally:
        stage.cluster.plane.kubectl("uncordon", first)


def test_a_job_leaves_a_node_whose_kubelet_is_silent_and_the_node_is_used_again_when_it_is_back(stage: Stage) -> None:
    """The Pods tolerate a silent node for three seconds instead of five minutes."""
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    patience = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3} for key in keys]
    task = stage.task("worker", COUNT + "sleep 3600", container=NODE_NAME, tolerations=patience, **NOT_FIRST)
    stage.submit("orphan", task, policies=RESTART)
    first = stage.until(lambda: stage.marked("orphan-worker-0").strip())
    node = stage.cluster.nodes[first]
    node.stop_kubelet()
    try:
        stage.until(lambda: not ready(stage, first))
        stage.until(lambda: stage.pod("orphan-worker-0")["metadata"].get("deletionTimestamp"))
        stage.submit("other", stage.task("worker", "true", 2, **NOT_FIRST))
        stage.reaches("other", "Completed")
        assert first not in {pod["spec"]["nodeName"] for pod in stage.pods_of("other")}
    finally:
        node.start_kubelet()
    node.wait_until_ready()
    stage.until(lambda: len(stage.marked("orphan-worker-0").split()) == 2)
    stage.reaches("orphan", "Running")
    pinned = stage.task("worker", "true", nodeSelector={"kubernetes.io/hostname": first})
    stage.submit("again", pinned)
    stage.reaches("again", "Completed")


def test_containers_outlive_containerd_and_new_ones_start_after_it(stage: Stage) -> None:
    node = stage.cluster.nodes["node-2"]
    on_second: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}
    stage.submit("old", stage.task("worker", "sleep 30", **on_second))
    stage.reaches("old", "Running")
    before = node.container_processes(stage.pod("old-worker-0"))
    node.stop_containerd()
    stage.submit("new", stage.task("worker", "true", **on_second))
    time.sleep(5)
    node.start_containerd()
    assert node.container_processes(stage.pod("old-worker-0")) == before
    stage.reaches("new", "Completed")
    stage.reaches("old", "Completed")
    assert container_status(stage.pod("old-worker-0"))["restartCount"] == 0


def test_jobs_of_a_rebooted_node_restart(stage: Stage) -> None:
    node = stage.cluster.nodes["node-3"]
    on_third: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-3"}}
    script = 'echo . >> "/marks/$HOSTNAME"; test $(wc -l < "/marks/$HOSTNAME") = 2 || sleep 3600'
    never = stage.task("worker", script, **on_third)
    stage.submit("never", never, policies=RESTART)
    in_place = stage.task("worker", script, restartPolicy="OnFailure", **on_third)
    stage.submit("in-place", in_place, policies=RESTART)
    stage.until(lambda: stage.marked("never-worker-0") and stage.marked("in-place-worker-0"))
    node.reboot()
    stage.reaches("never", "Completed")
    stage.reaches("in-place", "Completed")
    assert stage.job("never")["status"]["retryCount"] == 1
    assert stage.job("in-place")["status"].get("retryCount", 0) == 0


def test_the_roles_come_back_when_their_node_is_rebooted(stage: Stage) -> None:
    node = stage.cluster.nodes["node-1"]
    stage.submit("during", stage.task("worker", "sleep 5", 2, **NOT_FIRST))
    stage.reaches("during", "Running")
    node.reboot()
    stage.reaches("during", "Completed")
    for role in ("webhooks", "controllers", "scheduler"):
        namespace = "--namespace=volcano-system"
        stage.cluster.plane.kubectl("rollout", "status", f"deployment/volcano-py-{role}", namespace, "--timeout=120s")
    stage.until(lambda: submitted(stage))
    stage.reaches("after", "Completed")


def submitted(stage: Stage) -> bool:
    from controlplane.client import ApiError

    try:
        stage.submit("after", stage.task("worker", "true", 2))
    except ApiError as error:
        if error.status == 500:  # the webhooks are not reached yet
            return False
        raise
    return True
