"""Loads plugins and actions that are not built in: from installed packages, and from a directory of files.

A package names its classes as entry points of the groups ``volcano_py.plugins`` and ``volcano_py.actions``. A directory
holds Python files that register their classes when they are imported. If one cannot be loaded, the program does not
start: without it, the configuration would mean something else.
"""

import importlib.util
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final

from scheduler.framework import registry

PLUGINS: Final = "volcano_py.plugins"
ACTIONS: Final = "volcano_py.actions"
_PREFIX: Final = "volcano_py_plugins_dir"
"""The package under which the modules of a directory are imported."""


class LoadingError(Exception):
    """A plugin cannot be loaded. The message says which one and why."""


def load_installed() -> None:
    """Registers the plugins and actions of installed packages. Raises LoadingError."""
    installed = entry_points()  # reads a file of every installed package
    for group, register in ((PLUGINS, registry.register_plugin), (ACTIONS, registry.register_action)):
        for entry in sorted(installed.select(group=group), key=lambda entry: entry.name):
            where = f"entry point {entry.name} of {group}"
            try:
                found = entry.load()
                register(found)
            except Exception as error:  # a plugin may raise anything
                raise LoadingError(f"{where}: {_words(error)}") from error


def load_directory(directory: Path) -> list[str]:
    """Imports every Python file and package of a directory, in the order of their names, except tests (``test_*.py``,
    ``conftest.py``). Returns the names of other files. Raises LoadingError."""
    if not directory.is_dir():
        raise LoadingError(f"{directory}: not a directory")
    skipped = []
    for path in sorted(directory.iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if path.name.startswith((".", "_", "test_")) or path.name == "conftest.py":
            continue
        if source.suffix != ".py" or not source.is_file():
            skipped.append(path.name)
            continue
        try:
            _import(source, f"{_PREFIX}.{path.stem}")
        except Exception as error:  # a plugin may raise anything
            raise LoadingError(f"{source}{_line_of(error, source)}: {_words(error)}") from error
    return skipped


def _import(source: Path, name: str) -> None:
    if name in sys.modules:
        known = sys.modules[name].__file__
        if known != str(source):
            raise ImportError(f"{known} of another directory has the same name")
        return
    sys.modules.setdefault(_PREFIX, ModuleType(_PREFIX))
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {source}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _line_of(error: BaseException, source: Path) -> str:
    """Returns the last line of a file in the traceback of an exception, as ``:7``, or ""."""
    if isinstance(error, SyntaxError) and error.filename == str(source):
        return f":{error.lineno}"
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(source)]
    return f":{lines[-1]}" if lines else ""


def _words(error: Exception) -> str:
    """Returns the words of an error, with the line that raised it."""
    *_, place = walk_tb(error.__traceback__)
    frame, line = place
    return f"{type(error).__name__}: {error} (at {frame.f_code.co_filename}:{line})"
