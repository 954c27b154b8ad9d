"""``queue get``: one queue, as ``queue list`` shows it."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import show_once
from scheduler.cli.output import TABLE, WIDE, output_option, print_object
from scheduler.cli.queue.table import queue_view
from scheduler.cli.target import connected, named


@click.command("get")
@named("QUEUE", "-n", "--name", missing="name is mandatory to get the particular queue details")
@output_option()
@connected()
def get_command(connection: Connection, name: str, output: str) -> None:
    """Show a queue."""
    from scheduler.api.kinds import QUEUE

    async def work(cluster: Cluster) -> None:
        raw = await cluster.get(QUEUE, "", name)
        if output in (TABLE, WIDE):
            await show_once(cluster, queue_view(lambda queue: queue.metadata.name == name), output)
        else:
            print_object(raw, output, QUEUE)

    connection.run(work)
