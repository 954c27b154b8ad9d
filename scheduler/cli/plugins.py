"""Which plugins and actions a command knows: those that come with the program, those that installed packages offer, and
those of ``--plugins-dir``.
"""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.text import echo

BAD_PLUGIN: Final = 2


def load_plugins(directory: Path | None = None) -> None:
    """Make all known to the configuration; exits with code 2 when one cannot be loaded."""
    import scheduler.actions
    import scheduler.plugins  # noqa: F401  both register what they hold
    from scheduler.framework.loading import LoadingError, load_directory, load_installed

    try:
        load_installed()
        passed_over = load_directory(directory) if directory is not None else []
    except LoadingError as error:
        echo(f"error: {error}", err=True)
        sys.exit(BAD_PLUGIN)
    for name in passed_over:
        echo(f"warning: {directory}/{name} is no Python file and is passed over", err=True)


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command ``--plugins-dir``; all plugins are known by the time it is called."""

    @wraps(command)
    def called(plugins_dir: str, **given: Any) -> None:
        load_plugins(Path(plugins_dir) if plugins_dir else None)
        command(**given)

    return click.option(
        "--plugins-dir", default="", show_default="none", metavar="DIR", help="Python files with further plugins."
    )(called)
