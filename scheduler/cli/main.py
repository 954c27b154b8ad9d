"""``volcano-py``: the entry point of all roles and tools.

A sub-command is imported when it is called, so that it does not load the libraries of others.
"""

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from scheduler import __version__
from scheduler.cli.process import run_process

Lazy = tuple[str, str, str]
"""Module, name of the command in it, and the line that help and completion show."""


class LazyGroup(click.Group):
    """A group that imports its commands when they are called. ``lazy``: the commands by name."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, attribute, _ = self._lazy[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # it suggests names of commands that are imported
            raise click.NoSuchCommand(error.command_name, possibilities=self._lazy, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name][2]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._lazy[name][2]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)


_COMMANDS: dict[str, Lazy] = {
    "can-run": ("scheduler.cli.can_run", "can_run_command", "Answer whether a job would run if submitted now."),
    "completion": ("scheduler.cli.completion", "completion_command", "Print a shell's completion script."),
    "controllers": ("scheduler.cli.controllers", "controllers_command", "Run the controllers of a cluster."),
    "explain": ("scheduler.cli.explain", "explain_command", "Explain why a job waits, and what would help."),
    "job": ("scheduler.cli.job", "job_group", "Run, watch and stop vcjobs."),
    "jobflow": ("scheduler.cli.flow", "jobflow_group", "Create, show and delete JobFlows."),
    "jobtemplate": ("scheduler.cli.flow", "jobtemplate_group", "Create, show and delete JobTemplates."),
    "node": ("scheduler.cli.node", "node_group", "Show the chips of nodes."),
    "playground": ("scheduler.cli.playground", "playground_group", "Run simulated NPU nodes, and break them."),
    "pod": ("scheduler.cli.pod", "pod_group", "Show the Pods of vcjobs."),
    "podgroup": ("scheduler.cli.podgroup", "podgroup_group", "Show PodGroups."),
    "queue": ("scheduler.cli.queue", "queue_group", "Create, show, open and close queues."),
    "replay": ("scheduler.cli.replay", "replay_command", "Replay the sessions that a scheduler recorded."),
    "scheduler": ("scheduler.cli.scheduler", "scheduler_command", "Schedule the Pods of a cluster."),
    "simulate": ("scheduler.cli.simulate", "simulate_command", "Run the scheduler over manifests."),
    "version": ("scheduler.cli.version", "version_command", "Print the version of the program."),
    "webhooks": ("scheduler.cli.webhooks", "webhooks_command", "Validate and default objects of a cluster."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="volcano-py")
def main() -> None:
    """A batch scheduler for AI clusters on Kubernetes that speaks Volcano's API groups."""


def volcano_py() -> None:
    """The entry point of the program ``volcano-py``."""
    run_process(main)


def kubectl_vc() -> None:
    """The entry point of the kubectl plugin, which kubectl finds by the file name ``kubectl-vc``."""
    run_process(partial(main, prog_name="kubectl vc"))


if __name__ == "__main__":
    volcano_py()
