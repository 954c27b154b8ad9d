"""The state of each chip, as ``node chips`` and ``simulate --chips`` show it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.api.names import ASCEND_910
from scheduler.cli.main import main
from tests.builders import Raw, node
from tests.unit.plugins.ascend.chips import device_info, job, names, npu_node, npu_pod


def shown(tmp_path: Path, objects: list[Any], *command: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Node -> (state, Pods) of each chip, as JSON shows them."""
    flat: list[Raw] = [each for part in objects for each in (part if isinstance(part, list) else [part])]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(flat), encoding="utf-8")
    line = [*command, "-f", str(path), "-o", "json"]
    result = CliRunner().invoke(main, line, prog_name="volcano-py")
    assert result.exit_code == 0, (result.output, result.exception)
    return {
        each["node"]: [(chip["state"], chip["pods"]) for chip in each["chips"]]
        for each in json.loads(result.stdout)["nodes"]
    }


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


def test_chips_of_a_terminating_pod_are_promised_to_one_that_waits(tmp_path: Path) -> None:
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


def test_a_wide_table_has_a_line_for_each_chip(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([npu_node("n"), device_info("n", list(range(8)))]), encoding="utf-8")
    for form, lines in (([], 1), (["-o", "wide"], 8)):
        result = CliRunner().invoke(main, ["node", "chips", "-f", str(path), *form])
        assert len(result.stdout.splitlines()) == lines + 1
