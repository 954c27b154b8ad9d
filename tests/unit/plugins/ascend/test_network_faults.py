"""Chips with a network fault: in families whose chips exchange data, jobs of several NPU Pods do not get them."""

import json
from collections.abc import Mapping

import pytest

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_310, ASCEND_310P, ASCEND_910, NPU, SCHEDULE_POLICY, SP_BLOCK
from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, NODE, config_map

FAMILIES: list[tuple[str, int, Mapping[str, str], int, bool]] = [
    # resource, chips of a node, traits of the job, request of a Pod, whether distributed jobs avoid network faults
    (ASCEND_910, 8, {}, 8, True),
    (ASCEND_910, 4, {ACCELERATOR_TYPE: "half"}, 4, True),
    (ASCEND_910, 8, {ACCELERATOR_TYPE: "card"}, 8, False),
    (ASCEND_910, 8, {ACCELERATOR_TYPE: "module-910b-8"}, 8, True),
    (ASCEND_910, 16, {ACCELERATOR_TYPE: "module-910b-16"}, 16, True),
    (ASCEND_910, 16, {ACCELERATOR_TYPE: "module-a3-16"}, 16, True),
    (NPU, 8, {SCHEDULE_POLICY: "chip4-node8"}, 8, True),
    (NPU, 8, {SCHEDULE_POLICY: "chip1-node8"}, 8, False),
    (ASCEND_310, 8, {}, 8, False),
    (ASCEND_310, 4, {"npu-310-strategy": "card"}, 4, False),
    (ASCEND_310P, 8, {}, 8, False),
    (ASCEND_310P, 8, {"duo": "true"}, 8, False),
    (ASCEND_310P, 2, {"duo": "true", "npu-310-strategy": "card"}, 2, False),
]


def placed(resource: str, size: int, traits: Mapping[str, str], request: int, pods: int, **annotations: str) -> int:
    """The number of Pods of a job that get a node, out of two nodes of which one has a chip with a network fault."""
    labels = dict(traits)
    selector = {ACCELERATOR_TYPE: labels.pop(ACCELERATOR_TYPE)} if ACCELERATOR_TYPE in labels else {}
    policy = {SCHEDULE_POLICY: labels.pop(SCHEDULE_POLICY)} if SCHEDULE_POLICY in labels else {}
    prefix = resource.removeprefix("huawei.com/")
    objects: list[Raw] = [group("j", minimum=pods, annotations={**policy, **annotations})]
    objects += [pod(f"j-{i}", f"1c+{resource}={request}", "j", labels=labels, selector=selector) for i in range(pods)]
    for name, faulty in (("a", f"{prefix}-1"), ("b", "")):
        lists = {resource: ",".join(f"{prefix}-{i}" for i in range(size)), f"{resource}-NetworkUnhealthy": faulty}
        info = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "SuperPodID": 0}
        there = node(name, f"{NODE}+{resource}={size}", labels={**selector, "infer-card-type": "card-300i-duo"})
        objects += [there, config_map(name, json.dumps(info))]
    return len(World(objects).run(CONFIGURATION).bound)


@pytest.mark.parametrize(("resource", "size", "traits", "request_", "avoids"), FAMILIES)
def test_jobs_of_several_pods_avoid_network_faults_where_chips_exchange_data(
    resource: str, size: int, traits: dict[str, str], request_: int, avoids: bool
) -> None:
    assert placed(resource, size, traits, request_, pods=2) == (0 if avoids else 2)
    assert placed(resource, size, traits, request_, pods=1) == 1


@pytest.mark.parametrize(("block", "bound"), [(32, 2), (16, 0)])
def test_in_super_pods_several_blocks_make_a_job_avoid_network_faults(block: int, bound: int) -> None:
    traits = {ACCELERATOR_TYPE: "module-a3-16-super-pod"}
    assert placed(ASCEND_910, 16, traits, 16, pods=2, **{SP_BLOCK: str(block)}) == bound
