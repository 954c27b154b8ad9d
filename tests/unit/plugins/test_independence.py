"""Plugins share code only through scheduler.plugins.support."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import plugins

ROOT = Path(plugins.__file__).parent


def files_of(plugin: str) -> list[Path]:
    folder = ROOT / plugin
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{plugin}.py"]


def imported_plugins(file: Path) -> Iterator[str]:
    for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            if statement.module == "scheduler.plugins":
                yield from (alias.name for alias in statement.names)
            elif statement.module.startswith("scheduler.plugins."):
                yield statement.module.split(".")[2]


PLUGINS = sorted(imported_plugins(ROOT / "__init__.py"))


def test_the_folder_of_plugins_contains_plugins_and_their_support_package() -> None:
    entries = {entry.stem for entry in ROOT.iterdir() if entry.stem != "__pycache__"}
    assert entries == {"__init__", "support", *PLUGINS}


@pytest.mark.parametrize("plugin", [*PLUGINS, "support"])
def test_a_plugin_imports_no_other_plugin(plugin: str) -> None:
    found = {name for file in files_of(plugin) for name in imported_plugins(file)}
    assert found <= {plugin, "support"}
