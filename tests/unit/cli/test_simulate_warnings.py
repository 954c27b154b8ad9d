"""The section ``Warnings`` of ``simulate``."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import main
from scheduler.cli.simulate_warnings import FieldWarning, warning_lines
from tests.builders import Raw, node, pod
from tests.unit.plugins.capacity_card.cards import GPU, H200, card_group, card_pod, gang, gpu_node, quota_queue

CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity-card}]
"""
MISSING = f"metadata.labels[{GPU}.product]: missing, so the model of the node's cards is not known; "


class Files:
    """Manifests and the configuration of capacity-card, as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.conf = folder / "scheduler.conf"
        self.conf.write_text(CONF)

    def write(self, name: str, *objects: Raw | list[Raw]) -> str:
        path = self._folder / name
        flat = [each for part in objects for each in (part if isinstance(part, list) else [part])]
        path.write_text(yaml.safe_dump_all(flat))
        return str(path)

    def simulate(self, *arguments: str) -> str:
        arguments = ("simulate", "--scheduler-conf", str(self.conf), *arguments)
        result = CliRunner().invoke(main, arguments, env={"COLUMNS": "400"})
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def rows(output: str) -> dict[str, str]:
    """Object -> Warning, of the section."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("Warnings")), len(lines))
    found = {}
    for line in lines[start + 2 :]:
        if not line:
            break
        about, _, text = line.partition("  ")
        found[about] = text.strip()
    return found


def bare(name: str) -> Raw:
    """A node with GPUs that does not say which."""
    return node(name, f"64c+64Gi+{GPU}=8")


def running(on: str) -> list[Raw]:
    return [card_group("old", "q", 1, phase="Running"), card_pod("old-0", "old", on=on)]


def test_a_node_without_the_label_of_its_cards_is_named_in_the_table(files: Files) -> None:
    path = files.write("c.yaml", bare("a"), quota_queue("q", {H200: 1}), gang("job", "q", 1))
    found = rows(files.simulate("-f", path))
    assert list(found) == ["Node a"] and found["Node a"].startswith(MISSING)


def test_nodes_with_the_same_warning_are_one_row(files: Files) -> None:
    nodes = [bare(f"n{i}") for i in range(30)]
    path = files.write("c.yaml", nodes, quota_queue("q", {H200: 1}), gang("job", "q", 1))
    assert list(rows(files.simulate("-f", path))) == ["Node n0 and 29 more"]


def test_a_label_that_goes_while_pods_run_is_a_warning_of_the_change(files: Files) -> None:
    path = files.write("c.yaml", gpu_node("a"), quota_queue("q", {H200: 2}), running("a"))
    assert rows(files.simulate("-f", path)) == {}
    change = files.write("change.yaml", bare("a"))
    output = files.simulate("-f", path, "--what-if", change)
    found = rows(output)
    assert list(found) == ["Node a"] and found["Node a"].startswith(MISSING)


def test_a_warning_from_before_a_change_is_not_shown_again(files: Files) -> None:
    path = files.write("c.yaml", bare("a"), quota_queue("q", {H200: 1}), gang("job", "q", 1))
    change = files.write("change.yaml", gpu_node("b"))
    assert rows(files.simulate("-f", path, "--what-if", change)) == {}


def test_mistakes_that_standard_error_names_are_not_repeated(files: Files) -> None:
    npu = node("n1", "8c+8Gi")
    npu["metadata"]["annotations"] = {"baseDeviceInfos": '{"Ascend910-0": {'}
    path = files.write("c.yaml", npu, gpu_node("g"), pod("p", "1c+nvidia.com/gpuu=1"))
    assert rows(files.simulate("-f", path)) == {}


def test_fields_of_other_objects_that_were_set_aside_are_shown(files: Files) -> None:
    bad = pod("p", "1c", annotations={"volcano.sh/task-priority": "high"})
    output = files.simulate("-f", files.write("c.yaml", node("n", "8c+8Gi"), bad))
    assert list(rows(output)) == ["Pod default/p"]
    assert output.endswith(" cycles\n")


def test_twenty_rows_are_shown_and_the_others_counted() -> None:
    lines = list(warning_lines((FieldWarning(f"Node n{i}", f"field: problem {i}; ignored") for i in range(25)), ()))
    assert len(lines) == 1 + 1 + 20 + 1
    assert (lines[0], lines[-1]) == ("Warnings (25)", "... and 5 more")
