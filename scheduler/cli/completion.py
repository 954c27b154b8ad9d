"""Completion: scripts for shells, kubectl's protocol, and names of objects of the cluster."""

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from scheduler.cli.errors import CommandError

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_VOLCANO_PY_COMPLETE"
_PROGRAMS: Final = {
    "volcano-py": ("scheduler.cli.main", "main"),
    "vcctl": ("scheduler.cli.vcctl.main", "vcctl"),
}
"""Module and name of the command of each program."""
_NO_FILES, _FILES = ":4", ":0"
"""Directives of kubectl's protocol: whether the shell completes file names as well."""
_COMPLETED: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")
"""Names that are safe on a command line: a shell interprets many other characters."""
_SECONDS = 1.0
"""Time limit of a completion."""
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option(
    "--program",
    type=click.Choice([*_PROGRAMS]),
    default="volcano-py",
    show_default=True,
    help="The program to complete.",
)
def completion_command(shell: str, program: str) -> None:
    """Print a shell's completion script.

    For bash: source <(volcano-py completion bash)
    """
    module, name = _PROGRAMS[program]
    script = get_completion_class(shell)
    if script is not None:
        command: click.Command = getattr(importlib.import_module(module), name)
        variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
        click.echo(script(command, {}, program, variable).source())


def kubectl_complete_vc() -> None:
    """The program ``kubectl_complete-vc``, which kubectl calls with the words of the line to complete."""
    from scheduler.cli.main import main

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "kubectl vc", _VARIABLE).get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help or ''}".rstrip())
    click.echo(_FILES if any(item.type != "plain" for item in found) else _NO_FILES)


def names_of(*kinds: str) -> Complete:
    """Returns a completion of names of objects; ``kinds``: names of constants of ``scheduler.api.kinds``.

    It returns nothing and prints nothing when there is no cluster, no answer in time, or no right to list.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            names = _names(kinds, ctx)
            return [CompletionItem(n) for n in names if n.startswith(incomplete) and _COMPLETED.fullmatch(n)]
        except (Exception, click.exceptions.Exit):  # a message would garble the line that is being typed
            return []

    return complete


def _names(constants: Sequence[str], ctx: click.Context) -> list[str]:
    import asyncio

    from scheduler.api import kinds
    from scheduler.cli.connection import Cluster, Connection
    from scheduler.cluster.kube.transport.sources import WatchSource

    given = {name: ctx.params.get(name) for name in Connection.__dataclass_fields__}
    connection = Connection(**{name: value for name, value in given.items() if value})

    async def ask(cluster: Cluster) -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(_SECONDS):
            for wanted in (getattr(kinds, each) for each in constants):
                with suppress(CommandError):  # its resource may not be defined
                    raws = await cluster.fetch(WatchSource(wanted, cluster.scope if wanted.namespaced else ""))
                    found += (str(raw["metadata"]["name"]) for raw in raws)
        return found

    return connection.run(ask, timeout=_SECONDS)
