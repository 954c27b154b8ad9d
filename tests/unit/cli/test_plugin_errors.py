"""Commands that run plugins: an exception of a plugin ends them with one line."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from click.testing import CliRunner

from scheduler.api.task import TaskClass
from scheduler.cli.main import main
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Filter
from scheduler.framework.plugin_session import PluginSession
from tests.builders import group, node, pod

CONFIGURATION = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: raising\n'
COMMANDS = {
    "simulate": ["simulate"],
    "simulate -o json": ["simulate", "-o", "json"],
    "explain": ["explain", "pod", "p"],
    "node chips": ["node", "chips"],
    "queue top": ["queue", "top"],
}


class Raising:
    """A plugin whose function at one extension point raises."""

    name: ClassVar[str] = "raising"
    at: ClassVar[str] = ""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> None:
        def raising(cls: TaskClass) -> Any:
            raise KeyError("prices")

        if self.at == "filter":
            session.add_filter(raising)
        elif self.at == "score":
            session.add_score(raising)
        else:
            raise KeyError("prices")


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in COMMANDS.items()])
@pytest.mark.parametrize(
    "at, expected",
    [
        ("filter", "plugin raising: Filter (about Pod default/p, job default/g): KeyError: 'prices'"),
        ("score", "plugin raising: Score (about Pod default/p, job default/g): KeyError: 'prices'"),
        ("open", "plugin raising: open: KeyError: 'prices'"),
    ],
)
def test_an_exception_of_a_plugin_ends_the_command_with_one_line(
    words: list[str], at: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._plugins, Raising.name, Raising)
    monkeypatch.setattr(Raising, "at", at)
    configuration, manifests = tmp_path / "scheduler.conf", tmp_path / "cluster.yaml"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    objects = [node("n1"), node("n2"), group("g"), pod("p", "1c", "g")]
    manifests.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    result = CliRunner().invoke(main, [*words, "-f", str(manifests), "--scheduler-conf", str(configuration)])
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1
    assert result.stdout == ""
    command = " ".join(word for word in words if word in ("simulate", "explain", "node", "chips", "queue", "top"))
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Failed to {command}: {expected} (at {__file__}:")


class Asking:
    """A plugin that reads a label of Pods without requiring it."""

    name: ClassVar[str] = "raising"

    def open(self, session: PluginSession) -> None:
        session.add_filter(self._filters)

    def _filters(self, cls: TaskClass) -> list[Filter]:
        assert cls.labels.get("team") == "blue"
        return []


@pytest.mark.parametrize("words", [pytest.param(COMMANDS[name], id=name) for name in ("simulate", "explain")])
def test_a_label_that_a_plugin_reads_and_does_not_require_is_an_error(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._plugins, Asking.name, Asking)
    configuration, manifests = tmp_path / "scheduler.conf", tmp_path / "cluster.yaml"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    objects = [node("n1"), group("g"), pod("p", "1c", "g", labels={"team": "blue"})]
    manifests.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    result = CliRunner().invoke(main, [*words, "-f", str(manifests), "--scheduler-conf", str(configuration)])
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1
    problem = (
        "LookupError: Pods of this class have team, but no plugin names it in pod_labels of its cache_requirements"
    )
    (line,) = result.stderr.splitlines()
    place = f"(at {__file__}:{Asking._filters.__code__.co_firstlineno + 1})"
    assert line == (
        f"Failed to {words[0]}: plugin raising: Filter (about Pod default/p, job default/g): {problem} {place}"
    )


def test_a_wrong_answer_of_a_lambda_names_its_line_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = lambda queue, job, cls: 0.5  # noqa: E731
    plugin = type("Half", (), {"name": "raising", "open": lambda self, session: session.add_allocatable(half)})
    monkeypatch.setitem(registry._plugins, "raising", plugin)
    configuration, manifests = tmp_path / "scheduler.conf", tmp_path / "cluster.yaml"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    manifests.write_text(yaml.safe_dump_all([node("n1"), group("g"), pod("p", "1c", "g")]), encoding="utf-8")
    result = CliRunner().invoke(main, ["simulate", "-f", str(manifests), "--scheduler-conf", str(configuration)])
    (line,) = result.stderr.splitlines()
    assert line.endswith(f".<lambda> ({__file__}:{half.__code__.co_firstlineno}) returned 0.5, not a whole number")


def test_plugins_of_several_directories_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    words, names = ["simulate", "-f", str(tmp_path / "cluster.yaml")], ("one-more", "another")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n1")]), encoding="utf-8")
    for name in names:
        (tmp_path / name).mkdir()
        stem = name.replace("-", "_")
        (tmp_path / name / f"{stem}.py").write_text(
            f"from scheduler.framework.registry import register_plugin\n\n\n@register_plugin\nclass P:\n"
            f"    name = '{name}'\n\n    def __init__(self, arguments): pass\n\n    def open(self, session): pass\n",
            encoding="utf-8",
        )
        words += ["--plugins-dir", str(tmp_path / name)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert all(registry.plugin(name) for name in names)
