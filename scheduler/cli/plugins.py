"""Loads plugins and actions: built in, from entry points of installed packages, and from ``--plugins-dir``."""

import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.text import echo

BAD_PLUGIN: Final = 2


def load_plugins(directory: Path | None = None) -> None:
    """Registers all plugins and actions. Exits with code 2 when one cannot be loaded."""
    import scheduler.actions
    import scheduler.plugins  # noqa: F401  both register their content
    from scheduler.framework.loading import LoadingError, load_directory, load_installed

    try:
        load_installed()
        skipped = load_directory(directory) if directory is not None else []
    except LoadingError as error:
        echo(f"error: {error}", err=True)
        sys.exit(BAD_PLUGIN)
    for name in skipped:
        echo(f"warning: {directory}/{name} is not a Python file and is skipped", err=True)


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--plugins-dir`` to a command, and loads all plugins before it is called."""

    @wraps(command)
    def called(load: Callable[[], None], **given: Any) -> None:
        load()
        command(**given)

    return plugins_option(called)


def plugins_option(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--plugins-dir`` to a command, whose parameter ``load`` is a function that loads all plugins."""

    @wraps(command)
    def called(plugins_dir: str, **given: Any) -> None:
        command(load=partial(load_plugins, Path(plugins_dir) if plugins_dir else None), **given)

    return click.option(
        "--plugins-dir",
        default="",
        show_default="none",
        metavar="DIR",
        help="Directory of Python files with more plugins.",
    )(called)
