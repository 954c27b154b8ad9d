"""Warnings about what commands read: the section ``Warnings`` of tables, and the field ``warnings`` of documents."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.input_warnings import FieldWarning, WarningLog, warning_lines
from scheduler.cli.main import main
from tests.builders import Raw, group, node, pod, queue
from tests.unit.plugins.capacity_card.cards import GPU, H200, card_group, card_pod, gang, gpu_node, quota_queue

CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity-card}]
"""
MISSING = f"metadata.labels[{GPU}.product]: missing, so the model of the node's cards is not known; "


class Files:
    """Writes manifests and the configuration of capacity-card as files."""

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
    """Maps an object to its Warning in the section."""
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
    assert list(found) == ["Node a", "Queue q"] and found["Node a"].startswith(MISSING)
    assert f"no node has the card {H200!r}" in found["Queue q"]


def test_a_warning_from_before_a_change_is_not_shown_again(files: Files) -> None:
    path = files.write("c.yaml", bare("a"), quota_queue("q", {H200: 1}), gang("job", "q", 1))
    change = files.write("change.yaml", gpu_node("b"))
    assert rows(files.simulate("-f", path, "--what-if", change)) == {}


def test_mistakes_that_standard_error_names_are_not_repeated(files: Files) -> None:
    npu = node("n1", "8c+8Gi")
    npu["metadata"]["annotations"] = {"baseDeviceInfos": '{"Ascend910-0": {'}
    path = files.write("c.yaml", npu, gpu_node("g"), quota_queue("q", {H200: 1}), pod("p", "1c+nvidia.com/gpuu=1"))
    assert rows(files.simulate("-f", path)) == {}


def test_fields_of_other_objects_that_were_set_aside_are_shown(files: Files) -> None:
    bad = pod("p", "1c", annotations={"volcano.sh/task-priority": "high"})
    output = files.simulate("-f", files.write("c.yaml", node("n", "8c+8Gi"), bad))
    assert list(rows(output)) == ["Pod default/p"]
    assert output.endswith(" cycles\n")


def test_problems_of_card_quotas_are_shown_with_their_numbers(files: Files) -> None:
    path = files.write("c.yaml", gpu_node("a", cards=10), quota_queue("p", {H200: 6}), quota_queue("q", {H200: 5}))
    found = rows(files.simulate("-f", path))
    assert list(found) == ["Queue p", "Queue q"]
    assert found["Queue p"].endswith(": 11 granted, 10 existing, 10 healthy; quota of this queue: 6")


def test_twenty_rows_are_shown_and_the_others_counted() -> None:
    found = (FieldWarning("Node", f"n{i}", f"field: problem {i}; ignored") for i in range(25))
    lines = list(warning_lines(WarningLog().unnamed(found)))
    assert len(lines) == 1 + 1 + 20 + 1
    assert (lines[0], lines[-1]) == ("Warnings (25)", "... and 5 more")


# --- every command and every output ---
MISTAKES = (
    "document 2: Queue wrong: spec.wieght: unknown field is ignored; did you mean 'weight'?",
    "document 3: Pod default/other: spec.schedulerName: 'vulcano-py' is not a name of this scheduler (volcano-py); did "
    "you mean 'volcano-py'?",
    "document 4: Pod default/waits: spec.containers[0].resources.requests[nvidia.com/gpuu]: no node has this resource; "
    "did you mean 'nvidia.com/gpu'?",
    "document 4: Pod default/waits: metadata.annotations[volcano.sh/card.request]: not JSON: expecting value (line 1, "
    "column 12); the text ends there",
    "document 5: unknown kind Jobb of batch.volcano.sh/v1alpha1 is carried through; did you mean Job of "
    "batch.volcano.sh/v1alpha1?",
)
SET_ASIDE = "Pod default/waits: metadata.annotations[volcano.sh/task-priority]: "
"""The beginning of a warning that only the scheduler finds."""
COMMANDS = {
    "simulate": ("simulate",),
    "simulate --chips": ("simulate", "--chips"),
    "simulate --what-if": ("simulate", "--what-if", "CHANGE"),
    "explain pod": ("explain", "pod", "waits"),
    "explain podgroup": ("explain", "podgroup", "g"),
    "explain pod --no-changes": ("explain", "pod", "waits", "--no-changes"),
    "node chips": ("node", "chips"),
    "node chips NODE": ("node", "chips", "n1"),
}


def mistaken(files: Files) -> str:
    """A cluster with one mistake of each kind."""
    wrong = queue("wrong", wieght=2)
    annotations = {"volcano.sh/card.request": '{"NVIDIA": ', "volcano.sh/task-priority": "high"}
    unknown = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Jobb", "metadata": {"name": "j"}}
    return files.write(
        "mistakes.yaml",
        node("n1", "8c+8Gi+nvidia.com/gpu=8"),
        wrong,
        pod("other", "1c", scheduler="vulcano-py"),
        pod("waits", "1c+nvidia.com/gpuu=1", "g", annotations=annotations),
        unknown,
        group("g"),
    )


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_output_of_every_command_has_the_mistakes_of_its_input(command: str, output: str, files: Files) -> None:
    path = mistaken(files)
    change = files.write("change.yaml", pod("new", "1c", annotations={"volcano.sh/task-priority": "low"}))
    arguments = [change if each == "CHANGE" else each for each in COMMANDS[command]]
    result = CliRunner().invoke(main, [*arguments, "-f", path, "-o", output], env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    for mistake in MISTAKES:
        assert f"warning: {path}, {mistake}\n" in result.stderr
    of_run = SET_ASIDE.replace("waits", "new") if "--what-if" in command else SET_ASIDE
    if output == "table":
        title, _, text = of_run.partition(": ")
        assert rows(result.stdout)[title].startswith(text), result.stdout
        return
    document = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    for mistake in MISTAKES:
        assert f"{path}, {mistake}" in document["warnings"]
    assert [each for each in document["warnings"] if each.startswith(of_run)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_without_mistakes_has_no_warnings(command: str, files: Files) -> None:
    path = files.write("c.yaml", node("n1", "8c+8Gi"), group("g"), pod("waits", "9c", "g"))
    change = files.write("change.yaml", pod("new", "1c"))
    arguments = [change if each == "CHANGE" else each for each in COMMANDS[command]]
    result = CliRunner().invoke(main, [*arguments, "-f", path, "-o", "json"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "warnings" not in json.loads(result.stdout)


def test_a_list_with_warnings_can_be_simulated_again(files: Files) -> None:
    result = CliRunner().invoke(main, ["simulate", "-f", mistaken(files), "-o", "json"])
    again = files.write("again.json", json.loads(result.stdout))
    assert CliRunner().invoke(main, ["simulate", "-f", again]).exit_code == 0


def test_wrong_arguments_of_the_configuration_are_in_documents(files: Files) -> None:
    files.conf.write_text(CONF.replace("{name: gang}", "{name: gang}, {name: binpack, arguments: {binpack.weight: x}}"))
    path = files.write("c.yaml", node("n1", "8c+8Gi"), pod("waits", "9c"))
    for command in (["simulate"], ["simulate", "--chips"], ["explain", "pod", "waits"]):
        arguments = [*command, "-f", path, "--scheduler-conf", str(files.conf), "-o", "json"]
        (warning,) = json.loads(CliRunner().invoke(main, arguments).stdout)["warnings"]
        assert "binpack.weight" in warning
