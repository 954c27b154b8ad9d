"""Whatever a source of the state of one node contains, a Warning names the object and the field, and the other nodes
are used."""

import json
from typing import Any

import pytest

from scheduler.api.names import ASCEND_910, BASE_DEVICE_INFOS
from tests.builders import Raw, World
from tests.unit.plugins.ascend.chips import CONFIGURATION, config_map, device_info, job, names, npu_node
from tests.unit.plugins.ascend.test_cluster_reports import aggregate

DEEP = "[" * 200_000
TEXTS = ["{", "[]", "7", '"text"', "\ud800", "\x00", DEEP, '{"a":' * 100_000, "9" * 5000, "NaN", "{}garbage"]
LISTS: list[Any] = [
    7,
    None,
    [],
    {},
    True,
    "Ascend910-1 ",
    "Ascend910-99",
    "Ascend310-1",
    "," * 2000,
    "Ascend910--1",
    "\x1b[31m",
]


def with_list(key: str, value: Any) -> Raw:
    lists = {ASCEND_910: names(range(8)), ASCEND_910 + key: value}
    return config_map("bad", json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}))


def of_node(key: str, text: str) -> Raw:
    info = device_info("bad", list(range(8)))
    if key == "NodeInfo":
        info["metadata"] = {"name": "mindx-dl-nodeinfo-bad", "namespace": "mindx-dl"}
    info["data"][key] = text
    return info


def bound_beside(*bad: Raw) -> list[str]:
    """Schedules a job that the node "good" fits best, and returns the Warnings."""
    there = [each for each in bad if each["kind"] == "Node"] or [npu_node("bad")]
    rest = [each for each in bad if each["kind"] != "Node"]
    good = device_info("good", [0, 4, 5, 6, 7])
    world = World(*there, npu_node("good"), good, *rest, job("j", 1)).run(CONFIGURATION)
    assert world.bound == {"j-0": "good"}
    assert not any("\x1b" in text or len(text) > 2000 for text in world.malformed)
    return world.malformed


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("DeviceInfoCfg", "ConfigMap mindx-dl-deviceinfo-bad data[DeviceInfoCfg]"),
        ("SwitchInfoCfg", "ConfigMap mindx-dl-deviceinfo-bad data[SwitchInfoCfg]"),
        ("NodeInfo", "ConfigMap mindx-dl-nodeinfo-bad data[NodeInfo]"),
    ],
)
def test_a_malformed_config_map_of_a_node(key: str, where: str, text: str) -> None:
    assert [each for each in bound_beside(of_node(key, text)) if each.startswith(where)]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize("kind", ["device-0", "device-17", "node-cm", "switch-0"])
def test_a_malformed_config_map_of_clusterd(kind: str, text: str) -> None:
    where = f"ConfigMap cluster-info-{kind} data[cluster-info-{kind}]"
    assert [each for each in bound_beside(aggregate(kind, text)) if each.startswith(where)]


@pytest.mark.parametrize("entry", [7, None, [], "text", {}, {"NodeStatus": 7}, {"NodeStatus": None}])
@pytest.mark.parametrize(("kind", "name"), [("node-cm", "nodeinfo"), ("switch-0", "switchinfo")])
def test_a_malformed_entry_of_clusterd(kind: str, name: str, entry: Any) -> None:
    where = f"ConfigMap cluster-info-{kind} data[cluster-info-{kind}][mindx-dl-{name}-bad]"
    warned = bound_beside(aggregate(kind, {f"mindx-dl-{name}-bad": entry, f"mindx-dl-{name}-good": {"NodeStatus": ""}}))
    assert [each for each in warned if each.startswith(where)]


@pytest.mark.parametrize("value", LISTS, ids=range(len(LISTS)))
@pytest.mark.parametrize("key", ["", "-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault"])
def test_a_malformed_list(key: str, value: Any) -> None:
    where = f"ConfigMap mindx-dl-deviceinfo-bad data[DeviceInfoCfg][{ASCEND_910}{key}]"
    assert [each for each in bound_beside(with_list(key, value)) if each.startswith(where)]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize("key", [BASE_DEVICE_INFOS, ASCEND_910, f"{ASCEND_910}-Unhealthy", "superPodID"])
def test_a_malformed_annotation_of_a_node(key: str, text: str) -> None:
    listed = {} if key == "superPodID" else {ASCEND_910: names(range(8))}
    warned = bound_beside(npu_node("bad", annotations={**listed, key: text}))
    expected = not (key == "superPodID" and text == "7")
    assert any(each.startswith(f"Node bad metadata.annotations[{key}]") for each in warned) == expected


@pytest.mark.parametrize("published", [None, -1, "now", 1e300, 2**70, True, []])
def test_a_time_that_is_none_counts_as_unknown(published: Any) -> None:
    info = {
        "DeviceInfo": {"DeviceList": {ASCEND_910: names(range(8))}, "UpdateTime": published},
        "SuperPodID": published,
    }
    assert not bound_beside(config_map("bad", json.dumps(info)))
