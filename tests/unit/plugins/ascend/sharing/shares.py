"""Builders for the tests of shared chips."""

import json
from collections.abc import Mapping
from typing import Any

from scheduler.api.names import ASCEND_910, ASCEND_REAL, BASE_DEVICE_INFOS, SOFT_SHARE
from tests.builders import Raw, World, group
from tests.unit.plugins.ascend.chips import device_info, names, npu_node, npu_pod

POLICY = {"huawei.com/schedule_policy": "chip1-softShareDev"}
SHARED = {"huawei.com/scheduler.chip1softsharedev.enable": "true", "mind-cluster/npu-chip-memory": "64G"}


def quota(cores: object, memory: object = 1024, policy: str = "fixed-share") -> dict[str, str]:
    return dict(zip(SOFT_SHARE, (str(cores), str(memory), policy), strict=True))


def shared_node(name: str, chips: int = 2, labels: Mapping[str, str] = SHARED) -> list[Raw]:
    """A node of which the device plugin reports 100 for each chip."""
    base = {f"Ascend910-{i}": {"IP": f"10.0.0.{i}", "SuperDeviceID": i} for i in range(chips)}
    node = npu_node(name, 100 * chips, {BASE_DEVICE_INFOS: json.dumps(base)}, labels)
    return [node, device_info(name, [*range(chips)])]


def whole_node(name: str, chips: int = 8) -> list[Raw]:
    """A node of which no chip is shared."""
    node, lists = shared_node(name, chips, {})
    node["status"]["allocatable"][ASCEND_910] = str(chips)
    return [node, lists]


def sharing(
    name: str, cores: int, memory: int = 1024, policy: str = "fixed-share", number: int = 1, **rest: Any
) -> list[Raw]:
    """A gang whose Pods share chips."""
    labels = quota(cores, memory, policy)
    pods = [npu_pod(f"{name}-{i}", cores, name, labels=labels, **rest) for i in range(number)]
    return [group(name, minimum=number, annotations=POLICY), *pods]


def sharer(
    name: str, node: str, chip: int, cores: int, memory: int = 1024, policy: str = "fixed-share", **rest: Any
) -> Raw:
    """A Pod of another scheduler that has a share."""
    annotations = {ASCEND_910: names([chip]), ASCEND_REAL: names([chip]), **quota(cores, memory, policy)}
    return npu_pod(name, cores, on=node, scheduler="other", annotations=annotations, **rest)


def chips(world: World) -> dict[str, tuple[str, str | None]]:
    """Maps each Pod to the (node, chips) of the bindings of the last session."""
    return {bind.task.name: (bind.node, bind.annotations.get(ASCEND_910)) for bind in world.decisions.binds}
