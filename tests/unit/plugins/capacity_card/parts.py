"""Nodes and Pods with each kind of card, for the tests of the naming rule."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import scheduler.plugins.ascend
import scheduler.plugins.deviceshare  # noqa: F401
from scheduler.api.names import ASCEND_910, CHIP_NAME, NPU_CORE, SERVER_TYPE, VGPU_NUMBER, VNPU_MODE
from tests.builders import Raw, configuration, group, node, pod
from tests.unit.plugins.ascend.chips import device_info, npu_node, npu_pod
from tests.unit.plugins.ascend.sharing.shares import POLICY, quota, shared_node
from tests.unit.plugins.ascend.vnpu.parts import core_node, core_pod
from tests.unit.plugins.capacity_card.cards import GPU, H200, labels
from tests.unit.plugins.deviceshare.devices import ASCEND, limited, slice_of, vgpu_node
from tests.unit.plugins.deviceshare.devices import npu_node as hami_node

A100 = "NVIDIA-A100-SXM4-80GB"
RULE = {"resource": "example.com/slice-*", "name": "{example.com/model}/slice-{*}"}
ARGUMENTS: dict[str, Any] = {
    "deviceshare": {"deviceshare.VGPUEnable": True, "deviceshare.AscendHAMiVNPUEnable": True},
    "capacity-card": {"cardNames": [RULE]},
}
TIERS = (["priority", "gang"], ["deviceshare", "ascend", "capacity-card"])
CONFIGURATION = configuration(*TIERS, arguments=ARGUMENTS)
MIND_CLUSTER = {
    "accelerator": "huawei-Ascend910",
    CHIP_NAME: "910B3",
    SERVER_TYPE: "Ascend910B-20",
}
"""The labels that MindCluster's device plugin sets on a node with 910B3 chips."""


class Case(NamedTuple):
    """A kind of card, with a node that has it and a Pod that requests one."""

    card: str
    node: Callable[[str], list[Raw]]
    pod: Callable[..., Raw]
    """Returns a Pod with a name in a group."""
    group: Mapping[str, str] = {}
    """Annotations of the group."""
    besides: Mapping[str, int] = {}
    """Further cards in the quota, so that cards of this kind count."""

    def quota(self, number: int) -> dict[str, int]:
        return {self.card: number, **self.besides}

    def job(self, name: str, queue: str, number: int = 1, **rest: Any) -> list[Raw]:
        """An admitted gang; ``rest`` as for ``pod``."""
        made = group(name, queue, number, phase="Inqueue", annotations=dict(self.group))
        return [made, *(self.pod(f"{name}-{i}", name, **rest) for i in range(number))]


def labeled(raw: Raw, more: Mapping[str, str]) -> Raw:
    raw["metadata"]["labels"] = {**(raw["metadata"].get("labels") or {}), **more}
    return raw


def _offering(resource: str, described: Mapping[str, str], number: int = 4) -> Callable[[str], list[Raw]]:
    return lambda name: [node(name, f"64c+256Gi+{resource}={number}", dict(described))]


def _asking(resource: str, amount: int = 1, **more: Any) -> Callable[..., Raw]:
    return lambda name, job, **rest: pod(name, f"1c+1Gi+{resource}={amount}", job, **{**more, **rest})


def _limits(*containers: Mapping[str, int | str], **more: Any) -> Callable[..., Raw]:
    return lambda name, job, **rest: limited(name, *containers, group=job, **{**more, **rest})


MPS_LABELS = labels("NVIDIA-H800", memory=81559) | {f"{GPU}.replicas": "2"}
CASES = {
    "whole": Case(H200, _offering(GPU, labels(H200)), _asking(GPU)),
    "MPS": Case("NVIDIA-H800/mps-80g*1/2", _offering(f"{GPU}.shared", MPS_LABELS), _asking(f"{GPU}.shared")),
    "MIG": Case(
        f"{H200}/mig-1g.18gb-mixed",
        _offering("nvidia.com/mig-1g.18gb", labels(H200)),
        _asking("nvidia.com/mig-1g.18gb"),
    ),
    "vGPU": Case(
        f"{A100}/vgpu-8g-30c",
        lambda name: [labeled(vgpu_node(name, memory=81920), labels(A100))],
        _limits(slice_of(1, 8192, 30)),
    ),
    "vGPU by percentage": Case(
        f"{A100}/vgpu-25p",
        lambda name: [labeled(vgpu_node(name, memory=81920), labels(A100))],
        _limits({VGPU_NUMBER: 1, "volcano.sh/vgpu-memory-percentage": 25}),
    ),
    "whole vGPU": Case(
        A100,
        lambda name: [labeled(vgpu_node(name, number=4), labels(A100))],
        _limits(slice_of(1)),
        besides={f"{A100}/vgpu-1g": 0},
    ),
    "dynamic vNPU": Case(
        "Ascend910B3/vnpu-vir05_1c_16g",
        lambda name: [node(name, f"64c+512Gi+{NPU_CORE}=80", labels=MIND_CLUSTER)],
        lambda name, job, **rest: core_pod(
            name, 5, job, **{"labels": {"ring-controller.atlas": "ascend-910b"}, **rest}
        ),
    ),
    "dynamic vNPU of a 310P": Case(
        "Ascend310P3/vnpu-vir04_3c",
        lambda name: [core_node(name, 2, labels={CHIP_NAME: "310P3"})],
        lambda name, job, **rest: core_pod(name, 4, job, **rest),
    ),
    "whole chips by AI cores": Case(
        "Ascend310P3",
        lambda name: [core_node(name, 4, labels={CHIP_NAME: "310P3"})],
        lambda name, job, **rest: core_pod(name, 8, job, **rest),
    ),
    "static vNPU": Case(
        "Ascend910A/vnpu-vir02",
        _offering(f"{ASCEND_910}-2c", {CHIP_NAME: "910A"}),
        _asking(f"{ASCEND_910}-2c"),
    ),
    "vNPU of HAMi": Case(
        "Ascend310P3/vnpu-vir02",
        lambda name: [labeled(hami_node(name), {CHIP_NAME: "310P3"})],
        _limits({ASCEND: 1, f"{ASCEND}-memory": 4096}),
    ),
    "whole NPU of HAMi": Case(
        "Ascend310P3", lambda name: [labeled(hami_node(name, 4), {CHIP_NAME: "310P3"})], _limits({ASCEND: 1})
    ),
    "share of HAMi": Case(
        "Ascend310P3/share-2c-4000m",
        lambda name: [labeled(hami_node(name, annotations={"hami-vnpu-core": "true"}), {CHIP_NAME: "310P3"})],
        _limits({ASCEND: 1, f"{ASCEND}-memory": 4000, f"{ASCEND}-core": 2}, annotations={VNPU_MODE: "hami-core"}),
    ),
    "share": Case(
        "Ascend910B4/share-25c-1g",
        lambda name: [
            labeled(raw, {CHIP_NAME: "910B4"}) if raw["kind"] == "Node" else raw for raw in shared_node(name)
        ],
        lambda name, job, **rest: npu_pod(name, 25, job, **{"labels": quota(25), **rest}),
        POLICY,
    ),
    "Ascend": Case(
        "Ascend910B3",
        lambda name: [npu_node(name, 8, labels=MIND_CLUSTER), device_info(name, [*range(8)])],
        lambda name, job, **rest: npu_pod(name, 1, job, **rest),
    ),
    "rule": Case(
        "PPU-ZW810E/slice-2",
        _offering("example.com/slice-2", {"example.com/model": "PPU-ZW810E"}),
        _asking("example.com/slice-2"),
    ),
}
