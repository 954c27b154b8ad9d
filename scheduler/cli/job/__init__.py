"""``volcano-py job``: vcctl's verbs for vcjobs, progress of gangs, and logs of Pods."""

import click

from scheduler.cli.job.list import list_command
from scheduler.cli.job.logs import logs_command
from scheduler.cli.job.run import run_command
from scheduler.cli.job.stop import delete_command, resume_command, suspend_command
from scheduler.cli.job.top import top_command
from scheduler.cli.job.view import view_command


@click.group("job")
def job_group() -> None:
    """Run, watch and stop vcjobs."""


for _command in (
    delete_command, list_command, logs_command, resume_command, run_command, suspend_command, top_command, view_command
):  # fmt: skip
    job_group.add_command(_command)
