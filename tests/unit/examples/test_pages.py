"""What the pages show is so: the plugin works, commands print that, links lead somewhere, the configuration is the
built-in one."""

import re
from pathlib import Path

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
    """As links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("page", "beginning", "command", "width"),
    [
        ("README.md", "Bound (13)\n", "simulate", 120),
        ("docs/cli.md", "PodGroup weather/reanalysis: waits\n", "explain podgroup reanalysis -n weather", 200),
    ],
)
def test_a_command_prints_what_is_shown_of_the_examples(
    page: str, beginning: str, command: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
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


def test_the_configuration_shown_is_the_built_in_one() -> None:
    shown = [yaml.safe_load(block) for block in blocks("README.md", "yaml") if block.startswith("actions:")]
    assert shown == [yaml.safe_load(DEFAULT_CONFIGURATION)]


def test_the_manifests_shown_are_yaml() -> None:
    for block in blocks("README.md", "yaml"):
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    for target, heading in links:
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not heading or heading in headings(other), f"{target}#{heading}"
