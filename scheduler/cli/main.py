"""``volcano-py``: the one entry point of all roles and tools. Sub-commands are loaded when they are called."""

import importlib

import click

from scheduler import __version__

_COMMANDS = {
    "scheduler": ("scheduler.cli.scheduler", "scheduler_command"),
    "simulate": ("scheduler.cli.simulate", "simulate_command"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use, so that none pays for the libraries of another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="volcano-py")
def main() -> None:
    """A batch scheduler for AI clusters on Kubernetes that speaks Volcano's API groups."""


if __name__ == "__main__":
    main()
