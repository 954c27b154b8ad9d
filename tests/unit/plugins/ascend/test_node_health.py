"""Nodes that NodeD or the switches report as unhealthy get no NPU Pods."""

import json
from typing import Any

import pytest

from scheduler.api.names import SCHEDULE_POLICY
from tests.builders import Raw, World, feed, group, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, ledger_of, npu_node


def report(text: str, node: str = "n") -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"mindx-dl-nodeinfo-{node}", "namespace": "mindx-dl"},
        "data": {"NodeInfo": text},
    }


def status(value: Any) -> str:
    return json.dumps({"NodeInfo": {"FaultDevList": [], "NodeStatus": value}, "CheckCode": ""})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("UnHealthy", "node(s) were reported as unhealthy"),
        ("PreSeparate", "node(s) were reported as about to be isolated"),
    ],
)
def test_an_unhealthy_node_gets_no_npu_pod(value: str, reason: str) -> None:
    world = World(npu_node("n"), report(status(value)), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {}
    assert f"1 {reason}" in world.message_of("j-0")


@pytest.mark.parametrize("value", ["Healthy", "SubHealthy", "whatever"])
def test_other_states_exclude_no_node(value: str) -> None:
    assert World(npu_node("n"), report(status(value)), job("j", 1)).run(CONFIGURATION).bound == {"j-0": "n"}


def test_switches_can_make_a_node_unhealthy() -> None:
    switches = report("")
    switches["metadata"] = {"name": "mindx-dl-deviceinfo-n", "namespace": "kube-system"}
    switches["data"] = {"SwitchInfoCfg": json.dumps({"FaultCode": [], "NodeStatus": "UnHealthy"})}
    assert World(npu_node("n"), switches, job("j", 1)).run(CONFIGURATION).bound == {}


def unready(name: str) -> Raw:
    raw = npu_node(name)
    raw["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return raw


def test_a_node_that_is_not_ready_gets_no_npu_pod_although_it_has_no_taint() -> None:
    world = World(unready("a"), npu_node("b"), job("i", 8), job("j", 8)).run(CONFIGURATION)
    assert world.bound == {"i-0": "b"}
    assert "1 node(s) were not ready" in world.message_of("j-0")


def test_chips_of_a_node_that_is_not_ready_do_not_count_at_the_gate() -> None:
    for there, free in (([unready("a")], 0), ([unready("a"), npu_node("b")], 8)):
        assert ledger_of(World(*there).session(CONFIGURATION)).countable == free


def test_pods_without_chips_do_not_care() -> None:
    plain = [group("g", minimum=1), pod("p", "1c+1Gi", "g")]
    assert World(npu_node("n"), report(status("UnHealthy")), plain).run(CONFIGURATION).bound == {"p": "n"}
    assert World(unready("n"), plain).run(CONFIGURATION).bound == {"p": "n"}


@pytest.mark.parametrize("key", ["NodeInfo", "SwitchInfoCfg"])
def test_an_empty_report_means_that_there_are_no_faults(key: str) -> None:
    empty = report("")
    if key == "SwitchInfoCfg":
        empty = device_info("n", list(range(8)))
        empty["data"][key] = ""
    world = World(npu_node("n"), empty, job("j", 1)).run(CONFIGURATION)
    assert (world.bound, world.malformed) == ({"j-0": "n"}, [])


@pytest.mark.parametrize("text", ["{", "[]", '"UnHealthy"', "null"])
def test_a_malformed_report_of_the_switches_is_ignored_with_a_warning(text: str) -> None:
    switches = device_info("n", list(range(8)))
    switches["data"]["SwitchInfoCfg"] = text
    world = World(npu_node("n"), switches, job("j", 1)).run(CONFIGURATION)
    assert world.bound == {"j-0": "n"}
    assert world.malformed[0].startswith("ConfigMap mindx-dl-deviceinfo-n data[SwitchInfoCfg]: ")


@pytest.mark.parametrize("text", ["{", "[]", '{"NodeInfo":7}', status(7), status(None)])
def test_a_malformed_report_is_ignored_with_a_warning(text: str) -> None:
    world = World(npu_node("n"), report(text), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {"j-0": "n"}
    assert world.malformed[0].startswith("ConfigMap mindx-dl-nodeinfo-n data[NodeInfo]: ")


def test_a_malformed_report_is_reported_once_if_jobs_of_two_families_wait() -> None:
    other = job("k", 1, annotations={SCHEDULE_POLICY: "chip8-node8"})
    world = World(npu_node("n"), report("{"), job("j", 1), other).run(CONFIGURATION)
    assert world.bound == {"j-0": "n", "k-0": "n"}
    assert sum(text.startswith("ConfigMap mindx-dl-nodeinfo-n") for text in world.malformed) == 1


def test_a_report_that_changes_takes_effect() -> None:
    world = World(npu_node("n"), report(status("UnHealthy")), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {}
    feed(world.cluster.cache, report(status("Healthy")))
    assert world.run(CONFIGURATION).bound == {"j-0": "n"}
