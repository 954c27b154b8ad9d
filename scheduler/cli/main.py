"""``volcano-py``: the one entry point of all roles and tools. Sub-commands are loaded when they are called."""

import click

from scheduler import __version__
from scheduler.cli.lazy import Lazy, LazyGroup

_COMMANDS: dict[str, Lazy] = {
    "completion": ("scheduler.cli.completion", "completion_command", "Print a shell's completion script."),
    "controllers": ("scheduler.cli.controllers", "controllers_command", "Run the controllers of a cluster."),
    "explain": ("scheduler.cli.explain", "explain_command", "Explain why something waits, and what would help."),
    "job": ("scheduler.cli.job", "job_group", "Run, watch and stop vcjobs."),
    "jobflow": ("scheduler.cli.flow", "jobflow_group", "Create, show and delete JobFlows."),
    "jobtemplate": ("scheduler.cli.flow", "jobtemplate_group", "Create, show and delete JobTemplates."),
    "pod": ("scheduler.cli.pod", "pod_group", "Show the Pods of vcjobs."),
    "queue": ("scheduler.cli.queue", "queue_group", "Create, show, open and close queues."),
    "replay": ("scheduler.cli.replay", "replay_command", "Decide again what a scheduler recorded."),
    "scheduler": ("scheduler.cli.scheduler", "scheduler_command", "Schedule the Pods of a cluster."),
    "simulate": ("scheduler.cli.simulate", "simulate_command", "Run the scheduler over manifests."),
    "webhooks": ("scheduler.cli.webhooks", "webhooks_command", "Admit, default and refuse objects of a cluster."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="volcano-py")
def main() -> None:
    """A batch scheduler for AI clusters on Kubernetes that speaks Volcano's API groups."""


def kubectl_vc() -> None:
    """The same as a plugin of kubectl, which finds it by its file name ``kubectl-vc``."""
    main(prog_name="kubectl vc")


if __name__ == "__main__":
    main()
