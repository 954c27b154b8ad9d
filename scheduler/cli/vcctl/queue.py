"""``vcctl queue``: create, show, operate and delete queues."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.queue.change import OPEN, check_operation, create_queue, operate_queue
from scheduler.cli.queue.show import queue_view
from scheduler.cli.vcctl.flags import connection_flags, name_flag, required
from scheduler.cli.vcctl.table import print_view


@click.group("queue")
def queue_group() -> None:
    """Create, show, open and close queues."""


@queue_group.command("create")
@name_flag("QUEUE", "-n", default="test")
@click.option("-w", "--weight", type=int, default=1, show_default=True, help="Weight.")
@click.option("-S", "--state", default=OPEN, show_default=True, help="Open or Closed.")
@connection_flags()
def create_command(connection: Connection, name: str, weight: int, state: str) -> None:
    """Create a queue."""
    connection.run(lambda cluster: create_queue(cluster, name, {"weight": weight}, state))


@queue_group.command("delete")
@name_flag("QUEUE", "-n")
@connection_flags()
def delete_command(connection: Connection, name: str) -> None:
    """Delete a queue."""
    from scheduler.api.kinds import QUEUE

    required(name, "queue name must be specified")
    connection.run(lambda cluster: cluster.delete(QUEUE, "", name))


@queue_group.command("operate")
@name_flag("QUEUE", "-n")
@click.option("-w", "--weight", type=int, default=0, help="The new weight, for update.")
@click.option("-a", "--action", default="", help="open, close or update.")
@connection_flags()
def operate_command(connection: Connection, name: str, weight: int, action: str) -> None:
    """Open or close a queue, or change its weight."""
    check_operation(required(name, "queue name must be specified"), action, weight)
    connection.run(lambda cluster: operate_queue(cluster, name, action, weight))


@queue_group.command("list")
@connection_flags()
def list_command(connection: Connection) -> None:
    """List queues."""
    connection.run(lambda cluster: print_view(cluster, queue_view(lambda _: True)))


@queue_group.command("get")
@name_flag("QUEUE", "-n")
@connection_flags()
def get_command(connection: Connection, name: str) -> None:
    """Show the row of a queue."""
    from scheduler.api.kinds import QUEUE

    required(name, "name is mandatory to get the particular queue details")

    async def work(cluster: Cluster) -> None:
        await cluster.get(QUEUE, "", name)
        await print_view(cluster, queue_view(lambda queue: queue.metadata.name == name))

    connection.run(work)
