"""The reports of the simulated device plugin, NodeD and ClusterD."""

import hashlib
import json
from typing import Any

import pytest

from scheduler.api.names import ASCEND_310P, ASCEND_910, PREDICATE_TIME
from scheduler.api.times import format_timestamp
from scheduler.playground.families import FAMILIES
from scheduler.playground.faults import ChipFault, FaultOf, Faults, NodeHealth
from scheduler.playground.node import Machine
from scheduler.playground.objects import Put, Remove
from scheduler.playground.reports import check_code, cluster_writes, go_json, report_writes
from tests.unit.playground.stage import NOW, Stage


def data_of(stage: Stage) -> dict[str, str]:
    put = report_writes(stage.machine, stage.report(), NOW)[0]
    assert isinstance(put, Put)
    assert put.manifest["metadata"] == {
        "name": "mindx-dl-deviceinfo-n",
        "namespace": "kube-system",
        "labels": {"mx-consumer-cim": "true"},
    }
    data: dict[str, str] = put.manifest["data"]
    return data


def config_of(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data_of(stage)["DeviceInfoCfg"])
    return found


def test_the_device_list_names_the_chips_that_are_free_and_healthy() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 1}, {ASCEND_910: "Ascend910-4", PREDICATE_TIME: "1"})
    stage.settle()
    since = 1_690_000_000_000
    stage.faults = Faults(
        chips={
            1: ChipFault(since=since),
            2: ChipFault(fault=FaultOf.NETWORK, since=since),
            3: ChipFault(fault=FaultOf.RECOVERING, since=since),
            5: ChipFault(level="SubHealthFault", since=since),
            6: ChipFault(level="ManuallySeparateNPU", since=since),
        }
    )
    config = config_of(stage)
    lists = config["DeviceInfo"]["DeviceList"]
    assert list(lists) == sorted(lists)
    assert lists[ASCEND_910] == "Ascend910-0,Ascend910-2,Ascend910-5,Ascend910-7"
    assert lists[f"{ASCEND_910}-Unhealthy"] == "Ascend910-1,Ascend910-6"
    assert lists[f"{ASCEND_910}-NetworkUnhealthy"] == "Ascend910-2"
    assert lists[f"{ASCEND_910}-Recovering"] == "Ascend910-3"
    first = json.loads(lists[f"{ASCEND_910}-Fault"])[0]
    assert first == {
        "fault_type": "CardUnhealthy",
        "npu_name": "Ascend910-1",
        "large_model_fault_level": "SeparateNPU",
        "fault_level": "SeparateNPU",
        "fault_handling": "SeparateNPU",
        "fault_code": "80E01801",
        "fault_time_and_level_map": {"80E01801": {"fault_time": since, "fault_level": "SeparateNPU"}},
    }
    assert data_of(stage)["ManuallySeparateNPU"] == "Ascend910-6"
    assert (config["SuperPodID"], config["ServerIndex"]) == (-2, -2)


def test_the_check_code_is_that_of_go() -> None:
    text = data_of(Stage())["DeviceInfoCfg"]
    inner = text[text.index('{"DeviceList"') : text.index(',"SuperPodID"')]
    assert json.loads(text)["CheckCode"] == hashlib.sha256(inner.encode()).hexdigest()
    assert go_json({"a": "<é&>"}) == '{"a":"\\u003cé\\u0026\\u003e"}'
    assert len(check_code({})) == 64


def test_a_chip_that_is_separated_beforehand_stays_healthy_while_a_pod_uses_it() -> None:
    stage = Stage()
    stage.faults = Faults(chips={4: ChipFault(level="PreSeparateNPU"), 5: ChipFault(level="PreSeparateNPU")})
    stage.bind("a", {ASCEND_910: 1}, {ASCEND_910: "Ascend910-4", PREDICATE_TIME: "1"})
    stage.settle()
    assert stage.report().devices[f"{ASCEND_910}-Unhealthy"] == "Ascend910-5"


def test_a_310p_reports_no_faults_of_a_network() -> None:
    lists = config_of(Stage("310p-8"))["DeviceInfo"]["DeviceList"]
    assert set(lists) == {ASCEND_310P, f"{ASCEND_310P}-Unhealthy", f"{ASCEND_310P}-Fault"}


@pytest.mark.parametrize(
    ("health", "level"), [(NodeHealth.UNHEALTHY, "SeparateFault"), (NodeHealth.PRE_SEPARATE, "PreSeparateFault")]
)
def test_noded_reports_faults_and_nothing_else(health: NodeHealth, level: str) -> None:
    stage = Stage()
    assert isinstance(report_writes(stage.machine, stage.report(), NOW)[1], Remove)
    stage.faults = Faults(node=health)
    put = report_writes(stage.machine, stage.report(), NOW)[1]
    assert isinstance(put, Put)
    metadata = put.manifest["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("mindx-dl", "mindx-dl-nodeinfo-n")
    assert put.manifest["data"]["updateTime"] == format_timestamp(NOW)
    found = json.loads(put.manifest["data"]["NodeInfo"])
    assert found["NodeInfo"]["NodeStatus"] == health.value
    assert found["NodeInfo"]["FaultDevList"][0]["FaultLevel"] == level
    assert found["CheckCode"] == check_code(found["NodeInfo"])


def test_a_super_pod_reports_its_switch() -> None:
    stage = Stage("a3-16-super-pod", super_pod=3, server=1)
    assert json.loads(data_of(stage)["SwitchInfoCfg"])["NodeStatus"] == "Healthy"
    stage.faults = Faults(switch=NodeHealth.UNHEALTHY)
    found = json.loads(data_of(stage)["SwitchInfoCfg"])
    assert (found["NodeStatus"], found["FaultLevel"], found["UpdateTime"]) == ("UnHealthy", "Separate", int(NOW))
    assert (config_of(stage)["SuperPodID"], config_of(stage)["ServerIndex"]) == (3, 1)


def test_clusterd_joins_the_reports_of_all_nodes_and_divides_long_ones() -> None:
    stage = Stage("a3-16-super-pod", super_pod=0, server=0)
    stage.faults = Faults(node=NodeHealth.UNHEALTHY)
    report = stage.report()
    machines = [Machine(f"n{i}", FAMILIES["a3-16-super-pod"], i, super_pod=0, server=i) for i in range(3000)]
    writes = {
        put.manifest["metadata"]["name"]: put.manifest for put in cluster_writes([(m, report) for m in machines], NOW)
    }
    chunks = [json.loads(writes[name]["data"][name]) for name in writes if name.startswith("cluster-info-device-")]
    assert len(chunks) > 1
    assert sum(map(len, chunks)) == 3000
    assert chunks[0]["mindx-dl-deviceinfo-n0"]["CmName"] == "mindx-dl-deviceinfo-n0"
    nodes = json.loads(writes["cluster-info-node-cm"]["data"]["cluster-info-node-cm"])
    assert nodes["mindx-dl-nodeinfo-n7"]["NodeStatus"] == "UnHealthy"
    assert "mindx-dl-switchinfo-n0" in json.loads(writes["cluster-info-switch-0"]["data"]["cluster-info-switch-0"])
    assert all(put["metadata"]["labels"]["mx-consumer-volcano"] == "true" for put in writes.values())
