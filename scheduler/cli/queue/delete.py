"""``queue delete``: whether a queue may go is decided by the admission webhook."""

import click

from scheduler.cli.connection import Connection
from scheduler.cli.deletion import delete_each
from scheduler.cli.target import connected, named


@click.command("delete")
@named("QUEUE", "-n", "--name", missing="queue name must be specified", many=True)
@connected()
def delete_command(connection: Connection, names: tuple[str, ...]) -> None:
    """Delete queues."""
    from scheduler.api.kinds import QUEUE

    delete_each(connection, QUEUE, names)
