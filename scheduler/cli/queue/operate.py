"""``queue operate``: open or close a queue by a Command to the queue controller, or change its weight."""

import click

from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.failure import Failed
from scheduler.cli.orders import order
from scheduler.cli.target import connected, named
from scheduler.cli.text import echo

_OPEN, _CLOSE, _UPDATE = "open", "close", "update"


@click.command("operate")
@named("QUEUE", "-n", "--name", missing="queue name must be specified")
@click.option("-a", "--action", default="", metavar="[open|close|update]", help="What to do.")
@click.option("-w", "--weight", type=int, default=0, help="The new weight, for update.")
@connected()
def operate_command(connection: Connection, name: str, action: str, weight: int) -> None:
    """Open or close a queue, or change its weight."""
    from scheduler.api.batch import Action
    from scheduler.api.kinds import QUEUE

    if not action:
        raise Failed("action can not be null")
    if action not in (_OPEN, _CLOSE, _UPDATE):
        raise Failed(f"action {action} invalid, valid actions are open, close and update")
    if action == _UPDATE and not weight:
        raise Failed(f"when update queue {name}, weight must be specified, the value must be greater than 0")

    async def work(cluster: Cluster) -> None:
        if action == _UPDATE:
            await cluster.patch(QUEUE, "", name, {"spec": {"weight": weight}})
            echo(f"update queue {name} successfully")
            return
        wanted = Action.OPEN_QUEUE if action == _OPEN else Action.CLOSE_QUEUE
        command = await order(cluster, QUEUE, name, wanted, DEFAULT_NAMESPACE)
        echo(f"{action} queue {name}: Command {command} created in namespace {DEFAULT_NAMESPACE}")

    connection.run(work)
