"""How commands are told the object they are about: as an argument, or with the flag that vcctl has for it."""

import functools
from collections.abc import Callable
from typing import Any

import click

from scheduler.cli.complete import names_of
from scheduler.cli.failure import Failed


def named(
    kind: str, *flags: str, missing: str | None, default: str = "", many: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``[NAME]`` and the flags to a command, whose function is given ``name`` (with ``many``: ``names``).

    ``kind``: the name of a constant of ``scheduler.api.kinds``, for completion; ``missing``: what is said when there is
    neither, or None where that is no error.
    """
    complete = names_of(kind)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.argument("argument", metavar="[NAME]...", nargs=-1, shell_complete=complete)
        @click.option(*flags, "flag", metavar="NAME", help="The same as the argument.", shell_complete=complete)
        @functools.wraps(function)
        def called(argument: tuple[str, ...], flag: str | None, **given: Any) -> None:
            names = dict.fromkeys([*argument, *([flag] if flag else [])]) or dict.fromkeys([default] if default else [])
            if not names and missing is not None:
                raise Failed(missing)
            if many:
                function(names=tuple(names), **given)
            elif len(names) > 1:
                raise click.UsageError(f"one name expected, got {', '.join(names)}")
            else:
                function(name=next(iter(names), ""), **given)

        return called

    return decorate
