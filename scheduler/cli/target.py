"""The flags and arguments that name the API server and the object of a command."""

import functools
from collections.abc import Callable
from typing import Any

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import Decorator, options_as


def connection_options(*, namespaced: bool = False, all_namespaces: bool = False) -> Decorator:
    """Adds the flags of a connection to a command, whose function takes the parameter ``connection``.

    ``namespaced``: adds ``-n``; ``all_namespaces``: adds ``-A``.
    """
    options: list[Decorator] = [
        click.option(
            "-k", "--kubeconfig", metavar="FILE", type=click.Path(), default="", help="Credentials for the API server."
        ),
        click.option("-s", "--master", metavar="URL", default="", help="Address of the API server."),
        click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig."),
    ]
    if namespaced:
        complete = names_of("NAMESPACE")
        text = "Namespace; by default the context's."
        options.append(click.option("-n", "--namespace", default="", help=text, shell_complete=complete))
    if all_namespaces:
        options.append(click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."))
    return options_as("connection", Connection, *options)


def name_argument(
    kind: str | tuple[str, ...], *flags: str, missing: str | None, default: str = "", multiple: bool = False
) -> Decorator:
    """Adds the argument ``[NAME]``, and flags with its meaning, to a command.

    The function takes the parameter ``name`` (with ``multiple``: ``names``). ``kind``: the name of a constant of
    ``scheduler.api.kinds``, or several, for completion; ``missing``: the error when no name is given, or None if it
    is no error.
    """
    complete = names_of(*((kind,) if isinstance(kind, str) else kind))

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.argument("argument", metavar="[NAME]...", nargs=-1, shell_complete=complete)
        @click.option(*flags, "flag", metavar="NAME", help="The same as the argument.", shell_complete=complete)
        @functools.wraps(function)
        def called(argument: tuple[str, ...], flag: str | None, **given: Any) -> None:
            names = dict.fromkeys([*argument, *([flag] if flag else [])]) or dict.fromkeys([default] if default else [])
            if not names and missing is not None:
                raise CommandError(missing)
            if multiple:
                function(names=tuple(names), **given)
            elif len(names) > 1:
                raise click.UsageError(f"one name expected, got {', '.join(names)}")
            else:
                function(name=next(iter(names), ""), **given)

        return called

    return decorate
