"""The chart on real nodes: its Pods under its own rights, restricted, with read-only root, probes and limits."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.node.cluster import Cluster
from tests.integration.stage import wait
from tests.node.stage import Stage, container_status, limit_of

pytestmark = pytest.mark.node

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ROLES = {"scheduler": 1, "controllers": 1, "webhooks": 2}


def role_pods(cluster: Cluster) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.plane.admin.get(PODS)["items"]
    return [pod for pod in items if pod["metadata"]["name"].startswith(RELEASE)]


def test_every_role_is_ready_and_has_not_restarted(cluster: Cluster) -> None:
    statuses = [container_status(pod) for pod in role_pods(cluster)]
    assert len(statuses) == sum(ROLES.values())
    assert all(status["ready"] and status["restartCount"] == 0 for status in statuses)


def test_processes_of_roles_have_no_user_name_no_capability_a_filter_of_system_calls_and_a_read_only_root(
    cluster: Cluster,
) -> None:
    node = cluster.nodes["node-1"]
    for pod in role_pods(cluster):
        role = next(pid for pid in node.container_processes(pod) if b"volcano-py" in cmdline(pid))
        status = Path(f"/proc/{role}/status").read_text(encoding="ascii")
        assert re.search(r"^Uid:\t65532\t65532\t65532\t65532$", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
        assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)
        mounts = Path(f"/proc/{role}/mounts").read_text(encoding="ascii").splitlines()
        (root,) = [line.split()[3].split(",") for line in mounts if line.split()[1] == "/"]
        assert "ro" in root


def test_the_limit_of_memory_is_that_of_the_cgroup(cluster: Cluster) -> None:
    pod = role_pods(cluster)[0]
    pids = cluster.nodes["node-1"].container_processes(pod)
    pid = next(pid for pid in pids if b"volcano-py" in cmdline(pid))
    assert int(limit_of(pid, "memory", "memory.limit_in_bytes", "memory.max")) == 512 << 20


def test_the_namespace_refuses_a_privileged_pod(cluster: Cluster) -> None:
    container = {"name": "a", "image": "busybox", "securityContext": {"privileged": True}}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.plane.admin.create(PODS, {"metadata": {"name": "privileged"}, "spec": {"containers": [container]}})


def test_helm_test_succeeds(cluster: Cluster) -> None:
    assert "Phase:          Succeeded" in cluster.helm("test", RELEASE, "--timeout=120s")


def test_tenants_are_refused_by_the_webhooks_through_their_service(stage: Stage) -> None:
    with pytest.raises(ApiError, match="admission webhook"):
        stage.submit("impossible", stage.task("worker", "true"), minAvailable=2)


def test_a_frozen_role_is_restarted_by_its_liveness_probe(cluster: Cluster, stage: Stage) -> None:
    (pod,) = [pod for pod in role_pods(cluster) if "controllers" in pod["metadata"]["name"]]
    path = f"{PODS}/{pod['metadata']['name']}"
    for pid in cluster.nodes["node-1"].container_processes(pod):
        if b"controllers" in cmdline(pid):
            os.kill(pid, signal.SIGSTOP)
    stage.submit("while-frozen", stage.task("worker", "true"))

    def restarted() -> bool:
        status = container_status(cluster.plane.admin.get(path))
        return bool(status["restartCount"] == 1 and status["ready"])

    wait(restarted, 180.0)
    stage.reaches("while-frozen", "Completed")


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
