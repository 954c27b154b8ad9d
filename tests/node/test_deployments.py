"""Deployments whose Pods are gangs, on real nodes."""

import json

import pytest

from tests.node.stage import BUSYBOX, Stage

pytestmark = pytest.mark.node


def test_the_pods_of_a_deployment_start_as_a_gang_or_not_at_all(stage: Stage) -> None:
    container = {
        "name": "web",
        "image": BUSYBOX,
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "1500m", "memory": "16Mi"}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"scheduling.volcano.sh/group-min-member": "4"}},
        "spec": {
            "replicas": 4,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"schedulerName": "volcano-py", "containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
    stage.kubectl("create", "--filename=-", stdin=json.dumps(deployment))
    stage.until(lambda: any("gang" in message or "minAvailable" in message for message in stage.messages()))
    assert not stage.pods({"app": "web"})
    body = {
        "spec": {"template": {"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "100m"}}}]}}}
    }
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    stage.api.patch(path, body, "strategic")
    stage.until(lambda: stage.api.get(path)["status"].get("readyReplicas") == 4)
