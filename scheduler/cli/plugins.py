"""Loads plugins and actions: built in, from entry points of installed packages, and from ``--plugins-dir``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.errors import CommandError
from scheduler.cli.text import echo

BAD_PLUGIN: Final = 2


def load_plugins(*directories: Path) -> None:
    """Registers all plugins and actions. Exits with code 2 when one cannot be loaded."""
    import scheduler.actions
    import scheduler.plugins  # noqa: F401  both register their content
    from scheduler.framework.loading import LoadingError, load_directory, load_installed

    try:
        load_installed()
        skipped = [directory / name for directory in directories for name in load_directory(directory)]
    except LoadingError as error:
        echo(f"error: {error}", err=True)
        sys.exit(BAD_PLUGIN)
    for path in skipped:
        echo(f"warning: {path} is not a Python file and is skipped", err=True)


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Raises a PluginError of the block as a CommandError: one line with the plugin, the extension point, the object,
    and the place in the code."""
    try:
        yield
    except Exception as error:
        from scheduler.framework.failures import PluginError

        if not isinstance(error, PluginError):
            raise
        raise CommandError(f"{error}{_place_of(error.__cause__)}") from error


def _place_of(error: BaseException | None) -> str:
    """The file and the line that raised an exception: the last that is not part of this program, if there is one."""
    from traceback import walk_tb

    from scheduler.framework.failures import AnswerError

    if error is None or isinstance(error, AnswerError):  # the function returned: its message names it
        return ""
    places = list(walk_tb(error.__traceback__))
    others = [place for place in places if not str(place[0].f_globals.get("__name__")).startswith("scheduler.")]
    return "".join(f" (at {frame.f_code.co_filename}:{line})" for frame, line in (others or places)[-1:])


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--plugins-dir`` to a command, and loads all plugins before it is called."""

    @wraps(command)
    def called(load: Callable[[], None], **given: Any) -> None:
        load()
        command(**given)

    return plugins_option(called)


def plugins_option(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--plugins-dir`` to a command, whose parameter ``load`` is a function that loads all plugins. An exception
    of a plugin ends the command with a message."""

    @wraps(command)
    def called(plugins_dirs: tuple[str, ...], **given: Any) -> None:
        with plugin_errors():
            command(load=partial(load_plugins, *map(Path, plugins_dirs)), **given)

    return click.option(
        "--plugins-dir",
        "plugins_dirs",
        multiple=True,
        metavar="DIR",
        help="Directory of Python files with more plugins. Repeatable.",
    )(called)
