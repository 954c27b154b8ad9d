"""``queue list``: all queues, with the PodGroups in them."""

import click

from scheduler.cli.connection import Connection
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.queue.table import queue_view


@click.command("list")
@list_flags(namespaced=False)
def list_command(connection: Connection, flags: ListFlags) -> None:
    """List queues."""
    show_list(connection, flags, lambda _: queue_view(lambda _: True, flags.labels))
