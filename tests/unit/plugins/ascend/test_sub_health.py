"""Sub-healthy nodes: a chip or a switch has a fault with which jobs may continue. These nodes are used last among equal
nodes. Jobs whose ``subHealthyStrategy`` does not ignore such faults do not use them."""

import json
from typing import Any

import pytest

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_310P, ASCEND_910, SP_BLOCK
from tests.builders import Raw, World, group, pod
from tests.unit.plugins.ascend import test_super_pods
from tests.unit.plugins.ascend.chips import CONFIGURATION, chips_of, config_map, device_info, job, names, npu_node
from tests.unit.plugins.ascend.test_cluster_reports import aggregate
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node

ALL = list(range(8))
STRATEGY = "subHealthyStrategy"


def fault(chip: str = "Ascend910-3", handling: str = "SubHealthFault") -> Raw:
    return {
        "fault_type": "CardUnhealthy",
        "npu_name": chip,
        "fault_level": handling,
        "fault_handling": handling,
        "fault_code": "80E01801",
        "fault_time_and_level_map": {"80E01801": {"fault_time": 1690000000000, "fault_level": handling}},
    }


def with_faults(node: str, *faults: Raw, free: list[int] = ALL) -> Raw:
    return device_info(node, free, Fault=json.dumps(faults))


def with_switches(node: str, status: str) -> Raw:
    info = device_info(node, ALL)
    info["data"]["SwitchInfoCfg"] = json.dumps({"FaultCode": [], "FaultLevel": "", "NodeStatus": status})
    return info


SUB_HEALTHY = [
    with_faults("a", fault()),
    with_faults("a", fault("")),
    with_faults("a", fault(handling="NotHandleFault"), fault("Ascend910-5")),
    with_switches("a", "SubHealthy"),
    aggregate("switch-0", {"mindx-dl-switchinfo-a": {"NodeStatus": "SubHealthy"}}),
    aggregate("device-0", {"mindx-dl-deviceinfo-a": json.loads(with_faults("a", fault())["data"]["DeviceInfoCfg"])}),
]


@pytest.mark.parametrize("report", SUB_HEALTHY)
def test_a_sub_healthy_node_is_used_after_an_equal_one(report: Raw) -> None:
    nodes = [npu_node("a"), npu_node("b"), report, device_info("b", ALL)]
    if report["metadata"]["namespace"] == "mindx-dl" and "switch" in report["metadata"]["name"]:
        nodes.append(device_info("a", ALL))
    world = World(*nodes, job("first", 8), job("second", 8)).run(CONFIGURATION)
    assert world.bound == {"first-0": "b", "second-0": "a"}


def test_the_order_of_the_family_comes_before_sub_health() -> None:
    nodes = [npu_node("a"), npu_node("b"), with_faults("a", fault(), free=[3]), device_info("b", ALL)]
    assert chips_of(World(*nodes, job("j", 1)).run(CONFIGURATION)) == {"j-0": ("a", [3])}


@pytest.mark.parametrize("handling", ["NotHandleFault", "RestartRequest", "SeparateNPU"])
def test_other_faults_are_the_concern_of_the_lists_of_chips(handling: str) -> None:
    nodes = [npu_node("a"), npu_node("b"), with_faults("a", fault(handling=handling)), device_info("b", ALL)]
    assert World(*nodes, job("j", 8)).run(CONFIGURATION).bound == {"j-0": "a"}


@pytest.mark.parametrize("strategy", ["graceExit", "forceExit", "hotSwitch"])
@pytest.mark.parametrize("where", ["pod", "group"])
def test_a_job_that_does_not_ignore_sub_health_uses_no_such_node(strategy: str, where: str) -> None:
    whole = job("j", 1, labels={STRATEGY: strategy} if where == "pod" else {})
    whole[0]["metadata"]["labels"] = {STRATEGY: strategy} if where == "group" else {}
    world = World(npu_node("a"), with_faults("a", fault()), whole).run(CONFIGURATION)
    assert world.bound == {}
    assert "1 node(s) were sub-healthy, which the job's subHealthyStrategy excludes" in world.message_of("j-0")


@pytest.mark.parametrize("strategy", ["ignore", "", "forceexit", "x" * 63])
def test_any_other_strategy_ignores_sub_health_and_an_unknown_one_is_reported(strategy: str) -> None:
    whole = job("j", 1, labels={STRATEGY: strategy})
    world = World(npu_node("a"), with_faults("a", fault()), whole).run(CONFIGURATION)
    assert world.bound == {"j-0": "a"}
    warned = [text for text in world.malformed if text.startswith(f"Pod j-0 metadata.labels[{STRATEGY}]: ")]
    assert len(warned) == (strategy != "ignore")


@pytest.mark.parametrize("text", [7, None, [], "{", "7", "[7]", '[{"npu_name":[]}]', "[" * 100_000])
def test_a_malformed_list_of_faults_counts_as_empty_with_a_warning(text: Any) -> None:
    lists = {ASCEND_910: names(ALL), f"{ASCEND_910}-Fault": text}
    info = config_map("a", json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}))
    world = World(npu_node("a"), info, job("j", 1, labels={STRATEGY: "forceExit"})).run(CONFIGURATION)
    assert world.bound == {"j-0": "a"}
    where = "ConfigMap mindx-dl-deviceinfo-a data[DeviceInfoCfg][huawei.com/Ascend910-Fault]: "
    found = [each.removeprefix(where) for each in world.malformed if each.startswith(where)]
    assert found
    if text == "{":
        assert "not JSON: expecting property name enclosed in double quotes (line 1, column 2)" in found[0]


@pytest.mark.parametrize(("pods", "sub_healthy"), [(2, {"sp0-0"}), (1, {"sp0-0", "sp0-1"})])
def test_a_block_of_a_super_pod_uses_sub_healthy_nodes_last(pods: int, sub_healthy: set[str]) -> None:
    def node(name: str) -> list[Raw]:
        chips = list(range(16))
        info = json.loads(
            with_faults(name, *([fault()] if name in sub_healthy else []), free=chips)["data"]["DeviceInfoCfg"]
        )
        info["SuperPodID"] = 0
        return [npu_node(name, 16, labels=test_super_pods.SELECTOR), config_map(name, json.dumps(info))]

    whole = [group("j", minimum=pods, annotations={SP_BLOCK: str(16 * pods)})]
    whole += [pod(f"j-{i}", f"1c+{ASCEND_910}=16", "j", selector=test_super_pods.SELECTOR) for i in range(pods)]
    world = World(*(node(f"sp0-{i}") for i in range(3)), whole).run(CONFIGURATION)
    assert len(world.bound) == pods
    assert not sub_healthy & set(world.bound.values())


@pytest.mark.parametrize(("strategy", "bound"), [("ignore", {"j-0": "n"}), ("forceExit", {})])
@pytest.mark.parametrize("source", ["switch", "chip"])
def test_jobs_that_request_ai_cores_avoid_sub_healthy_nodes_too(
    source: str, strategy: str, bound: dict[str, str]
) -> None:
    info = core_info("n", [0, 1])
    if source == "switch":
        info["data"]["SwitchInfoCfg"] = json.dumps({"NodeStatus": "SubHealthy"})
    else:
        content = json.loads(info["data"]["DeviceInfoCfg"])
        content["DeviceInfo"]["DeviceList"][f"{ASCEND_310P}-Fault"] = json.dumps([fault("Ascend310P-1")])
        info["data"]["DeviceInfoCfg"] = json.dumps(content)
    whole = core_job("j", 4, labels={STRATEGY: strategy})
    assert World(core_node("n", whole=2), info, whole).run(CONFIGURATION).bound == bound


def test_other_families_have_the_same_order() -> None:
    labels = {ACCELERATOR_TYPE: "module-910b-8"}
    nodes = [
        npu_node("a", labels=labels),
        npu_node("b", labels=labels),
        with_faults("a", fault()),
        device_info("b", ALL),
    ]
    whole = [group("j", minimum=1), pod("j-0", f"1c+{ASCEND_910}=3", "j", selector=labels)]
    assert World(*nodes, whole).run(CONFIGURATION).bound == {"j-0": "b"}
