"""``volcano-py queue``: vcctl's verbs for queues. As in vcctl, ``-n`` is the name of the queue."""

import click

from scheduler.cli.queue.change import create_command, delete_command, operate_command
from scheduler.cli.queue.show import get_command, list_command
from scheduler.cli.queue.top import top_command


@click.group("queue")
def queue_group() -> None:
    """Create, show, open and close queues."""


for _command in (create_command, delete_command, get_command, list_command, operate_command, top_command):
    queue_group.add_command(_command)
