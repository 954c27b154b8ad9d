"""What the README shows is so: its plugin works, its links lead somewhere, its configuration is the built-in one."""

import re
from pathlib import Path

import pytest
import yaml

from scheduler.framework import registry
from scheduler.framework.configuration import DEFAULT_CONFIGURATION
from tests.builders import World, configuration, group, node, pod

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_plugin_prefers_the_cheaper_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    (source,) = blocks("python")
    exec(compile(source, "price.py", "exec"), {"__name__": "price"})
    world = World(
        node("a", labels={"example.com/price": "9"}),
        node("b", labels={"example.com/price": "4"}),
        node("c", labels={"example.com/price": "5"}),
        group("g"),
        pod("p", "1c", "g"),
    ).run(configuration(("gang", "price")))
    assert world.bound == {"p": "b"}


def test_the_configuration_shown_is_the_built_in_one() -> None:
    shown = [yaml.safe_load(block) for block in blocks("yaml") if block.startswith("actions:")]
    assert shown == [yaml.safe_load(DEFAULT_CONFIGURATION)]


def test_the_manifests_shown_are_yaml() -> None:
    for block in blocks("yaml"):
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
