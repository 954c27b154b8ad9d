"""``volcano-py completion``: scripts for shells, and what kubectl asks a plugin for while a line is typed."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "volcano-py"
_VARIABLE = "_VOLCANO_PY_COMPLETE"
_NO_FILES, _FILES = ":4", ":0"
"""The directives of kubectl's protocol: whether names of files come into question as well."""


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion_command(shell: str) -> None:
    """Print a shell's completion script.

    For bash: source <(volcano-py completion bash)
    """
    from scheduler.cli.main import main

    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(main, {}, _PROGRAM, _VARIABLE).source())


def kubectl_complete_vc() -> None:
    """Answers kubectl, which asks a plugin's ``kubectl_complete-vc`` with the words of the line."""
    from scheduler.cli.main import main

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "kubectl vc", _VARIABLE).get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help or ''}".rstrip())
    click.echo(_FILES if any(item.type != "plain" for item in found) else _NO_FILES)
