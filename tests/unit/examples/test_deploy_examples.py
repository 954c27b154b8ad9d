"""Every file of ``deploy/examples`` runs on the nodes of the default playground; the files about cards also
need GPUs."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import main
from tests.unit.plugins.capacity_card.cards import H200, gpu_node

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "deploy" / "examples").glob("*.yaml"))
NEED_CARDS = {"alternatives", "cards"}
NEED_ACCELERATORS = {"acjob", "alternatives", "cards", "scaling-rule"}
"""The examples that cannot run on a cluster of kind."""
PODLESS = {"command", "cronjob", "hypernodes"}
"""The examples that create no Pods at once."""


def printed(*command: str) -> str:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    return result.stdout


def pods(tmp_path: Path, family: str, *files: Path, cards: bool) -> dict[str, str]:
    """Maps each Pod to its phase, after a simulation of files on simulated NPU nodes of a family and two nodes with
    GPUs."""
    nodes = tmp_path / "nodes.yaml"
    gpus = [gpu_node(f"gpu-{i}", H200) for i in range(2)]
    nodes.write_text(printed("playground", "nodes", *(["--family", family] if family else [])), encoding="utf-8")
    (tmp_path / "gpus.yaml").write_text(yaml.safe_dump_all(gpus), encoding="utf-8")
    given = [option for file in (nodes, tmp_path / "gpus.yaml", *files) for option in ("-f", str(file))]
    conf = ["--scheduler-conf", str(ROOT / "examples" / "scheduler.conf")] if cards else []
    objects = json.loads(printed("simulate", *given, *conf, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["status"]["phase"] for each in objects if each["kind"] == "Pod"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_runs_on_the_default_playground(file: Path, tmp_path: Path) -> None:
    found = pods(tmp_path, "", file, cards=file.stem in NEED_CARDS)
    assert set(found.values()) == (set() if file.stem in PODLESS else {"Running"}), found


def test_the_ascend_examples_run_on_a_playground_of_their_servers(tmp_path: Path) -> None:
    examples = ROOT / "examples"
    files = [examples / name for name in ("10-queues.yaml", "30-ascend-gang.yaml", "31-ascend-small.yaml")]
    found = pods(tmp_path, "910-8", *files, cards=True)
    waiting = {name for name, phase in found.items() if phase == "Pending"}
    assert waiting == {"mistaken-0"}  # it asks for three chips, which no Pod may
    assert len(found) > len(waiting)


def test_the_script_for_kind_knows_the_result_of_each_example() -> None:
    text = (ROOT / "deploy" / "kind" / "test.sh").read_text(encoding="utf-8")
    cases = text.partition("  case $1 in\n")[2].partition("  *)")[0]
    labels = [line.partition(")")[0] for line in cases.splitlines() if re.match(r"  \w[\w |]*\)", line)]
    known = {name.strip() for label in labels for name in label.split("|")}
    assert known == {file.stem for file in FILES} - NEED_ACCELERATORS
