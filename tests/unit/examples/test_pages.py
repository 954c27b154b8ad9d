"""The pages are true: the plugin works, commands print the quoted output, links lead somewhere, and the configuration
is the built-in one."""

import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import main
from scheduler.framework import registry
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("page", "beginning", "command", "width"),
    [
        ("README.md", "PodGroup vision/segment: waits\n", "explain podgroup segment -n vision", 0),
        ("docs/cli.md", "Bound (13)\n", "simulate", 120),
        ("docs/cli.md", "PodGroup weather/reanalysis: waits\n", "explain podgroup reanalysis -n weather", 0),
    ],
)
def test_a_command_prints_what_is_shown_of_the_examples(
    page: str, beginning: str, command: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``width``: the width of the terminal; 0: the output goes to a pipe."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("scheduler.cli.output.on_terminal", lambda: width > 0)
    line = [*command.split(), "-f", "examples", "--scheduler-conf", "examples/scheduler.conf"]
    printed = CliRunner(env={"COLUMNS": str(width)}).invoke(main, line).stdout.splitlines()
    (block,) = [text for text in blocks(page, r"\w*") if beginning in text]
    shown = (beginning + block.partition(beginning)[2]).splitlines()
    missing = set(map(str.rstrip, shown)) - set(map(str.rstrip, printed)) - {"..."}
    assert not missing


def test_every_plugin_and_every_action_is_documented() -> None:
    text = read("docs/plugins.md")
    assert set(registry._plugins) <= set(re.findall(r"^## (.*)$", text, re.MULTILINE))
    assert set(registry._actions) <= set(re.findall(r"`([a-z]+)`", text[text.index("\n## Actions\n") :]))


def test_every_plugin_is_in_the_contents_of_its_page() -> None:
    contents, _, _ = read("docs/plugins.md").partition("\n## ")
    missing = {name for name in registry._plugins if f"[{name}](#{name})" not in contents}
    assert not missing


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    context, found = click.Context(group), []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found += commands(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


ROLES = {"controllers", "scheduler", "webhooks"}  # processes of the cluster: install.md


@pytest.mark.parametrize("path", [path for path in commands(main) if path[0] not in ROLES], ids=" ".join)
def test_every_command_has_a_section_with_an_entry_in_the_contents(path: tuple[str, ...]) -> None:
    """The section of the command, or of its group if the group is not divided into sections."""
    page = read("docs/cli.md")
    titles = re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    divided = any(re.search(rf"\b{path[0]} \w", title) for title in titles if " and " not in title)
    title = next((t for t in titles if re.search(rf"\b{' '.join(path if divided else path[:1])}\b", t)), None)
    assert title is not None
    link = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    assert f"](#{link})" in page.partition("\n## ")[0]


def test_the_configuration_shown_is_the_built_in_one() -> None:
    shown = [yaml.safe_load(block) for block in blocks("docs/configuration.md", "yaml") if block.startswith("actions:")]
    assert shown == [yaml.safe_load(DEFAULT_CONFIGURATION)]


@pytest.mark.parametrize("page", ["README.md", "docs/ascend.md", "docs/cards.md", "docs/configuration.md"])
def test_the_manifests_shown_are_yaml(page: str) -> None:
    assert blocks(page, "yaml")
    for block in blocks(page, "yaml"):
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    for target, heading in links:
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not heading or heading in headings(other), f"{target}#{heading}"


def test_the_job_of_the_readme_runs(tmp_path: Path) -> None:
    (manifest,) = blocks("README.md", "yaml")
    (tmp_path / "train.yaml").write_text(manifest, encoding="utf-8")
    line = ["simulate", "-f", str(tmp_path), "-f", str(ROOT / "examples" / "00-nodes.yaml")]
    assert "Bound (3)" in CliRunner().invoke(main, line).stdout


def test_the_readme_has_at_most_1000_words() -> None:
    assert len(read("README.md").split()) <= 1000


def test_the_ci_runs_the_test_command_of_the_readme() -> None:
    two = [line.split("#")[0].strip() for line in blocks("README.md", "console")[0].splitlines()]
    assert two == ["$ make run", "$ make test"]
    assert "make test" in read(".ci/run").splitlines()


def test_the_figures_of_the_readme_are_those_of_the_page_on_performance() -> None:
    _, _, performance = read("README.md").partition("\n## Performance\n")
    table = [line.split("|")[2:-1] for line in performance.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    figures = {figure for row in table for cell in row for figure in re.split(r", (?=\d+ )", cell.strip())}
    rows = {cell.strip() for line in read("docs/performance.md").splitlines() for cell in line.split("|")}
    assert len(figures) > 10
    assert figures - rows <= {"kube-scheduler", "volcano-py"}


def test_every_document_is_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([^)#:]+)\)", read("docs/README.md")))
    documents = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert documents - listed == set()


EXAMPLES = {"scheduler/plugins/node_label.py", "tests/unit/plugins/test_node_label.py"}
"""The files that readers of a guide create."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # it is about the past, too
    folders = "benchmarks|charts|controlplane|deploy|docs|examples|scheduler|tests"
    named = set(re.findall(rf"`((?:{folders})/[\w./-]+)`", page.read_text(encoding="utf-8")))
    missing = {name for name in named - EXAMPLES if not (ROOT / name).exists()}
    assert not missing
