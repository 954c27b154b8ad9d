"""``volcano-py queue``: vcctl's verbs for queues. ``-n`` names the queue, as there."""

import click

from scheduler.cli.queue.create import create_command
from scheduler.cli.queue.delete import delete_command
from scheduler.cli.queue.get import get_command
from scheduler.cli.queue.list import list_command
from scheduler.cli.queue.operate import operate_command


@click.group("queue")
def queue_group() -> None:
    """Create, show, open and close queues."""


for _command in (create_command, delete_command, get_command, list_command, operate_command):
    queue_group.add_command(_command)
