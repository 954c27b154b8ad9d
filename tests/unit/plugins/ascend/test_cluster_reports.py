"""ClusterD's ConfigMaps, which hold the reports of many nodes, count as the ConfigMaps of the nodes do."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.names import ASCEND_910
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.plugins.ascend.masks import ids_of
from scheduler.plugins.support.device_info import DeviceInfo
from scheduler.plugins.support.device_info import device_info as device_info_of
from tests.builders import Raw, World, configuration, feed
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, ledger_of, names, npu_node


def aggregate(kind: str, content: Any) -> Raw:
    name = f"cluster-info-{kind}"
    text = content if isinstance(content, str) else json.dumps(content)
    meta = {"name": name, "namespace": "mindx-dl"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {name: text}}


def devices(free: list[int], published: int = 1, **more: Any) -> Raw:
    lists = {ASCEND_910: names(free), **{f"{ASCEND_910}-{key}": names(value) for key, value in more.items()}}
    return {"DeviceList": lists, "UpdateTime": published, "SuperPodID": 0, "ServerIndex": 0}


def free_on(world: World) -> list[list[int]]:
    return [ids_of(int(mask)) for mask in ledger_of(world.session(CONFIGURATION)).free]


def test_the_lists_of_many_nodes_are_read_from_one_config_map() -> None:
    reports = {"mindx-dl-deviceinfo-a": devices([1]), "mindx-dl-deviceinfo-b": devices([2, 3], Unhealthy=[3])}
    more = aggregate("device-1", {"mindx-dl-deviceinfo-c": devices([4])})
    world = World(npu_node("a"), npu_node("b"), npu_node("c"), aggregate("device-0", reports), more)
    assert free_on(world) == [[1], [2], [4]]


@pytest.mark.parametrize(("published", "free"), [(5, [2]), (4, [1]), (1, [1])])
def test_the_newer_of_a_report_and_its_copy_counts(published: int, free: list[int]) -> None:
    own = device_info("n", [1])
    content = json.loads(own["data"]["DeviceInfoCfg"])
    content["DeviceInfo"]["UpdateTime"] = 5
    own["data"]["DeviceInfoCfg"] = json.dumps(content)
    copied = aggregate("device-0", {"mindx-dl-deviceinfo-n": devices([2], published)})
    assert free_on(World(npu_node("n"), own, copied)) == [free]


def test_by_configuration_the_copies_are_not_read() -> None:
    conf = replace(CONFIGURATION, action_arguments={"init-params": {"useClusterInfoManager": "false"}})
    world = World(npu_node("n"), aggregate("device-0", {"mindx-dl-deviceinfo-n": devices([2])}))
    assert ids_of(int(ledger_of(world.session(conf)).free[0])) == list(range(8))


@pytest.mark.parametrize(("kind", "key"), [("node-cm", "mindx-dl-nodeinfo-n"), ("switch-0", "mindx-dl-switchinfo-n")])
@pytest.mark.parametrize("status", ["UnHealthy", "PreSeparate"])
def test_a_node_that_is_unhealthy_in_a_copy_gets_no_npu_pod(kind: str, key: str, status: str) -> None:
    world = World(npu_node("n"), aggregate(kind, {key: {"NodeStatus": status}}), job("j", 1)).run(CONFIGURATION)
    assert not world.bound


@pytest.mark.parametrize("kind", ["device-1", "switch-0", "node-cm"])
def test_an_empty_config_map_has_no_reports(kind: str) -> None:
    reported = aggregate("device-0", {"mindx-dl-deviceinfo-n": devices([2])})
    session = World(npu_node("n"), reported, aggregate(kind, ""), job("j", 1)).session(CONFIGURATION)
    assert [ids_of(int(mask)) for mask in ledger_of(session).free] == [[2]]
    assert session.malformed == []


@pytest.mark.parametrize("newer", ["device-1", "device-10", "device-2"])
def test_of_two_copies_of_one_report_the_newer_counts(newer: str) -> None:
    copies = {kind: devices([1], 5) for kind in ("device-1", "device-10", "device-2")} | {newer: devices([2], 6)}
    maps = [aggregate(kind, {"mindx-dl-deviceinfo-n": copy}) for kind, copy in copies.items()]
    assert free_on(World(npu_node("n"), *maps)) == [[2]]


@pytest.mark.parametrize("other", ["text", {"UpdateTime": "late"}])
def test_a_copy_without_a_time_is_the_oldest(other: Any) -> None:
    maps = [aggregate("device-0", {"mindx-dl-deviceinfo-n": devices([2])})]
    maps.append(aggregate("device-1", {"mindx-dl-deviceinfo-n": other}))
    assert free_on(World(npu_node("n"), *maps)) == [[2]]


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"mindx-dl-deviceinfo-n": ', "\ud800"])
def test_a_malformed_config_map_is_ignored_with_a_warning(text: str) -> None:
    world = World(npu_node("n"), device_info("n", [1]), aggregate("device-0", text), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {"j-0": "n"}
    where = "ConfigMap cluster-info-device-0 data[cluster-info-device-0]: "
    found = [each.removeprefix(where) for each in world.malformed if each.startswith(where)]
    assert found
    if text.startswith("{"):
        assert "(line 1, column" in found[0]


@pytest.mark.parametrize("entry", [7, None, [], {}, {"DeviceList": 7}, {"DeviceList": {ASCEND_910: 7}}, "text"])
def test_a_malformed_copy_of_one_node_does_not_affect_the_others(entry: Any) -> None:
    reports = {"mindx-dl-deviceinfo-a": entry, "mindx-dl-deviceinfo-b": devices([2])}
    world = World(npu_node("a"), npu_node("b"), device_info("a", [1]), aggregate("device-0", reports))
    session = world.session(CONFIGURATION)
    assert [ids_of(int(mask)) for mask in ledger_of(session).free] == [[1], [2]]
    assert "data[cluster-info-device-0][mindx-dl-deviceinfo-a]" in session.malformed[0].field


def test_of_a_config_map_that_changed_only_the_changed_nodes_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {f"mindx-dl-deviceinfo-n{i}": devices([i]) for i in range(8)}
    world = World(*(npu_node(f"n{i}") for i in range(8)), aggregate("device-0", nodes))
    assert free_on(world) == [[i] for i in range(8)]
    parsed: list[str] = []

    def parse(text: str) -> DeviceInfo:
        parsed.append(text)
        return device_info_of(text)

    monkeypatch.setattr("scheduler.plugins.ascend.device_lists.device_info", parse)

    feed(world.cluster.cache, aggregate("device-0", {**nodes, "mindx-dl-deviceinfo-n3": devices([7])}))

    assert free_on(world) == [[0], [1], [2], [7], [4], [5], [6], [7]]
    assert len(parsed) == 1


def test_the_scheduler_watches_the_config_maps_of_noded_and_clusterd() -> None:
    assert cache_requirements_of(CONFIGURATION, {}).labelled_config_maps == {
        ("mindx-dl", "mx-consumer-cim=true"),
        ("mindx-dl", "mx-consumer-volcano=true"),
        ("", "reset=true"),
    }
    assert not cache_requirements_of(configuration(["priority", "gang"]), {}).labelled_config_maps
