"""The program ``vcctl``."""

import click

from scheduler.cli.main import Lazy
from scheduler.cli.vcctl.program import HELP, ProgramGroup

_COMMANDS: dict[str, Lazy] = {
    "job": ("scheduler.cli.vcctl.job", "job_group", "Run, show and stop vcjobs."),
    "jobflow": ("scheduler.cli.vcctl.flow", "jobflow_group", "Create, show and delete JobFlows."),
    "jobtemplate": ("scheduler.cli.vcctl.flow", "jobtemplate_group", "Create, show and delete JobTemplates."),
    "pod": ("scheduler.cli.vcctl.pod", "pod_group", "Show the Pods of vcjobs."),
    "queue": ("scheduler.cli.vcctl.queue", "queue_group", "Create, show, open and close queues."),
    "version": ("scheduler.cli.vcctl.version", "version_command", "Print the version of the program."),
}


@click.group("vcctl", cls=ProgramGroup, lazy=_COMMANDS, context_settings=HELP)
def vcctl() -> None:
    """Volcano's command line, for scripts that were written for it."""


if __name__ == "__main__":
    vcctl()
