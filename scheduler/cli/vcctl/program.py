"""Command lines in the syntax of cobra, the Go library of Volcano's programs, which are read with click.

Flags may stand anywhere, also before a sub-command. ``-N=x`` means ``-N x``, and ``--all_namespaces`` means
``--all-namespaces``. Arguments that are no flags are ignored. A group without a sub-command prints its help. A command
that fails prints its message on standard output and ends with exit code 255; an invalid flag ends it with 1.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import click

from scheduler.cli.errors import CommandError
from scheduler.cli.main import LazyGroup
from scheduler.cli.process import run_process
from scheduler.cli.text import echo

_FAILED: Final = 255
_INVALID: Final = 1
_HELP_FLAGS: Final = ("-h", "--help")
HELP: Final = {"help_option_names": list(_HELP_FLAGS)}
"""Settings of a program's context."""
_BOOLEAN: Final = ("--all-namespaces",)


class Program(click.Command):
    """A program of one command."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The entry point of the process."""
        run_process(partial(self.main, *args, **options))

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, complete_var: str | None = None,
        standalone_mode: bool = True, **extra: Any,
    ) -> Any:  # fmt: skip
        """Runs the program and exits. ``args``: by default those of the process."""
        given = sys.argv[1:] if args is None else args
        try:
            code = super().main(arranged(self, given), prog_name or self.name, complete_var, False, **extra)
        except CommandError as error:
            for line in _failure(error).split("\n"):
                echo(line)
            code = _FAILED
        except click.ClickException as error:
            if isinstance(error, click.UsageError) and error.ctx is not None:
                echo(error.ctx.get_usage(), err=True)
            echo(f"Error: {error.format_message()}", err=True)
            code = _INVALID
        sys.exit(code if isinstance(code, int) else 0)


class ProgramGroup(Program, LazyGroup):
    """A program of several commands."""


def _failure(error: CommandError) -> str:
    """The message of a failed command: ``Failed to list job: ...``."""
    return f"{' '.join(('Failed to', *reversed(error.command)))}: {error.answer or error.message}"


def arranged(command: click.Command, words: Sequence[str]) -> list[str]:
    """Returns a command line in the order and syntax of click: the sub-commands, then the flags."""
    names: list[str] = []
    flags: list[str] = []
    found = command
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            break
        if word.startswith("-") and word != "-":
            flags += _flag(word, remaining)
        elif isinstance(found, click.Group):
            below = found.get_command(click.Context(found), word)
            if below is not None:
                names.append(word)
                found = below
            elif found is command and word != "help":
                return [word]  # click refuses it, and names similar commands
    if isinstance(found, click.Group) or _asks_for_help(words):
        flags.insert(0, _HELP_FLAGS[0])
    return [*names, *flags]


def _asks_for_help(words: Sequence[str]) -> bool:
    return next((word for word in words if not word.startswith("-")), "") == "help"


def _flag(word: str, remaining: Iterator[str]) -> list[str]:
    """Returns a flag with its value, which may be the next word."""
    flag, equals, value = word.partition("=")
    long = flag.startswith("--")
    if long:
        flag = flag.replace("_", "-")
    if flag in _HELP_FLAGS:
        return [flag]
    if flag in _BOOLEAN:
        return [f"{flag}={value or 'true'}"]
    if long and equals:
        return [f"{flag}={value}"]
    if len(flag) == 2 and equals:
        return [flag, value or "="]  # as pflag reads ``-N=``
    if long or len(flag) == 2:
        return [flag, *([following] if (following := next(remaining, None)) is not None else [])]
    return [word]
