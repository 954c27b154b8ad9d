"""Plugins outside of the program: they are found and used like built-in plugins, or refused with place and reason."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from scheduler.framework import loading
from scheduler.framework.loading import LoadingError, load_directory, load_installed
from tests.builders import World, configuration, group, node, pod

TALLEST = '''
import numpy as np

from scheduler.framework.columns import MaskFilter
from scheduler.framework.registry import register_plugin


@register_plugin
class {name}:
    """Pods run on nodes whose names end so alone."""

    name = "{registered}"

    def __init__(self, arguments):
        self._ending = str(arguments.get("ending", "2"))

    def open(self, session):
        good = np.array([name.endswith(self._ending) for name in session.nodes.names])
        session.add_filter(lambda cls: [MaskFilter(good, "node(s) had another ending")])
'''


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    """Removes the plugins that a test loads, after the test."""
    yield
    for name in [name for name in sys.modules if name.startswith("volcano_py_plugins_dir")]:
        del sys.modules[name]


def write(directory: Path, file: str, name: str = "Ending", registered: str = "ending") -> None:
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TALLEST.format(name=name, registered=registered))


def bound(arguments: dict[str, str] | None = None) -> dict[str, str]:
    plan = configuration(["gang", "ending"], ["predicates"], arguments={"ending": arguments or {}})
    return World(node("n1"), node("n2"), node("n3"), group("g"), pod("p", "1c", "g")).run(plan).bound


def test_a_plugin_of_a_directory_decides_as_built_in_ones_do(tmp_path: Path) -> None:
    write(tmp_path, "ending.py")
    assert load_directory(tmp_path) == []
    assert bound() == {"p": "n2"} and bound({"ending": "3"}) == {"p": "n3"}


def test_the_tests_beside_a_plugin_are_not_loaded(tmp_path: Path) -> None:
    write(tmp_path, "ending.py")
    for name in ("test_ending.py", "conftest.py"):
        (tmp_path / name).write_text("import ending\n")
    assert load_directory(tmp_path) == []
    assert bound() == {"p": "n2"}


def test_a_package_of_a_directory_is_loaded_too(tmp_path: Path) -> None:
    write(tmp_path, "ending/__init__.py")
    load_directory(tmp_path)
    assert bound() == {"p": "n2"}


def test_a_plugin_of_an_installed_package_decides_as_built_in_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "some_package.py")
    source = (tmp_path / "some_package.py").read_text().replace("@register_plugin\n", "")
    (tmp_path / "some_package.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    offered = EntryPoints([EntryPoint("ending", "some_package:Ending", loading.PLUGINS)])
    monkeypatch.setattr(loading, "entry_points", lambda: offered)
    load_installed()
    assert bound() == {"p": "n2"}


def test_an_entry_point_that_leads_nowhere_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = EntryPoints([EntryPoint("lost", "no_such_package:Lost", loading.PLUGINS)])
    monkeypatch.setattr(loading, "entry_points", lambda: offered)
    with pytest.raises(LoadingError, match=r"entry point lost of volcano_py.plugins: ModuleNotFoundError"):
        load_installed()


def test_a_file_that_does_not_run_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def at_import():\n    1 / 0\n\n\nat_import()\n")
    with pytest.raises(LoadingError, match=r"broken\.py:2: ZeroDivisionError"):
        load_directory(tmp_path)


def test_a_file_with_a_syntax_error_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("\n\nx = = 1\n")
    with pytest.raises(LoadingError, match=r"broken\.py:3: SyntaxError"):
        load_directory(tmp_path)


def test_two_directories_may_not_have_files_of_one_name(tmp_path: Path) -> None:
    write(tmp_path / "a", "ending.py")
    write(tmp_path / "b", "ending.py")
    load_directory(tmp_path / "a")
    load_directory(tmp_path / "a")
    with pytest.raises(
        LoadingError, match=r"b/ending\.py: ImportError: .*a/ending\.py of another directory has the same"
    ):
        load_directory(tmp_path / "b")


def test_the_name_of_a_built_in_plugin_cannot_be_taken(tmp_path: Path) -> None:
    write(tmp_path, "gang.py", registered="gang")
    with pytest.raises(LoadingError, match=r"there is a plugin called 'gang' already: Gang in .*plugins/gang\.py"):
        load_directory(tmp_path)


def test_what_is_no_python_file_is_passed_over_and_named(tmp_path: Path) -> None:
    (tmp_path / "magic.so").write_bytes(b"\x7fELF")
    (tmp_path / ".hidden").touch()
    (tmp_path / "_private.py").touch()
    assert load_directory(tmp_path) == ["magic.so"]


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadingError, match="not a directory"):
        load_directory(tmp_path / "nowhere")
