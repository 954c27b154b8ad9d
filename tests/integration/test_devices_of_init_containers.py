"""Devices of init containers and sidecars on a real API server: the scheduler writes them in the order in which the
kubelet allocates them, and counts the most that a Pod uses at once, also a scheduler that starts later."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import (
    ASCEND_910,
    VGPU_CORES,
    VGPU_IDS,
    VGPU_IDS_TO_ALLOCATE,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_REGISTER,
)
from tests.integration.stage import Namespace, Role, emptied

pytestmark = pytest.mark.controlplane

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: ascend}]
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.VGPUInitContainersEnable: true
      deviceshare.AscendHAMiVNPUEnable: true
  - name: nodeorder
"""
NPU = "huawei.com/Ascend310P"
Amounts = dict[str, str]


class Devices(Namespace):
    """A namespace with a scheduler beside it, and Pods with several containers."""

    def scheduler(self, directory: Path) -> AbstractContextManager[Role]:
        configuration = directory / "scheduler.conf"
        configuration.write_text(CONFIGURATION, encoding="utf-8")
        return self.scheduled(directory, f"--scheduler-conf={configuration}")

    def device_node(self, amounts: Amounts, **metadata: Any) -> None:
        """A node, as its device plugin reports it."""
        name = self.node("devices", **amounts)
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": metadata})

    def submit(self, name: str, *containers: Amounts, init: list[tuple[Amounts, bool]] | None = None) -> None:
        """A Pod whose containers have these amounts. ``init``: amounts of init containers, and whether each is a
        sidecar."""
        self.group(name, 1)
        before = [
            {**_container(f"i{i}", amounts), **({"restartPolicy": "Always"} if lasts else {})}
            for i, (amounts, lasts) in enumerate(init or [])
        ]
        after = [_container(f"c{i}", amounts) for i, amounts in enumerate(containers)]
        self.pod(name, name, {}, containers=after, initContainers=before)

    def annotations(self, pod: str) -> dict[str, str]:
        """The annotations of a Pod, once it is bound."""
        self.wait(lambda: pod in self.bound())
        found: dict[str, str] = self.api.get(f"{self.path}/pods/{pod}")["metadata"]["annotations"]
        return found

    def why(self, pod: str) -> str:
        """Returns why a Pod waits."""
        self.wait(lambda: self.condition(pod)["message"])
        assert pod not in self.bound()
        return self.condition(pod)["message"]

    def delete(self, pod: str) -> None:
        self.api.delete(f"{self.path}/pods/{pod}?gracePeriodSeconds=0")


def _container(name: str, amounts: Amounts) -> dict[str, Any]:
    return {"name": name, "image": "registry.example/train:1", "resources": {"requests": amounts, "limits": amounts}}


@pytest.fixture
def devices(control_plane: ControlPlane) -> Iterator[Devices]:
    emptied(control_plane)
    stage = Devices(control_plane)
    yield stage
    emptied(control_plane)


def vgpu(memory: int, cores: int) -> Amounts:
    return {VGPU_NUMBER: "1", VGPU_MEMORY: str(memory), VGPU_CORES: str(cores)}


def test_vgpus_are_listed_in_the_order_of_the_kubelet_and_counted_as_they_are_used_at_once(
    devices: Devices, tmp_path: Path
) -> None:
    gpus = [f"gpu-{i},10,10000,NVIDIA-NVIDIA L4,true,hami-core:" for i in range(2)]
    totals = {VGPU_NUMBER: "20", VGPU_MEMORY: "20000", VGPU_CORES: "200"}
    devices.device_node(totals, annotations={VGPU_REGISTER: "".join(gpus)})
    init = [(vgpu(1000, 10), False), ({}, False), (vgpu(2000, 20), True)]
    with devices.scheduler(tmp_path):
        devices.submit("fills", vgpu(9500, 10))
        devices.annotations("fills")
        devices.submit("p", {"cpu": "1"}, vgpu(3000, 30), init=init)
        found = devices.annotations("p")
        devices.submit("q", vgpu(5001, 10))
        reason = devices.why("q")
    gpu = found[VGPU_IDS].partition(",")[0]
    listed = f"{gpu},NVIDIA,1000,10:;{gpu},NVIDIA,2000,20:;{gpu},NVIDIA,3000,30:"
    assert (found[VGPU_IDS], found[VGPU_IDS_TO_ALLOCATE]) == (listed, listed)
    assert "1 node(s) had no GPU with 5001 of its memory and 10% of the cores free" in reason

    with devices.scheduler(tmp_path):
        devices.submit("r", vgpu(5000, 50))
        assert devices.annotations("r")[VGPU_IDS] == f"{gpu},NVIDIA,5000,50:"
        devices.delete("p")
        devices.delete("r")
        assert devices.annotations("q")[VGPU_IDS] == f"{gpu},NVIDIA,5001,10:"


def test_npus_of_hami_are_listed_by_position_and_that_of_a_sidecar_is_not_given_again(
    devices: Devices, tmp_path: Path
) -> None:
    chips = [
        {"id": f"npu-{i}", "index": i, "count": 1, "devmem": 21527, "devcore": 8, "health": True} for i in range(2)
    ]
    devices.device_node({NPU: "2"}, annotations={"hami.io/node-register-Ascend310P": json.dumps(chips)})
    whole, half = {NPU: "1", f"{NPU}-memory": "21527"}, {NPU: "1", f"{NPU}-memory": "12288"}
    devices.api.patch(
        f"/api/v1/nodes/{devices.name}-devices/status", {"status": {"allocatable": {f"{NPU}-memory": "43054"}}}
    )
    with devices.scheduler(tmp_path):
        devices.submit("p", {"cpu": "1"}, half, init=[({}, False), (half, True)])
        found = devices.annotations("p")
        devices.submit("q", whole)
        reason = devices.why("q")
    first, second = (each for each in found["hami.io/Ascend310P-devices-allocated"].split(";") if each)
    assert {first.partition(",")[0], second.partition(",")[0]} == {"npu-0", "npu-1"}
    assert found["hami.io/Ascend310P-devices-to-allocate"] == f";{first};;{second};"
    assert "Ascend310P" in reason

    with devices.scheduler(tmp_path):
        devices.submit("r", whole)
        assert "Ascend310P" in devices.why("r")
        devices.delete("p")
        devices.wait(lambda: {"q", "r"} <= devices.bound().keys())


def test_chips_of_an_init_container_are_those_of_the_container_after_it_and_are_given_to_no_other_pod(
    devices: Devices, tmp_path: Path
) -> None:
    devices.device_node({ASCEND_910: "8"}, labels={"accelerator": "huawei-Ascend910"})
    every = {ASCEND_910: "8"}
    with devices.scheduler(tmp_path):
        devices.submit("p", every, init=[({}, True), (every, False)])
        assert devices.annotations("p")[ASCEND_910] == ",".join(f"Ascend910-{chip}" for chip in range(8))

    with devices.scheduler(tmp_path):
        devices.submit("q", {ASCEND_910: "1"})
        assert "huawei.com/Ascend910: asked 1, most free on one node 0" in devices.why("q")
        devices.delete("p")
        assert devices.annotations("q")[ASCEND_910] == "Ascend910-0"
        devices.submit("r", {ASCEND_910: "2"}, init=[({ASCEND_910: "2"}, False)])
        assert "the device plugin serves init containers only if they ask for all chips" in devices.why("r")
