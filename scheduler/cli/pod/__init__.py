"""``volcano-py pod``: the Pods of vcjobs and queues."""

import click

from scheduler.cli.pod.list import list_command


@click.group("pod")
def pod_group() -> None:
    """Show the Pods of vcjobs."""


pod_group.add_command(list_command)
