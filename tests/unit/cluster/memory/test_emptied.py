"""The cluster as it is when all workloads have ended."""

import json

import pytest

from scheduler.api.kinds import CONFIG_MAP, POD, POD_GROUP, RESOURCE_CLAIM
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod

CHIPS = "huawei.com/Ascend910"


def emptied(*objects: Raw) -> Simulation:
    return Simulation(manifests(*objects), parse_configuration(DEFAULT_CONFIGURATION), [NAME]).without_workloads()


def owned(raw: Raw, kind: str) -> Raw:
    owner = {"apiVersion": "v1", "kind": kind, "name": "o", "uid": f"uid-{kind}", "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


def test_pods_of_daemon_sets_and_static_pods_remain_and_no_others() -> None:
    pods = {kind: owned(pod(kind.lower(), on="n1"), kind) for kind in ("DaemonSet", "Node", "ReplicaSet", "Job")}
    ended = owned(pod("ended", on="n1", phase="Succeeded"), "DaemonSet")

    it = emptied(node("n1"), group("g"), pod("plain", group="g", on="n1"), ended, *pods.values())

    assert [raw["metadata"]["name"] for raw in it.cluster.server.of(POD)] == ["daemonset", "node"]
    assert it.cluster.server.of(POD_GROUP) == []


def test_claims_of_pods_are_gone_and_others_are_not_allocated() -> None:
    def claim(name: str) -> Raw:
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        return {**head, "metadata": {"name": name, "namespace": "default"}, "spec": {}, "status": {"allocation": {}}}

    (it,) = emptied(node("n1"), claim("shared"), owned(claim("of-pod"), "Pod")).cluster.server.of(RESOURCE_CLAIM)

    assert it["metadata"]["name"] == "shared" and not it.get("status")


def device_info(name: str, content: object, namespace: str = "kube-system", key: str = "DeviceInfoCfg") -> Raw:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: json.dumps(content)}}


@pytest.mark.parametrize("wrapped", [True, False])
def test_chips_of_pods_that_end_are_free_unless_they_are_broken(wrapped: bool) -> None:
    lists = {CHIPS: "Ascend910-4,Ascend910-5", f"{CHIPS}-Unhealthy": "Ascend910-1"}
    report = {"DeviceList": lists, "UpdateTime": 1}
    own = {"DeviceInfo": report} if wrapped else report
    of_node = device_info("mindx-dl-deviceinfo-n1", own)
    copied = device_info(
        "cluster-info-device-0", {"mindx-dl-deviceinfo-n1": report, "mindx-dl-deviceinfo-n2": report},
        "mindx-dl", "cluster-info-device-0",
    )  # fmt: skip
    holder = pod("p", on="n1", annotations={CHIPS: "Ascend910-0,Ascend910-1"})

    first, second = emptied(node("n1"), holder, of_node, copied).cluster.server.of(CONFIG_MAP)

    shown = json.loads(first["data"]["DeviceInfoCfg"])
    assert (shown["DeviceInfo"] if wrapped else shown)["DeviceList"][CHIPS] == "Ascend910-4,Ascend910-5,Ascend910-0"
    both = json.loads(second["data"]["cluster-info-device-0"])
    assert both["mindx-dl-deviceinfo-n1"]["DeviceList"][CHIPS] == "Ascend910-4,Ascend910-5,Ascend910-0"
    assert both["mindx-dl-deviceinfo-n2"]["DeviceList"][CHIPS] == "Ascend910-4,Ascend910-5"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"DeviceInfo": 3}', '{"DeviceInfo": {"DeviceList": []}}'])
def test_malformed_reports_remain_as_they_are(text: str) -> None:
    broken = device_info("mindx-dl-deviceinfo-n1", {})
    broken["data"]["DeviceInfoCfg"] = text
    holder = pod("p", on="n1", annotations={CHIPS: "Ascend910-0"})

    (it,) = emptied(node("n1"), holder, broken).cluster.server.of(CONFIG_MAP)

    assert it["data"]["DeviceInfoCfg"] == text
