"""The free chips of a node: precedence of sources, chips held by Pods, and malformed sources."""

import json
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from scheduler.api.names import ASCEND_910, ASCEND_REAL, BASE_DEVICE_INFOS
from scheduler.plugins.ascend.masks import ids_of
from tests.builders import Raw, World, feed, pod
from tests.unit.plugins.ascend.chips import (
    CONFIGURATION,
    config_map,
    device_info,
    job,
    ledger_of,
    names,
    npu_node,
    npu_pod,
)

ALL = list(range(8))


def holder(name: str, chips: int, ids: list[int], on: str = "n", **rest: Any) -> Raw:
    return npu_pod(name, chips, on=on, annotations={ASCEND_910: names(ids)}, **rest)


class Reading(NamedTuple):
    free: list[int]
    problems: list[str]
    capacity: int


def read(world: World) -> Reading:
    """Returns the chips that the plugin reads for the only node when a session opens."""
    session = world.session(CONFIGURATION)
    ledger = ledger_of(session)
    problems = [f"{m.kind} {m.name} {m.field}: {m.problem}" for m in session.malformed]
    return Reading(ids_of(int(ledger.free[0])), problems, int(ledger.capacity[0]))


def free_on(world: World) -> list[int]:
    return read(world).free


# --- sources ---
def test_the_config_map_is_read_first() -> None:
    world = World(npu_node("n", annotations={ASCEND_910: names([0])}), device_info("n", [1, 2, 5]))
    assert free_on(world) == [1, 2, 5]


def test_an_aggregated_config_map_is_read_as_well() -> None:
    assert free_on(World(npu_node("n"), device_info("n", [3], wrapped=False))) == [3]


def test_without_a_config_map_the_annotation_of_the_node_is_read() -> None:
    assert free_on(World(npu_node("n", annotations={ASCEND_910: names([0, 7])}))) == [0, 7]


def test_without_lists_the_allocatable_number_counts() -> None:
    assert free_on(World(npu_node("n"))) == ALL
    world = World(npu_node("n", 6), holder("held", 2, [6, 7]))
    assert free_on(world) == [0, 1, 2, 3]


@pytest.mark.parametrize("chips", [0, 9, 16, 2**60])
def test_a_node_without_chips_or_with_more_than_eight_is_not_of_the_family(chips: int) -> None:
    world = World(npu_node("n", chips), device_info("n", ALL), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {}


def test_a_node_may_have_sixty_four_chips() -> None:
    assert free_on(World(npu_node("n", 64), device_info("n", [0, 31, 63]))) == [0, 31, 63]
    assert free_on(World(npu_node("n", 65))) == list(range(64))


def test_a_node_labelled_as_another_family_is_not_of_the_family() -> None:
    for kind, bound in (("module-910b-8", {}), ("module", {"j-0": "n"})):
        node = npu_node("n", labels={"accelerator-type": kind})
        assert World(node, device_info("n", ALL), job("j", 1)).run(CONFIGURATION).bound == bound


# --- what is taken off ---
def test_unhealthy_and_recovering_chips_are_not_free_and_reduce_the_capacity() -> None:
    world = World(npu_node("n"), device_info("n", ALL, Unhealthy=[1], Recovering=[6]))
    assert read(world) == ([0, 2, 3, 4, 5, 7], [], 6)


def test_the_capacity_is_no_more_than_what_is_allocatable() -> None:
    assert read(World(npu_node("n", 7), device_info("n", [0, 1, 2]))).capacity == 7


def test_a_list_that_lags_a_binding_is_corrected_by_the_pods() -> None:
    assert free_on(World(npu_node("n"), device_info("n", ALL), holder("fresh", 2, [0, 1]))) == [2, 3, 4, 5, 6, 7]


def test_chips_of_a_terminating_pod_are_not_free() -> None:
    world = World(npu_node("n"), device_info("n", ALL), holder("leaving", 4, [0, 1, 2, 3], deleting=True))
    assert free_on(world) == [4, 5, 6, 7]


def test_chips_of_a_finished_pod_are_free() -> None:
    gone = npu_pod("gone", 4, on="n", phase="Succeeded", annotations={ASCEND_910: names([0, 1, 2, 3])})
    assert free_on(World(npu_node("n"), device_info("n", ALL), gone)) == ALL


def test_mounted_and_assigned_chips_are_both_not_free() -> None:
    both = npu_pod("p", 2, on="n", annotations={ASCEND_910: names([0, 1]), ASCEND_REAL: names([4, 5])})
    assert free_on(World(npu_node("n"), device_info("n", ALL), both)) == [2, 3, 6, 7]


def test_a_virtual_device_holds_its_chip() -> None:
    virtual = pod("v", f"{ASCEND_910}-2c=1", on="n", annotations={ASCEND_REAL: "Ascend910-2c-100-3"})
    assert free_on(World(npu_node("n"), virtual)) == [0, 1, 2, 4, 5, 6, 7]


def test_a_pod_of_another_family_is_ignored() -> None:
    other = pod("o", "huawei.com/Ascend310P=1", on="n", annotations={ASCEND_REAL: "Ascend310P-3"})
    assert read(World(npu_node("n"), other)) == (ALL, [], 8)


# --- Pods that do not say which chips they hold ---
def test_without_lists_unnamed_chips_are_assumed_to_be_the_highest_ids() -> None:
    assert free_on(World(npu_node("n"), npu_pod("p", 3, on="n"))) == [0, 1, 2, 3, 4]


def test_a_node_that_lists_more_chips_than_are_idle_is_closed() -> None:
    world = World(npu_node("n"), device_info("n", ALL), npu_pod("p", 3, on="n"), job("j", 1))
    assert free_on(world) == []
    assert "1 node(s) listed more free chips than were idle" in world.run(CONFIGURATION).message_of("j-0")


def test_unnamed_chips_that_the_list_accounts_for_are_not_subtracted_again() -> None:
    assert free_on(World(npu_node("n"), device_info("n", [0, 1, 2, 6, 7]), npu_pod("p", 3, on="n"))) == [0, 1, 2, 6, 7]


def test_a_pod_that_lists_fewer_chips_than_its_request_takes_unnamed_ones_too() -> None:
    assert free_on(World(npu_node("n"), holder("p", 4, [0, 1]))) == [2, 3, 4, 5]


# --- malformed ---
@pytest.mark.parametrize(
    ("info", "problem"),
    [
        (config_map("n", "{"), "data[DeviceInfoCfg]: not JSON"),
        (config_map("n", '{"DeviceInfo":[]}'), "data[DeviceInfoCfg]: has no object DeviceList"),
        (config_map("n", '{"DeviceList":{}}'), "data[DeviceInfoCfg]: lists no huawei.com/Ascend910"),
    ],
)
def test_a_malformed_config_map_is_ignored_for_the_next_source(info: Raw, problem: str) -> None:
    world = World(npu_node("n", annotations={ASCEND_910: names([2])}), info)
    free, problems, _ = read(world)
    assert free == [2]
    assert len(problems) == 1
    assert problems[0].startswith("ConfigMap mindx-dl-deviceinfo-n ")
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (7, "a comma-separated list is wanted, not int"),
        ("Ascend910-0, Ascend910-1", "' Ascend910-1'"),
        ("Ascend910-0,Ascend910-0", "is listed twice"),
        ("Ascend910--5", "is not a chip's name"),
        ("Ascend910-64", "the chips are numbered 0 to 63"),
    ],
)
def test_a_malformed_list_of_free_chips_counts_as_empty(listed: Any, problem: str) -> None:
    world = World(npu_node("n", annotations={ASCEND_910: names([2])}), device_info("n", listed))
    free, problems, _ = read(world)
    assert free == []
    assert len(problems) == 1
    assert problems[0].startswith("ConfigMap mindx-dl-deviceinfo-n data[DeviceInfoCfg][huawei.com/Ascend910]: ")
    assert problem in problems[0]


def test_a_config_map_without_the_key_is_ignored() -> None:
    info = config_map("n", "")
    del info["data"]
    free, problems, _ = read(World(npu_node("n"), info))
    assert free == ALL
    assert "data[DeviceInfoCfg]: is missing or empty" in problems[0]


def test_a_malformed_annotation_of_a_node_counts_as_an_empty_list() -> None:
    free, problems, _ = read(World(npu_node("n", annotations={ASCEND_910: "all of them"})))
    assert free == []
    assert problems == [
        "Node n metadata.annotations[huawei.com/Ascend910]: 'all of them' is not a chip's name, Ascend910-<number> is"
    ]


# --- lists that the scheduler maintains itself ---
NAMED = json.dumps({f"Ascend910-{i}": {"IP": "10.0.0.1"} for i in range(8)} | {"Ascend310-1": {}})


def test_where_the_node_names_its_chips_all_that_no_pod_holds_are_free() -> None:
    node = npu_node("n", annotations={BASE_DEVICE_INFOS: NAMED})
    world = World(node, device_info("n", [5], Unhealthy=[7], Recovering=[6]), holder("p", 2, [0, 1]))
    assert free_on(world) == [2, 3, 4, 5]


def test_the_list_of_a_device_plugin_that_annotates_its_node_counts() -> None:
    """The device plugin is one of those before 2021: it publishes no ConfigMap."""
    assert free_on(World(npu_node("n", annotations={BASE_DEVICE_INFOS: NAMED, ASCEND_910: names([4, 5])}))) == [4, 5]


def test_by_configuration_the_list_of_the_device_plugin_counts() -> None:
    node = npu_node("n", annotations={BASE_DEVICE_INFOS: NAMED})
    world = World(node, device_info("n", [4, 5]), holder("p", 2, [0, 1]))
    reported = replace(CONFIGURATION, action_arguments={"init-params": {"self-maintain-available-card": "false"}})
    assert ids_of(int(ledger_of(world.session(reported)).free[0])) == [4, 5]


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_where_chips_are_divided_or_shared_the_list_of_the_device_plugin_counts(where: str) -> None:
    more: Raw = {"Ascend910-2c-100-0": {}} if where == "annotations" else {}
    named = json.dumps(json.loads(NAMED) | more)
    labels = {"huawei.com/scheduler.chip1softsharedev.enable": "true"} if where == "labels" else {}
    node = npu_node("n", annotations={BASE_DEVICE_INFOS: named}, labels=labels)
    assert free_on(World(node, device_info("n", [4, 5]))) == [4, 5]


@pytest.mark.parametrize("text", [None, "{", '{"DeviceList":{}}', '{"DeviceList":{"huawei.com/Ascend310":""}}'])
def test_a_node_that_names_its_chips_but_has_no_list_gets_no_npu_pod(text: str | None) -> None:
    node = npu_node("n", annotations={BASE_DEVICE_INFOS: NAMED})
    world = World(node, [] if text is None else config_map("n", text), job("j", 1)).run(CONFIGURATION)
    assert world.bound == {}
    assert "1 node(s) had no list of free chips that can be read" in world.message_of("j-0")
    assert len(world.malformed) == (text is not None)


@pytest.mark.parametrize("published", [0, 1, 4_000_000_000])
def test_the_age_of_a_report_does_not_matter(published: int) -> None:
    old = json.dumps({"DeviceList": {ASCEND_910: names([3])}, "UpdateTime": published})
    assert free_on(World(npu_node("n"), config_map("n", old))) == [3]


def test_malformed_names_of_chips_are_reported_and_the_list_counts() -> None:
    node = npu_node("n", annotations={BASE_DEVICE_INFOS: "["})
    free, problems, _ = read(World(node, device_info("n", [4, 5])))
    assert free == [4, 5]
    assert problems[0].startswith("Node n metadata.annotations[baseDeviceInfos]: not JSON")


def test_a_malformed_list_of_unhealthy_chips_does_not_affect_the_other_lists() -> None:
    world = World(npu_node("n"), device_info("n", [0, 1], Unhealthy="broken", NetworkUnhealthy=[1], Recovering=None))
    free, problems, _ = read(world)
    assert free == [0, 1]
    assert [p.split(":")[0] for p in problems] == [
        "ConfigMap mindx-dl-deviceinfo-n data[DeviceInfoCfg][huawei.com/Ascend910-Unhealthy]",
        "ConfigMap mindx-dl-deviceinfo-n data[DeviceInfoCfg][huawei.com/Ascend910-Recovering]",
    ]


@pytest.mark.parametrize("kind", ["Unhealthy", "Recovering"])
def test_the_valid_names_of_a_malformed_list_of_unhealthy_chips_count(kind: str) -> None:
    lists: dict[str, Any] = {kind: "Ascend910-1, Ascend910-2,Ascend910-2,7,"}
    world = World(npu_node("n"), device_info("n", ALL, **lists))
    free, problems, _ = read(world)
    assert free == [0, 3, 4, 5, 6, 7]
    assert problems[0].startswith(f"ConfigMap mindx-dl-deviceinfo-n data[DeviceInfoCfg][huawei.com/Ascend910-{kind}]: ")


@pytest.mark.parametrize("text", ["Ascend910-64", "Ascend910-1,Ascend910-1", "0,1", "Ascend910-0 ", "x" * 5000])
def test_a_malformed_list_of_a_pod_counts_as_no_list(text: str) -> None:
    world = World(npu_node("n"), npu_pod("p", 2, on="n", annotations={ASCEND_910: text}))
    free, problems, _ = read(world)
    assert free == [0, 1, 2, 3, 4, 5]
    assert problems[0].startswith("Pod p metadata.annotations[huawei.com/Ascend910]: ")


def test_with_a_malformed_list_of_mounted_chips_the_assigned_ones_count() -> None:
    both = npu_pod("p", 2, on="n", annotations={ASCEND_910: names([0, 1]), ASCEND_REAL: "Ascend910-?"})
    free, problems, _ = read(World(npu_node("n"), both))
    assert free == [2, 3, 4, 5, 6, 7]
    assert problems[0].startswith("Pod p metadata.annotations[huawei.com/AscendReal]: ")


def test_a_problem_is_reported_once_while_nothing_changes() -> None:
    world = World(npu_node("n"), config_map("n", "{")).run(CONFIGURATION, 3)
    assert len(world.events("Malformed")) == 1


def test_a_problem_reported_in_one_cluster_is_reported_in_another() -> None:
    for _ in range(2):
        assert len(read(World(npu_node("n"), config_map("n", "{"))).problems) == 1


def test_a_change_of_the_pods_on_a_node_takes_effect() -> None:
    world = World(npu_node("n"), device_info("n", ALL))
    assert free_on(world) == ALL
    feed(world.cluster.cache, holder("p", 1, [0]))
    assert free_on(world) == [1, 2, 3, 4, 5, 6, 7]


def test_a_change_of_the_config_map_takes_effect() -> None:
    world = World(npu_node("n"), device_info("n", ALL))
    assert free_on(world) == ALL
    feed(world.cluster.cache, device_info("n", [3]))
    assert free_on(world) == [3]
