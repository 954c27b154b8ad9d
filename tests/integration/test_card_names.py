"""Quotas of shared cards on a real API server: each kind has its name, and a Pod is charged for what it gets of the
card of its node."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import (
    CARD_QUOTA,
    CHIP_NAME,
    NPU_CORE,
    SCHEDULE_POLICY,
    SERVER_TYPE,
    SOFT_SHARE,
    VGPU_NODE_LOCK,
    VGPU_REGISTER,
)
from tests.integration.programs import run
from tests.integration.stage import GROUPS, Namespace, emptied

pytestmark = pytest.mark.controlplane

GPU, NPU = "nvidia.com/gpu", "huawei.com/Ascend910"
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: predicates}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
  - {name: ascend}
  - name: capacity-card
    arguments:
      cardNames:
      - {resource: "example.com/slice-*", name: "{example.com/model}/slice-{*}"}
      - {resource: example.com/other, name: "{example.com/model}/vgpu-1"}
"""
A100 = {f"{GPU}.product": "NVIDIA-A100", f"{GPU}.count": "2", f"{GPU}.memory": "81920"}
MIND_CLUSTER = {"accelerator": "huawei-Ascend910", CHIP_NAME: "910B3", SERVER_TYPE: "Ascend910B-20"}
"""The labels that MindCluster's device plugin sets on a node with 910B3 chips."""


class Card(NamedTuple):
    """A kind of card: what a node has, and what a Pod requests."""

    name: str
    labels: Mapping[str, str]
    amounts: Mapping[str, str]
    requests: Mapping[str, str]
    annotations: Mapping[str, str] = {}
    """Annotations of the node."""
    group: Mapping[str, Any] = {}
    """Labels and annotations of PodGroups."""
    chips: int = 0
    """The number of chips that the device plugin of the node reports."""


CARDS = {
    "whole": Card("NVIDIA-A100", A100, {GPU: "4"}, {GPU: "1"}),
    "mps": Card(
        "NVIDIA-A100/mps-80g*1/2", A100 | {f"{GPU}.replicas": "2"}, {f"{GPU}.shared": "4"}, {f"{GPU}.shared": "1"}
    ),
    "mig": Card(
        "NVIDIA-A100/mig-1g.10gb-mixed", A100, {"nvidia.com/mig-1g.10gb": "7"}, {"nvidia.com/mig-1g.10gb": "1"}
    ),
    "vgpu": Card(
        "NVIDIA-A100/vgpu-8g-30c",
        A100,
        {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "163840", "volcano.sh/vgpu-cores": "200"},
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "30"},
        {VGPU_REGISTER: "".join(f"GPU-{i},10,81920,NVIDIA-NVIDIA A100,true,hami-core:" for i in range(2))},
    ),
    "static-vnpu": Card(
        "Ascend310P3/vnpu-vir02_1c",
        {CHIP_NAME: "310P3"},
        {"huawei.com/Ascend310P-2c.1cpu": "4"},
        {"huawei.com/Ascend310P-2c.1cpu": "1"},
    ),
    "vnpu": Card(
        "Ascend910B3/vnpu-vir05_1c_16g",
        MIND_CLUSTER,
        {NPU_CORE: "40"},
        {NPU_CORE: "5"},
        group={"labels": {"ring-controller.atlas": "ascend-910b"}},
    ),
    "share": Card(
        "Ascend910B4/share-25c-16g",
        MIND_CLUSTER
        | {
            CHIP_NAME: "910B4",
            "huawei.com/scheduler.chip1softsharedev.enable": "true",
            "mind-cluster/npu-chip-memory": "32G",
        },
        {NPU: "200"},
        {NPU: "25"},
        group={
            "labels": dict(zip(SOFT_SHARE, ("25", "16384", "fixed-share"), strict=True)),
            "annotations": {SCHEDULE_POLICY: "chip1-softShareDev"},
        },
        chips=2,
    ),
    "npu": Card("Ascend910B3", MIND_CLUSTER, {NPU: "8"}, {NPU: "1"}, chips=8),
    "rule": Card(
        "PPU-ZW810E/slice-2",
        {"example.com/model": "PPU-ZW810E"},
        {"example.com/slice-2": "4"},
        {"example.com/slice-2": "1"},
    ),
}


class Stage(Namespace):
    """A node for each kind of card, and a queue that may use one card of each. Pods are created in pairs."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.queue = f"{self.name}-q"
        for kind, card in CARDS.items():
            node = self.node(kind, **card.amounts)
            metadata = {"labels": dict(card.labels), "annotations": dict(card.annotations)}
            self.api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata})
            if card.chips:
                listed = {NPU: ",".join(f"Ascend910-{i}" for i in range(card.chips))}
                data = {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": listed, "UpdateTime": 1}})}
                named = {"name": f"mindx-dl-deviceinfo-{node}", "labels": {"mx-consumer-cim": "true"}}
                self.api.create("/api/v1/namespaces/kube-system/configmaps", {"metadata": named, "data": data})
        self.api.create(
            f"{GROUPS}/queues",
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {
                    "name": self.queue,
                    "annotations": {CARD_QUOTA: json.dumps({card.name: 1 for card in CARDS.values()})},
                },
                "spec": {"weight": 1},
            },
        )

    def create_pods(self, number: int) -> None:
        for kind, card in CARDS.items():
            self.group(f"{kind}-{number}", 1, self.queue, **card.group)
            self.pod(f"{kind}-{number}", f"{kind}-{number}", {"cpu": "100m", **card.requests})

    def used(self) -> dict[str, str]:
        """The used cards in the status of the queue."""
        status = self.api.get(f"{GROUPS}/queues/{self.queue}").get("status") or {}
        return {
            card: its["used"] for card, its in (status.get("cards") or {}).items() if its.get("used") not in (None, "0")
        }


def test_a_pod_of_each_kind_is_charged_in_the_quota_of_its_name(control_plane: ControlPlane, tmp_path: Path) -> None:
    emptied(control_plane)
    stage = Stage(control_plane)
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONFIGURATION, encoding="utf-8")
    first, second = ({f"{kind}-{i}": f"{stage.name}-{kind}" for kind in CARDS} for i in range(2))
    one_each = {card.name: "1" for card in CARDS.values()}
    with stage.scheduled(tmp_path, f"--scheduler-conf={conf}") as role:
        stage.create_pods(0)
        stage.wait(lambda: stage.bound() == first)
        stage.wait(lambda: stage.used() == one_each)
        stage.create_pods(1)
        for kind, card in CARDS.items():
            text = (
                f"insufficient <{card.name}> quota: requested <1000>, total would be <2000>, but capability is <1000>"
            )
            stage.wait(lambda kind=kind, text=text: text in stage.condition(f"{kind}-1")["message"])  # type: ignore[misc]
        assert stage.bound() == first
        shown = run(["queue", "get", stage.queue, f"--kubeconfig={control_plane.kubeconfig}"]).stdout
        assert all(card.name in shown for card in CARDS.values())
        log = role.log.read_text(encoding="utf-8")
        assert "argument cardNames: 'example.com/other: {example.com/model}/vgpu-1' is a rule with the word vgpu" in log
    with stage.scheduled(tmp_path, f"--scheduler-conf={conf}"):  # after a restart
        for kind in CARDS:
            stage.api.delete(f"{stage.path}/pods/{kind}-0?gracePeriodSeconds=0")
        stage.wait(lambda: stage.bound() == second)
        stage.wait(lambda: stage.used() == one_each)


def test_a_pod_waits_until_the_device_plugin_has_released_the_lock_of_its_node(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    emptied(control_plane)
    stage, card = Namespace(control_plane), CARDS["vgpu"]
    node = f"/api/v1/nodes/{stage.node('n', **card.amounts)}"
    stage.api.patch(node, {"metadata": {"labels": dict(card.labels), "annotations": dict(card.annotations)}})
    conf = tmp_path / "scheduler.conf"
    enabled = "deviceshare.VGPUEnable: true"
    conf.write_text(CONFIGURATION.replace(enabled, f"{enabled}, deviceshare.NodeLockEnable: true"), encoding="utf-8")
    with stage.scheduled(tmp_path, f"--scheduler-conf={conf}"):
        for name in ("first", "second"):
            stage.group(name, 1)
            stage.pod(name, name, {"cpu": "100m", **card.requests})
            stage.wait(stage.bound)
        stage.wait(lambda: "once resource is released" in stage.condition("second")["message"])
        assert VGPU_NODE_LOCK in stage.api.get(node)["metadata"]["annotations"]
        assert stage.bound().keys() == {"first"}
        stage.api.patch(node, {"metadata": {"annotations": {VGPU_NODE_LOCK: None}}})
        stage.wait(lambda: stage.bound().keys() == {"first", "second"})
