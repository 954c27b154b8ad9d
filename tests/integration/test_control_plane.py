"""The environment of the other integration tests: the server, our resource definitions and the fake kubelets.

These tests show that the environment behaves like a cluster; the other modules test the program on it.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controlplane import build
from controlplane.client import ApiError, Client
from controlplane.run import CRD_DIRECTORY, ControlPlane
from tests.integration.stage import wait

pytestmark = pytest.mark.controlplane

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def podgroups(namespace: str) -> str:
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"


def queue(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": dict(spec)}


def podgroup(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": dict(spec)}


def pod(name: str, node: str | None = None, **annotations: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    steering = {f"volcano-py.test/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"containers": containers, **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "annotations": steering}, "spec": spec}


def is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def in_phase(phase: str) -> Any:
    return lambda found: found["status"]["phase"] == phase


@pytest.fixture
def node(admin: Client, namespace: str) -> str:
    name = f"{namespace}-node"
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "20"}
    admin.create("/api/v1/nodes", {"metadata": {"name": name}, "status": {"capacity": capacity}})
    admin.wait(f"/api/v1/nodes/{name}", is_ready)
    return name


def test_the_server_is_ready_and_reports_the_pinned_version(control_plane: ControlPlane) -> None:
    assert control_plane.admin.get("/readyz") == "ok"
    version = control_plane.admin.get("/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.36.1", "1", "36")
    assert version["gitVersion"] == build.kubernetes_version()


def test_the_definitions_can_be_installed_with_kubectl(control_plane: ControlPlane) -> None:
    said = control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", CRD_DIRECTORY)
    assert "queues.scheduling.volcano.sh serverside-applied" in said
    assert "podgroups.scheduling.volcano.sh serverside-applied" in said


def test_kubectl_knows_the_short_names_and_columns(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.admin.create(QUEUES, queue(namespace, {"parent": "root"}))
    control_plane.admin.create(podgroups(namespace), podgroup("g", {"minMember": 3}))
    header, row = control_plane.kubectl("get", "q", namespace, "-o", "wide").splitlines()
    columns = "NAME STATE WEIGHT PARENT RUNNING INQUEUE PENDING CPU MEMORY DESERVED CPU DESERVED MEMORY CARDS AGE"
    assert header.split() == columns.split() and row.split()[:3] == [namespace, "1", "root"]
    header = control_plane.kubectl("get", "pg", "-n", namespace, "-o", "wide").splitlines()[0]
    assert header.split() == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]


def test_a_queue_gets_its_defaults(admin: Client, namespace: str) -> None:
    stored = admin.create(QUEUES, queue(namespace, {}))
    assert stored["spec"] == {"weight": 1, "dequeueStrategy": "traverse"}


def test_a_queue_with_every_field_is_stored_as_it_was_sent(admin: Client, namespace: str) -> None:
    groups = {
        "requiredDuringSchedulingIgnoredDuringExecution": ["a"],
        "preferredDuringSchedulingIgnoredDuringExecution": ["b", "c"],
    }
    spec = {
        "weight": 65535,
        "capability": {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": "1"},
        "deserved": {"cpu": "2500m"},
        "guarantee": {"resource": {"cpu": "1e3", "memory": ".5Gi"}},
        "reclaimable": False,
        "priority": 7,
        "parent": "root",
        "dequeueStrategy": "fifo",
        "type": "batch",
        "affinity": {"nodeGroupAffinity": groups, "nodeGroupAntiAffinity": groups},
        "extendClusters": [{"name": "east", "weight": 2, "capacity": {"cpu": "10"}}],
    }
    assert admin.create(QUEUES, queue(namespace, spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"weight": 0}, "spec.weight"),
        ({"weight": 65536}, "spec.weight"),
        ({"weight": 70000}, "spec.weight"),
        ({"weight": "1"}, "spec.weight"),
        ({"priority": -1}, "spec.priority"),
        ({"dequeueStrategy": "lifo"}, "spec.dequeueStrategy"),
        ({"reclaimable": "yes"}, "spec.reclaimable"),
        ({"capability": {"cpu": "many"}}, "spec.capability.cpu"),
        ({"deserved": {"memory": "1 Gi"}}, "spec.deserved.memory"),
        ({"guarantee": {"resource": {"cpu": 0.5}}}, "spec.guarantee.resource.cpu"),
    ],
)
def test_a_queue_out_of_bounds_is_rejected(admin: Client, namespace: str, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        admin.create(QUEUES, queue(namespace, spec))
    assert refused.value.status == 422
    assert field in str(refused.value)


def test_the_status_of_a_queue_is_a_subresource(admin: Client, namespace: str) -> None:
    status = {"state": "Open", "allocated": {"cpu": "1"}, "running": 2}
    created = admin.create(QUEUES, {**queue(namespace, {}), "status": status})
    assert "status" not in created
    patched = admin.patch(f"{QUEUES}/{namespace}/status", {"spec": {"weight": 9}, "status": status})
    assert patched["status"] == status
    assert patched["spec"]["weight"] == 1


def test_a_podgroup_gets_its_defaults(admin: Client, namespace: str) -> None:
    spec = {"minMember": 2, "networkTopology": {"highestTierAllowed": 0}, "subGroupPolicy": [{"name": "a"}]}
    stored = admin.create(podgroups(namespace), podgroup("g", spec))["spec"]
    assert stored["queue"] == "default"
    assert stored["networkTopology"] == {"mode": "hard", "highestTierAllowed": 0}
    assert stored["subGroupPolicy"] == [{"name": "a", "subGroupSize": 1, "minSubGroups": 0}]


def test_a_podgroup_with_every_field_is_stored_as_it_was_sent(admin: Client, namespace: str) -> None:
    topology = {"mode": "soft", "highestTierAllowed": 2, "highestTierName": "rack"}
    selector = {
        "matchLabels": {"role": "worker"},
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
    }
    policy = {
        "name": "workers",
        "subGroupSize": 2,
        "minSubGroups": 1,
        "labelSelector": selector,
        "matchLabelKeys": ["part"],
        "networkTopology": topology,
    }
    spec = {
        "minMember": 4,
        "minTaskMember": {"worker": 3, "master": 1},
        "queue": "research",
        "priorityClassName": "high",
        "minResources": {"cpu": "4", "huawei.com/Ascend910": 8},
        "networkTopology": topology,
        "subGroupPolicy": [policy],
    }
    assert admin.create(podgroups(namespace), podgroup("g", spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": "2"}, "spec.minMember"),
        ({"minMember": 1 << 31}, "spec.minMember"),
        ({"minTaskMember": {"worker": "all"}}, "spec.minTaskMember.worker"),
        ({"minResources": {"cpu": "-"}}, "spec.minResources.cpu"),
        ({"networkTopology": {"mode": "tough"}}, "spec.networkTopology.mode"),
        ({"networkTopology": {"highestTierAllowed": -1}}, "spec.networkTopology.highestTierAllowed"),
        ({"subGroupPolicy": [{"subGroupSize": 0}]}, "spec.subGroupPolicy[0].subGroupSize"),
        ({"subGroupPolicy": [{"minSubGroups": -1}]}, "spec.subGroupPolicy[0].minSubGroups"),
    ],
)
def test_a_podgroup_out_of_bounds_is_rejected(admin: Client, namespace: str, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        admin.create(podgroups(namespace), podgroup("g", spec))
    assert refused.value.status == 422
    assert field in str(refused.value)


def test_status_and_metadata_of_a_podgroup_are_written_in_one_update(admin: Client, namespace: str) -> None:
    stored = admin.create(podgroups(namespace), podgroup("g", {"minMember": 2}))
    finding = {"type": "Scheduled", "status": "True", "transitionID": "1", "lastTransitionTime": None, "reason": "r"}
    stored["status"] = {"phase": "Running", "running": 2, "conditions": [finding]}
    stored["metadata"]["annotations"] = {"seen": "yes"}
    updated = admin.request("PUT", f"{podgroups(namespace)}/g", stored)
    assert (updated["status"]["phase"], updated["status"]["running"]) == ("Running", 2)
    assert updated["metadata"]["annotations"] == {"seen": "yes"}
    with pytest.raises(ApiError, match="404"):
        admin.patch(f"{podgroups(namespace)}/g/status", {"status": {"running": 1}})


def test_a_node_becomes_ready_and_keeps_the_capacity_given(admin: Client, node: str) -> None:
    found = admin.get(f"/api/v1/nodes/{node}")
    assert found["status"]["capacity"] == {"cpu": "8", "memory": "32Gi", "pods": "20"}
    assert found["status"]["allocatable"] == found["status"]["capacity"]
    assert "taints" not in found["spec"]


def test_one_binding_sets_the_node_and_the_annotations_and_the_pod_runs(
    admin: Client, namespace: str, node: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    admin.create(pods, pod("p"))
    binding = {
        "metadata": {"name": "p", "annotations": {"huawei.com/Ascend910": "Ascend910-0,Ascend910-1"}},
        "target": {"kind": "Node", "name": node},
    }
    admin.create(f"{pods}/p/binding", binding)
    bound = admin.get(f"{pods}/p")
    assert bound["spec"]["nodeName"] == node
    assert bound["metadata"]["annotations"]["huawei.com/Ascend910"] == "Ascend910-0,Ascend910-1"
    running = admin.wait(f"{pods}/p", in_phase("Running"))
    conditions = {each["type"]: each["status"] for each in running["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"
    assert running["metadata"]["annotations"]["huawei.com/Ascend910"] == "Ascend910-0,Ascend910-1"


def test_pods_end_as_their_annotations_say(admin: Client, namespace: str, node: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    admin.create(pods, pod("good", node, outcome="succeed"))
    admin.create(pods, pod("bad", node, outcome="fail", exit_code="3", runs_for="200ms"))
    good = admin.wait(f"{pods}/good", in_phase("Succeeded"))
    bad = admin.wait(f"{pods}/bad", in_phase("Failed"))
    codes = [each["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for each in (good, bad)]
    assert codes == [0, 3]


def test_a_deleted_pod_disappears_at_once_unless_its_annotation_delays_it(
    admin: Client, namespace: str, node: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for created in (pod("quick", node), pod("slow", node, terminates_for="1h")):
        name = created["metadata"]["name"]
        admin.create(pods, created)
        admin.wait(f"{pods}/{name}", in_phase("Running"))
    admin.delete(f"{pods}/slow")
    admin.delete(f"{pods}/quick")
    left = admin.wait(pods, lambda found: len(found["items"]) == 1)["items"]
    assert [each["metadata"]["name"] for each in left] == ["slow"]
    assert "deletionTimestamp" in left[0]["metadata"]


def test_a_user_has_the_permissions_that_rbac_grants_and_no_others(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    user = f"system:serviceaccount:{namespace}:worker"
    kubeconfig = control_plane.kubeconfig_for(user)
    kubectl = [str(control_plane.binaries / "kubectl"), f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}"]
    review = subprocess.run([*kubectl, "auth", "whoami", "-o", "json"], capture_output=True, text=True, check=True)
    known = json.loads(review.stdout)["status"]["userInfo"]
    assert known["username"] == user
    assert f"system:serviceaccounts:{namespace}" in known["groups"]
    listing = [*kubectl, "get", "pods", "-n", namespace]
    refused = subprocess.run(listing, capture_output=True, text=True, check=False)
    assert "Forbidden" in refused.stderr
    control_plane.kubectl("create", "role", "see", "--verb=list", "--resource=pods", "-n", namespace)
    control_plane.kubectl("create", "rolebinding", "see", "--role=see", f"--user={user}", "-n", namespace)

    def is_allowed() -> bool:
        return subprocess.run(listing, capture_output=True, check=False).returncode == 0

    wait(is_allowed)  # the API server takes a moment to see a new RoleBinding
