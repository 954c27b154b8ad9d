"""The state of each chip, as ``node chips`` and ``simulate --chips`` show it."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910
from scheduler.cli.main import main
from tests.builders import Raw, group, node, pod
from tests.unit.plugins.ascend.chips import config_map, device_info, job, names, npu_node, npu_pod
from tests.unit.plugins.ascend.sharing.shares import shared_node, sharer, sharing

RING = {"ring-controller.atlas": "ascend-310P"}


def shown(tmp_path: Path, objects: list[Any], *command: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Maps each node to the (state, Pods) of each chip, as in JSON."""
    document = json.loads(printed(tmp_path, objects, *command, "-o", "json"))
    return {each["node"]: [(chip["state"], chip["pods"]) for chip in each["chips"]] for each in document["nodes"]}


def cluster() -> list[Any]:
    info = device_info("n", [1, 2, 3, 4], Unhealthy=[5], Recovering=[6], NetworkUnhealthy=[4])
    held = npu_pod("held", 1, on="n", annotations={ASCEND_910: names([0])})
    return [npu_node("n"), npu_node("m", annotations={ASCEND_910: ""}), node("plain"), info, held, job("new", 2)]


@pytest.mark.parametrize("which", [[], ["n"]])
def test_the_command_shows_who_holds_and_who_gets_each_chip(which: list[str], tmp_path: Path) -> None:
    found = shown(tmp_path, cluster(), "node", "chips", *which)

    assert found["n"] == [
        ("Used", ["default/held"]),
        ("Binding", ["default/new-0"]),
        ("Binding", ["default/new-0"]),
        ("Free", []),
        ("NetworkUnhealthy", []),
        ("Unhealthy", []),
        ("Recovering", []),
        ("Unknown", []),
    ]
    assert set(found) == ({"n"} if which else {"m", "n"})


def test_a_simulation_shows_the_chips_after_the_last_session(tmp_path: Path) -> None:
    found = shown(tmp_path, cluster(), "simulate", "--chips")

    assert found["n"][:3] == [("Used", ["default/held"]), *[("Used", ["default/new-0"])] * 2]


def test_chips_of_a_terminating_pod_are_reserved_for_one_that_waits(tmp_path: Path) -> None:
    leaving = npu_pod("leaving", 8, on="n", annotations={ASCEND_910: names(range(8))})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving["metadata"]["finalizers"] = ["example.com/wait"]

    found = shown(tmp_path, [npu_node("n"), device_info("n", []), leaving, job("next", 4)], "node", "chips")

    assert found["n"] == [
        *[("Pipelined", ["default/leaving", "default/next-0"])] * 4,
        *[("Terminating", ["default/leaving"])] * 4,
    ]


def test_an_unknown_node_is_an_error_and_a_cluster_without_chips_is_not(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(node("plain")), encoding="utf-8")
    for line, code, text in ((["none"], 1, "node none not found"), ([], 0, "No resources found")):
        result = CliRunner().invoke(main, ["node", "chips", *line, "-f", str(path)])
        assert (result.exit_code, text in result.stderr) == (code, True), result.output


def printed(tmp_path: Path, objects: list[Any], *command: str) -> str:
    flat: list[Raw] = [each for part in objects for each in (part if isinstance(part, list) else [part])]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(flat), encoding="utf-8")
    result = CliRunner().invoke(main, [*command, "-f", str(path)], prog_name="volcano-py")
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def grid(tmp_path: Path, *objects: Any, command: tuple[str, ...] = ("node", "chips")) -> list[str]:
    """The lines of the grid without the age of reports."""
    lines = printed(tmp_path, list(objects), *command).splitlines()
    return [re.sub(r"(/[0-9]+ +)[0-9][0-9a-z]* ", r"\1- ", line) for line in lines]


def test_the_grid_has_a_row_for_each_node_and_a_gap_between_rings(tmp_path: Path) -> None:
    assert [line.split() for line in grid(tmp_path, *cluster())[:4]] == [
        ["huawei.com/Ascend910,", "by", "HCCS", "ring"],
        ["Node", "Free", "Report", *"01234567", "Pods"],
        ["m", "0/8", "-", *"????????"],
        ["n", "2/8", "-", "a", "b+", "b+", ".", "~", "!", "^", "?", "a", "default/held", "b", "default/new-0"],
    ]


def test_of_one_node_the_chips_are_listed_too(tmp_path: Path) -> None:
    lines = grid(tmp_path, *cluster(), command=("node", "chips", "n"))
    assert lines[1].startswith("Node  Free")
    assert [line.split()[2:] for line in lines[lines.index("") + 3 :]] == [
        ["Chips", "Number", "State", "Pods"],
        ["0", "1", "Used", "default/held"],
        ["1,2", "2", "Binding", "default/new-0"],
        ["3", "1", "Free"],
        ["4", "1", "NetworkUnhealthy"],
        ["5", "1", "Unhealthy"],
        ["6", "1", "Recovering"],
        ["7", "1", "Unknown"],
    ]


def test_the_grid_shows_how_old_the_report_of_a_node_is(tmp_path: Path) -> None:
    hour_ago = int(time.time()) - 3600
    lists = json.dumps({"DeviceList": {ASCEND_910: names([0])}, "UpdateTime": hour_ago})
    assert " 60m " in printed(tmp_path, [npu_node("n"), config_map("n", lists)], "node", "chips")


@pytest.mark.parametrize(
    ("resource", "number", "labels", "title", "second"),
    [
        ("Ascend910", 8, {}, "by HCCS ring", 4),
        ("Ascend910", 8, {ACCELERATOR_TYPE: "module"}, "by HCCS ring", 4),
        ("Ascend910", 8, {ACCELERATOR_TYPE: "module-910b-8"}, "", 0),
        ("Ascend910", 16, {ACCELERATOR_TYPE: "module-910b-16"}, "by half", 8),
        ("Ascend910", 16, {ACCELERATOR_TYPE: "module-a3-16"}, "by card", 2),
        ("Ascend910", 16, {ACCELERATOR_TYPE: "module-a3-16-super-pod"}, "by card", 2),
        ("Ascend910", 16, {}, "", 0),
        ("Ascend910", 8, {ACCELERATOR_TYPE: "unknown"}, "", 0),
        ("Ascend310", 16, {}, "by card", 4),
        ("Ascend310P", 8, {}, "", 0),
        ("Ascend310P", 8, {"infer-card-type": "card-300i-duo"}, "by card", 2),
        ("npu", 8, {}, "", 0),
    ],
)
def test_the_labels_of_a_node_say_how_its_chips_are_grouped(
    resource: str, number: int, labels: dict[str, str], title: str, second: int, tmp_path: Path
) -> None:
    there = node("n", f"4c+huawei.com/{resource}={number}", labels=labels)
    lines = printed(tmp_path, [there], "node", "chips").splitlines()
    assert lines[0] == f"huawei.com/{resource}" + (f", {title}" if title else "")
    assert (f" {second - 1}   {second} " in lines[1]) == bool(second)


def test_a_node_of_which_no_chip_is_allocatable_is_shown(tmp_path: Path) -> None:
    broken = [npu_node("broken", 0), device_info("broken", [], Unhealthy=[0, 1, 2, 3])]
    found = shown(tmp_path, [npu_node("n"), node("plain"), *broken], "node", "chips")
    assert found["broken"] == [("Unhealthy", [])] * 4
    assert list(found) == ["broken", "n"]


def test_parts_of_a_chip_name_the_pods_that_have_them(tmp_path: Path) -> None:
    listed = {"huawei.com/Ascend910-2c": "Ascend910-2c-100-0,Ascend910-2c-101-1,Ascend910-2c-102-2"}
    there = node("n", f"64c+512Gi+huawei.com/Ascend910-2c=3+{ASCEND_910}=8")
    there["metadata"]["annotations"] = listed
    old = pod("old", "1c+huawei.com/Ascend910-2c=1", on="n", annotations={next(iter(listed)): "Ascend910-2c-100-0"})
    new = [group("j", minimum=1), pod("j-0", "1c+huawei.com/Ascend910-2c=1", "j")]
    found = shown(tmp_path, [there, old, new], "node", "chips")
    assert found["n"][:4] == [
        ("Divided", ["default/old"]),
        ("Divided", ["default/j-0"]),
        ("Divided", []),
        ("Free", []),
    ]


@pytest.mark.parametrize("command", [("node", "chips"), ("simulate", "--chips")])
def test_chips_divided_on_demand_name_their_pods(command: tuple[str, ...], tmp_path: Path) -> None:
    labels = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8"}
    labels["node.kubernetes.io/npu.chip.name"] = "310P3"
    there = node("n", "64c+512Gi+huawei.com/npu-core=16+huawei.com/Ascend310P=2", labels=labels)
    held = pod("held", "1c+huawei.com/npu-core=2", on="n", annotations={"huawei.com/npu-core": "0-vir02"})
    new = [group("j", minimum=1), pod("j-0", "1c+huawei.com/npu-core=8", "j", labels=RING)]
    found = shown(tmp_path, [there, held, new], *command)
    assert found["n"] == [("Divided", ["default/held"]), ("Divided", ["default/j-0"])]


def node_info(status: str) -> Raw:
    meta = {"name": "mindx-dl-nodeinfo-n", "namespace": "mindx-dl"}
    text = json.dumps({"NodeInfo": {"NodeStatus": status}})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"NodeInfo": text}}


@pytest.mark.parametrize(
    ("objects", "note", "free"),
    [
        ([device_info("n", list(range(8))), node_info("UnHealthy")], "reported as unhealthy", 0),
        ([device_info("n", list(range(8))), node_info("PreSeparate")], "reported as about to be isolated", 0),
        ([device_info("n", list(range(8))), node_info("SubHealthy")], "sub-healthy", 8),
        ([device_info("n", list(range(8))), npu_pod("p", 2, on="n")], "more free chips are listed than are idle", 0),
        ([], "no list of free chips that can be read", 0),
    ],
)
def test_the_grid_says_what_is_wrong_with_a_node(objects: list[Raw], note: str, free: int, tmp_path: Path) -> None:
    named = json.dumps({f"Ascend910-{i}": {} for i in range(8)})
    there = npu_node("n", annotations={} if objects else {"baseDeviceInfos": named})
    text = printed(tmp_path, [there, *objects], "node", "chips")
    assert f"[{note}]" in text
    (document,) = json.loads(printed(tmp_path, [there, *objects], "node", "chips", "-o", "json"))["nodes"]
    assert document["note"] == note
    assert f"n     {free}/8 " in text


def test_a_wide_table_has_a_line_for_each_chip(tmp_path: Path) -> None:
    objects = [npu_node("n"), device_info("n", list(range(8)))]
    assert len(printed(tmp_path, objects, "node", "chips", "-o", "wide").splitlines()) == 9


def test_a_simulation_prints_the_grid_too(tmp_path: Path) -> None:
    assert "a  b  b  .   ~  !  ^  ?" in printed(tmp_path, cluster(), "simulate", "--chips")


def test_a_chip_with_a_sub_health_fault_is_shown(tmp_path: Path) -> None:
    faults = json.dumps([{"npu_name": "Ascend910-3", "fault_handling": "SubHealthFault"}])
    info = device_info("n", list(range(8)), Fault=faults)
    assert ".  .  .  =   .  .  .  ." in printed(tmp_path, [npu_node("n"), info], "node", "chips")


def test_a_shared_chip_shows_all_of_its_pods(tmp_path: Path) -> None:
    found = shown(
        tmp_path, [*shared_node("n"), sharer("x", "n", 0, 20), sharing("j", 30, number=3)], "simulate", "--chips"
    )
    assert found["n"] == [
        ("Used", ["default/j-0", "default/j-1", "default/x"]),
        ("Used", ["default/j-2"]),
    ]


def test_what_keeps_pods_away_from_a_node_is_shown_beside_its_chips(tmp_path: Path) -> None:
    cordoned, maintained = npu_node("a"), npu_node("b")
    cordoned["spec"]["unschedulable"] = True
    cordoned["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    maintained["spec"]["taints"] = [{"key": "example.com/maintenance", "effect": "NoSchedule"}]

    lines = printed(tmp_path, [cordoned, maintained, npu_node("c")], "node", "chips").splitlines()

    ends = {line.split()[0]: line.partition("[")[2] for line in lines if line[:2] in ("a ", "b ", "c ")}
    assert ends["a"].startswith("cordoned, not ready") and ends["a"].count("not ready") == 1
    assert ends["b"] == "maintenance]"
    assert ends["c"] == ""
